"""Exports an ALBERT as models for LiteRT (TensorFlow Lite): float32, float16 and int8.

    python -m albert_tf export_to_tflite --init_checkpoint=albert_base_v2 --output_dir=tflite

writes output_dir/pretrainer_float32.tflite and so on, and prints the size of each and the largest difference between
its outputs, as the package ai_edge_litert computes them, and the model's. int8 is TensorFlow Lite's dynamic range
quantization: 8-bit weights, float32 inputs and outputs. With --score_data, the model is scored on a dev file before and
after the export.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Annotated, Any

from albert_tf.config import check_length
from albert_tf.export import PRECISIONS
from albert_tf.tasks.config import ModelToExport
from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf
from albert_tf.utils.outputs import used_alone, write_bytes
from albert_tf.weights.pooling import pooling_arguments


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ModelToExport):
    output_dir: Annotated[str, "Directory of the .tflite files."]
    precision: Annotated[
        tuple[str, ...], OneOf(PRECISIONS), "Precision of the weights. One file is written for each. Repeat the flag "
        "for several values."] = PRECISIONS
    max_seq_length: Annotated[
        int | None, bounds.SEQ_LENGTH, "Number of tokens of an input. Shorter inputs must be padded to it. Default: "
        "the number stored with the weights, or the model's max_position_embeddings if none is stored."] = None
    signature_lengths: Annotated[
        tuple[int, ...], bounds.SEQ_LENGTH, "Comma-separated numbers of tokens. Each file then has a signature "
        "length_N for each number N, which share the weights. Default: one signature for inputs of --max_seq_length "
        "tokens."] = ()
    max_predictions_per_seq: Annotated[
        int, bounds.PREDICTIONS, "Number of masked_lm_positions of an input, for --model=pretrainer."] = 20


def main(options: Options) -> None:
    from albert_tf.export import tflite
    from albert_tf.export.saved_model import ModelWithRunner, print_differences
    from albert_tf.tasks.scores import check_scores, scorer
    from albert_tf.weights.choice import choose

    with used_alone(options.output_dir, "export"):
        selected, scoring = choose(options.source, num_layers=options.layers.num_layers), options.scoring
        head = selected.head(options.head.model)
        model = selected.pretrained(head, **pooling_arguments(selected, head, options.pooling))
        check_length(options.max_seq_length, model.config)
        longest, lengths = options.max_seq_length or model.row_length, sorted(set(options.signature_lengths))
        if lengths:
            longest, most = lengths[-1], model.config.max_position_embeddings
            if longest > most:
                raise ValueError(f"--signature_lengths={longest} is more than the model's max_position_embeddings, "
                                 f"{most}")
        shape: dict[str, Any] = dict(max_seq_length=lengths or longest,
                                     max_predictions_per_seq=options.max_predictions_per_seq)
        score = scorer(selected, model, scoring, longest) if scoring.score_data else None
        flatbuffers = {precision: tflite.convert(model, precision, **shape) for precision in options.precision}
        if score:
            def opened(flatbuffer: bytes) -> ModelWithRunner:
                return ModelWithRunner(model, tflite.runner(flatbuffer, shape["max_seq_length"]), longest)

            # Texts are truncated to the largest length of the flatbuffer, before the export as well.
            check_scores(score, ModelWithRunner(model, model, longest), (
                (precision, functools.partial(opened, flatbuffer))
                for precision, flatbuffer in flatbuffers.items()), scoring.max_score_drop)
        for precision, flatbuffer in flatbuffers.items():
            path = os.path.join(options.output_dir, f"{head}_{precision}.tflite")
            write_bytes(path, flatbuffer)
            print_differences(path, flatbuffer, tflite.differences(flatbuffer, model, **shape))

"""Exports an ALBERT as models for LiteRT (TensorFlow Lite): float32, float16 and int8.

    python -m albert_tf export_to_tflite --init_checkpoint=albert_base_v2 --output_dir=tflite

writes output_dir/pretrainer_float32.tflite and so on, and prints the size of each and the largest difference between
its outputs, as the package ai_edge_litert computes them, and the model's. int8 is TensorFlow Lite's dynamic range
quantization: 8-bit weights, float32 inputs and outputs. With --score_data, the model is scored on a dev file before and
after the export.
"""

from __future__ import annotations

import functools
import os
from typing import Sequence

from absl import flags

from albert_tf import keras
from albert_tf.commands import flag_fields as fields, scored_exports, shared_flags as shared, vector_flags
from albert_tf.commands.scored_exports import check_scores
from albert_tf.export import tflite
from albert_tf.export.outputs import WithOutputs, write_and_compare
from albert_tf.utils import bounds
from albert_tf.utils.outputs import used_alone

FLAGS = flags.FLAGS


def define_flags() -> None:
    shared.define_source_flags()
    shared.define_head_flag("exported")
    vector_flags.define_pooling_flags()
    vector_flags.define_vector_flags()
    shared.define_num_layers_flag()
    fields.define_required("output_dir", "Directory of the .tflite files.")
    flags.DEFINE_multi_enum("precision", list(tflite.PRECISIONS), tflite.PRECISIONS, "Precision of the weights. One "
                            "file is written for each. Repeat the flag for several values.")
    fields.define_integer("max_seq_length", None, "Number of tokens of an input. Shorter inputs must be padded to it. "
                          "Default: the number stored with the weights, or the model's max_position_embeddings if none "
                          "is stored.", *bounds.SEQ_LENGTH)
    flags.DEFINE_list("signature_lengths", None, "Comma-separated numbers of tokens. Each file then has a signature "
                      "length_N for each number N, which share the weights. Default: one signature for inputs of "
                      "--max_seq_length tokens.")
    fields.define_integer("max_predictions_per_seq", 20, "Number of masked_lm_positions of an input, for "
                          "--model=pretrainer.", *bounds.PREDICTIONS)
    scored_exports.define_score_flags()


def main() -> None:
    with used_alone(FLAGS.output_dir, "export"):
        selected = shared.resolve_model()
        head = selected.head(FLAGS.model)
        model = selected.pretrained(head, **vector_flags.pooling_arguments(selected, head))
        shared.check_length(FLAGS.max_seq_length, model.config)
        longest, lengths = FLAGS.max_seq_length or model.row_length, None
        if FLAGS.signature_lengths is not None:
            lengths = lengths_of(FLAGS.signature_lengths, model.config.max_position_embeddings)
            longest = lengths[-1]
        shape = dict(max_seq_length=lengths or longest, max_predictions_per_seq=FLAGS.max_predictions_per_seq)
        score = scored_exports.scorer_from_flags(selected, head)
        flatbuffers = {precision: tflite.convert(model, precision, **shape) for precision in FLAGS.precision}
        if score:
            # Texts are truncated to the largest length of the flatbuffer, before the export as well.
            check_scores(score, WithOutputs(model, model, longest), (
                (precision, functools.partial(_opened, model, flatbuffer, shape["max_seq_length"], longest))
                for precision, flatbuffer in flatbuffers.items()), FLAGS.max_score_drop)
        for precision, flatbuffer in flatbuffers.items():
            write_and_compare(os.path.join(FLAGS.output_dir, f"{head}_{precision}.tflite"), flatbuffer,
                              tflite.differences(flatbuffer, model, **shape))


def _opened(model: keras.Model, flatbuffer: bytes, length: int | Sequence[int], longest: int) -> WithOutputs:
    return WithOutputs(model, tflite.runner(flatbuffer, length), longest)


def lengths_of(values: list[str], most: int) -> list[int]:
    """The numbers of --signature_lengths in ascending order, each from 1 to the model's number of positions."""
    for value in values or [""]:
        if not value.isdecimal() or not 1 <= int(value) <= most:
            raise ValueError(f"--signature_lengths must be numbers of tokens from 1 to {most}, the model's "
                             f"max_position_embeddings, such as 32,128. Received: {','.join(values)}")
    return sorted({int(value) for value in values})

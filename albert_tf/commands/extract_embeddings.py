"""Converts lines of text to vectors of a pre-trained ALBERT.

    python -m albert_tf extract_embeddings --init_checkpoint=albert_base_v2 --input_file=lines.txt \\
        --output_file=vectors.npy

writes the vector of each line, float32 [lines, hidden_size]: by the pooling of a folder of sentence-transformers, or
else the mean over the tokens.

vectors.npy.manifest.json lists what the vectors were made from.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Annotated

from absl import logging

from albert_tf import keras
from albert_tf.config import check_length
from albert_tf.data.rows import read_texts, text_column_help
from albert_tf.training.config import Precision
from albert_tf.utils import bounds
from albert_tf.utils.manifests import output_set
from albert_tf.utils.outputs import array_writer
from albert_tf.utils.progress import count_of, progress
from albert_tf.weights.pooling import Pooling, Prompt, sentence_pooling
from albert_tf.weights.source import SOURCE_OPTIONS, Source

_MADE_FROM = (*SOURCE_OPTIONS, "input_file", "precision")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Source, Pooling, Prompt, Precision):
    input_file: Annotated[str, "Path of a UTF-8 text file, one text per line."]
    text_column: Annotated[str | None, text_column_help("text")] = None
    output_file: Annotated[str, "Path of the vectors' file, which must end in .npy."]
    max_seq_length: Annotated[
        int | None, bounds.SEQ_LENGTH.at_least(3), "Largest number of tokens of a text; longer texts are truncated. "
        "Default: the number stored with the weights, or the model's max_position_embeddings if none is stored."] = None
    batch_size: Annotated[int, bounds.BATCH_SIZE, "Number of texts in a batch."] = 32


def main(options: Options) -> None:
    from albert_tf.data.feature_table import fingerprint
    from albert_tf.tasks.sentence_vectors.vectors import embed, prompted, token_ids
    from albert_tf.training.teacher import TEXT_DIGEST
    from albert_tf.weights.choice import choose

    if os.path.splitext(options.output_file)[1] != ".npy":
        raise ValueError(f"--output_file must end in .npy. Received: {options.output_file}")
    keras.mixed_precision.set_global_policy(options.precision)
    with output_set({options.output_file: [options.output_file]}) as outputs:
        lines = list(read_texts(options.input_file, options.text_column))
        if not lines:
            raise ValueError(f"{options.input_file} has no lines")
        selected = choose(options)
        pooling = sentence_pooling(selected, options)
        model = selected.pretrained("sentence_encoder", **pooling)
        check_length(options.max_seq_length, model.config)
        tokenizer = selected.vocabulary.tokenizer(model.config)
        prompt, = prompted(model.settings, [""])
        made_from = {**{name: getattr(options, name) for name in _MADE_FROM}, **pooling, "prompts": prompt,
                     TEXT_DIGEST: fingerprint(options.input_file)}
        if options.text_column:
            made_from["text_column"] = options.text_column
        outputs.made_from = made_from
        rows = token_ids(tokenizer, prompted(model.settings, lines), model.row_length)
        with (array_writer(outputs.temporary[options.output_file], (len(rows), model.vector_size)) as write,
              progress("embedding", len(rows), " lines") as done):
            for line, vector in embed(model, rows, options.batch_size):
                write(line, vector[None])
                done(1)
        logging.info("%s: %s of %s", options.output_file, count_of(len(rows), "vector"),
                     count_of(model.vector_size, "number"))

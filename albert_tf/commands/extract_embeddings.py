"""Converts lines of text to vectors of a pre-trained ALBERT.

    python -m albert_tf extract_embeddings --init_checkpoint=albert_base_v2 --input_file=lines.txt \\
        --output_file=vectors.npy

writes the vector of each line, float32 [lines, hidden_size]: by the pooling of a folder of sentence-transformers, or
else the mean over the tokens.

With --per_token, vectors.npy has the sequence output of all lines one after the other, including [CLS] and [SEP],
float32 [tokens, hidden_size]. Two more files are written then: vectors.input_ids.npy, int32 [tokens], and
vectors.row_splits.npy, int64 [lines + 1]. Line i has the rows from row_splits[i] to row_splits[i + 1] - 1.

vectors.npy.manifest.json lists what the vectors were made from.
"""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

import numpy as np
from absl import logging

from albert_tf import keras, options as fields
from albert_tf.config import check_length
from albert_tf.data.rows import read_texts, text_column_option
from albert_tf.training.config import Precision
from albert_tf.utils.manifests import output_set
from albert_tf.utils.outputs import array_writer
from albert_tf.utils.progress import count_of, progress
from albert_tf.weights.source import SOURCE_OPTIONS, Pooling, Prompt, Source, Texts, check_no_pooling

if TYPE_CHECKING:
    from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder

_MADE_FROM = (*SOURCE_OPTIONS, "input_file", "per_token", "precision")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Source, Pooling, Prompt, Texts, Precision):
    input_file: str = fields.required("Path of a UTF-8 text file, one text per line.")
    text_column: str | None = text_column_option("text")
    output_file: str = fields.required("Path of the vectors' file, which must end in .npy.")
    per_token: bool = fields.boolean(
        False, "Whether to write one vector per token instead of one per line. --pooling, --normalize and "
        "--truncate_dim must not be set then.")


def main(options: Options) -> None:
    from albert_tf.data.feature_table import fingerprint
    from albert_tf.tasks.sentence_vectors.vectors import prompted, token_files, token_ids
    from albert_tf.weights.resolved_model import resolve, sentence_pooling
    from albert_tf.weights.teacher import TEXT_DIGEST

    if os.path.splitext(options.output_file)[1] != ".npy":
        raise ValueError(f"--output_file must end in .npy. Received: {options.output_file}")
    keras.mixed_precision.set_global_policy(options.precision)
    if options.per_token:
        check_no_pooling(options, "--per_token and --{} exclude each other: vectors of tokens are not pooled")
    files = [options.output_file, *(token_files(options.output_file) if options.per_token else ())]
    with output_set({options.output_file: files}) as outputs:
        lines = list(read_texts(options.input_file, options.text_column))
        if not lines:
            raise ValueError(f"{options.input_file} has no lines")
        selected = resolve(options)
        pooling = sentence_pooling(selected, options)
        model = selected.pretrained("sentence_encoder", **pooling)
        check_length(options.max_seq_length, model.config)
        tokenizer = selected.vocabulary.tokenizer(model.config)
        prompt, = prompted(model.settings, [""])
        made_from = {**{name: getattr(options, name) for name in _MADE_FROM}, **pooling, "prompts": prompt,
                     TEXT_DIGEST: fingerprint(options.input_file)}
        if options.text_column:
            made_from["text_column"] = options.text_column
        outputs.made_from, path = made_from, outputs.temporary[options.output_file]
        rows = token_ids(tokenizer, prompted(model.settings, lines), model.row_length)
        height = write_vectors(path, model, rows, options.batch_size, options.per_token)
        logging.info("%s: %s of %s", options.output_file, count_of(height, "vector"),
                     count_of(model.vector_size, "number"))


def write_vectors(
    path: str, model: AlbertSentenceEncoder, rows: list[np.ndarray], batch_size: int, per_token: bool
) -> int:
    """Writes the vectors of rows of ids, and the files of token_files. Returns the number of vectors."""
    from albert_tf.tasks.sentence_vectors.vectors import embed, vectors_function, write_token_files

    lengths = np.array([len(row) for row in rows])
    starts = np.cumsum(lengths) - lengths if per_token else np.arange(len(rows))
    height = int(lengths.sum()) if per_token else len(rows)
    with array_writer(path, (height, model.config.hidden_size if per_token else model.vector_size)) as write:
        with progress("embedding", len(rows), " lines") as done:
            for vectors in embed(vectors_function(model), rows, batch_size):
                write(starts[vectors.text], vectors.tokens if per_token else vectors.pooled[None])
                done(1)
    if per_token:
        write_token_files(path, rows)
    return height

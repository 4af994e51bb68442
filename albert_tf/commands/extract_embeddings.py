"""Converts lines of text to vectors of a pre-trained ALBERT.

    python -m albert_tf extract_embeddings --init_checkpoint=albert_base_v2 --input_file=lines.txt \\
        --output_file=vectors.npy

writes the vector of each line, float32 [lines, hidden_size]: by the pooling of a folder of sentence-transformers, or
else the mean over the tokens. With --vector_precision=int8 or binary the vectors are int8, and with int8
vectors.ranges.npy has the range of each dimension, float32 [2, hidden_size].

With --per_token, vectors.npy has the sequence output of all lines one after the other, including [CLS] and [SEP],
float32 [tokens, hidden_size]. Two more files are written then: vectors.input_ids.npy, int32 [tokens], and
vectors.row_splits.npy, int64 [lines + 1]. Line i has the rows from row_splits[i] to row_splits[i + 1] - 1.

vectors.npy.manifest.json lists what the vectors were made from.
"""

from __future__ import annotations

import os

import numpy as np
from absl import flags, logging

from albert_tf import keras
from albert_tf.commands import flag_fields as fields, shared_flags as shared, vector_flags
from albert_tf.data.rows import read_texts
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.vector_precision import VectorPrecision
from albert_tf.tasks.sentence_vectors.embeddings import companions, embed, token_ids, write_token_files
from albert_tf.tasks.sentence_vectors.stored_vectors import made_with, ranges_in, ranges_path, write_stored
from albert_tf.utils.arrays import array_writer
from albert_tf.utils.outputs import output_set
from albert_tf.utils.progress import count_of, progress

FLAGS = flags.FLAGS
_MADE_FROM = (*shared.MODEL_FLAGS, "input_file", "per_token", "precision", "vector_precision", "vector_ranges")


def define_flags() -> None:
    shared.define_source_flags()
    vector_flags.define_pooling_flags()
    vector_flags.define_vector_flags()
    fields.define_required("input_file", "Path of a UTF-8 text file, one text per line.")
    shared.define_text_column_flag()
    fields.define_required("output_file", "Path of the vectors' file, which must end in .npy.")
    flags.DEFINE_bool("per_token", False, "Whether to write one vector per token instead of one per line. --pooling, "
                      "--normalize, --truncate_dim and --vector_precision must not be set then.")
    vector_flags.define_text_flags("lines")
    shared.define_precision_flag()


def main() -> None:
    if os.path.splitext(FLAGS.output_file)[1] != ".npy":
        raise ValueError(f"--output_file must end in .npy. Received: {FLAGS.output_file}")
    keras.mixed_precision.set_global_policy(FLAGS.precision)
    for name in ("pooling", "normalize", "truncate_dim", "vector_precision"):
        if FLAGS.per_token and FLAGS[name].value not in (None, "float32"):
            raise ValueError(f"--per_token and --{name} exclude each other: the vectors of tokens are not pooled")
    files = [FLAGS.output_file, *companions(FLAGS.output_file, FLAGS.per_token)]
    if FLAGS.vector_precision == "int8":
        files.append(ranges_path(FLAGS.output_file))
    with output_set({FLAGS.output_file: files}) as outputs:
        lines = list(read_texts(FLAGS.input_file, FLAGS.text_column))
        if not lines:
            raise ValueError(f"{FLAGS.input_file} has no lines")
        selected = shared.resolve_model()
        pooling = vector_flags.sentence_pooling(selected)
        model = selected.pretrained("sentence_encoder", **pooling)
        # The ranges of int8 are those of the vectors themselves, unless the flag has others.
        has_own_ranges = FLAGS.vector_precision == "int8" and not FLAGS.vector_ranges
        precision = None if has_own_ranges else vector_flags.vector_precision()
        if precision is not None:
            precision.check_size(model.vector_size)
        shared.check_length(FLAGS.max_seq_length, model.config)
        tokenizer = selected.vocabulary.tokenizer(model.config)
        made_from = {**{name: FLAGS[name].value for name in _MADE_FROM}, **pooling, **made_with(model, tokenizer)}
        if FLAGS.text_column:
            made_from["text_column"] = FLAGS.text_column
        outputs.made_from, path = made_from, outputs.temporary[FLAGS.output_file]
        exact = path if FLAGS.vector_precision == "float32" else f"{path}.float32"
        height = write_vectors(exact, model, token_ids(tokenizer, lines, model.row_length), FLAGS.batch_size,
                               FLAGS.per_token)
        if exact != path:
            write_stored(exact, path, precision or VectorPrecision("int8", ranges_in(exact)))
        logging.info("%s: %s of %s", FLAGS.output_file, count_of(height, "vector"),
                     count_of(model.vector_size, "number"))


def write_vectors(
    path: str, model: AlbertSentenceEncoder, rows: list[np.ndarray], batch_size: int, per_token: bool
) -> int:
    """Writes the vectors of rows of ids, and their companions. Returns the number of vectors."""
    lengths = np.array([len(row) for row in rows])
    starts = np.cumsum(lengths) - lengths if per_token else np.arange(len(rows))
    height = int(lengths.sum()) if per_token else len(rows)
    with array_writer(path, (height, model.config.hidden_size if per_token else model.vector_size)) as write:
        with progress("embedding", len(rows), " lines") as done:
            for vectors in embed(model, rows, batch_size):
                write(starts[vectors.text], vectors.tokens if per_token else vectors.pooled[None])
                done(1)
    if per_token:
        write_token_files(path, lengths, np.concatenate(rows))
    return height

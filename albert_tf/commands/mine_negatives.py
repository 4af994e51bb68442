"""Mines hard negatives for pairs of texts: near texts that do not belong together.

    python -m albert_tf mine_negatives --init_checkpoint=all-MiniLM-L6-v2 --input_file=pairs.tsv --output_file=mined.tsv

writes each pair with --num_negatives more columns, for run_sentence_embeddings --objective=pairs --num_negatives=3. The
candidates are the second texts of all pairs, and the lines of --corpus_file. The manifest next to --output_file lists
what the negatives were made from.
"""

from __future__ import annotations

import dataclasses
import os

from absl import flags, logging

from albert_tf import keras
from albert_tf.commands import flag_fields as fields, shared_flags as shared, vector_flags
from albert_tf.tasks.sentence_vectors.features import read_pairs
from albert_tf.tasks.sentence_vectors.mining import FORMATS, MiningOptions, as_rows, mine_negatives
from albert_tf.text.lines import read_lines
from albert_tf.utils import bounds
from albert_tf.utils.outputs import check_output, output_with_manifest, write_text
from albert_tf.utils.progress import count_of

FLAGS = flags.FLAGS
_MADE_FROM = (*shared.MODEL_FLAGS, "input_file", "corpus_file", "precision")


def define_flags() -> None:
    shared.define_source_flags()
    vector_flags.define_pooling_flags(with_normalize=False)
    vector_flags.define_vector_flags(with_precision=False)
    fields.define_required("input_file", "Path of the pairs: a .tsv or .csv file with two columns and no header, or "
                           "JSON lines with text_a and text_b.")
    fields.define_required("output_file", "Path of the pairs with their negatives: .tsv, .csv, .jsonl or .json.")
    flags.DEFINE_string("corpus_file", None, "Path of a UTF-8 text file whose lines may be negatives, besides the "
                        "second texts of all pairs.")
    fields.define_integer("num_negatives", 3, "Number of negatives of a pair. A pair for which fewer are found is left "
                          "out.", *bounds.CANDIDATES)
    fields.define_integer("range_min", 0, "Number of the nearest texts that are passed over, since they may belong to "
                          "the first text too.", *bounds.CANDIDATES.at_least(0))
    fields.define_integer("range_max", None, "Number of nearest texts that are looked at. Default: as many as "
                          "--num_negatives and --range_min need, or ten times --num_negatives with a limit on cosines.",
                          *bounds.CANDIDATES)
    fields.define_float("max_score", None, "Highest cosine of a negative. Default: none.", -1.0, 1.0)
    fields.define_float("min_score", None, "Lowest cosine of a negative. Default: none.", -1.0, 1.0)
    fields.define_float("absolute_margin", None, "Least difference of a pair's cosine and that of a negative. Default: "
                        "none.", 0.0, 2.0)
    fields.define_float("relative_margin", None, "Least difference of a pair's cosine and that of a negative, as a "
                        "share of the pair's: 0.05 keeps negatives below 95 % of it. Default: none.", 0.0, 1.0)
    vector_flags.define_text_flags("texts")
    shared.define_precision_flag()


def main() -> None:
    if os.path.splitext(FLAGS.output_file)[1].lower() not in FORMATS:
        raise ValueError(f"--output_file must end in one of {', '.join(FORMATS)}. Received: {FLAGS.output_file}")
    check_output(FLAGS.output_file)  # before the negatives are mined
    keras.mixed_precision.set_global_policy(FLAGS.precision)
    options = fields.from_flags(MiningOptions)
    pairs = read_pairs(FLAGS.input_file)
    corpus = [line for line in read_lines(FLAGS.corpus_file) if line.strip()] if FLAGS.corpus_file else []
    if FLAGS.corpus_file and not corpus:
        raise ValueError(f"{FLAGS.corpus_file} has no lines")
    selected = shared.resolve_model()
    pooling = vector_flags.sentence_pooling(selected)
    model = selected.pretrained("sentence_encoder", **pooling)
    mined = mine_negatives(model, selected.vocabulary.tokenizer(model.config), pairs, options, corpus, FLAGS.batch_size,
                           FLAGS.block_size)
    if not mined:
        raise ValueError(f"{FLAGS.input_file}: no pair has {count_of(options.num_negatives, 'negative')}: allow more "
                         "by --num_negatives, --range_max, the scores and margins, or a --corpus_file")
    rows = as_rows(mined, FLAGS.output_file)
    made_from = {**{name: FLAGS[name].value for name in _MADE_FROM}, **pooling, **dataclasses.asdict(options)}
    with output_with_manifest(FLAGS.output_file, made_from) as (temporary, _):
        write_text(temporary, rows)
    logging.info("%s: %s with %s each; %d left out", FLAGS.output_file, count_of(len(mined), "pair"),
                 count_of(options.num_negatives, "negative"), len(pairs) - len(mined))

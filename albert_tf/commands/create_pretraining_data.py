"""Makes pre-training records from text: sentence-order pairs with n-gram masks.

    python -m albert_tf create_pretraining_data --input_file='text/*.txt' --output_file=data/train.tfrecord \\
        --spm_model_file=30k-clean.model --max_seq_length=512 --max_predictions_per_seq=77

The text has one sentence per line and a blank line between documents. With --split_lines=en, a line may have any number
of sentences.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from absl import flags, logging

from albert_tf.commands import flag_fields as fields, shared_flags as shared
from albert_tf.pretraining.creation import CreationOptions, create_pretraining_data, summary, warning
from albert_tf.pretraining.examples import MAX_SEQ_LENGTH, OBJECTIVES, MaskingOptions, SegmentOptions
from albert_tf.utils import bounds
from albert_tf.utils.files import expand_globs
from albert_tf.utils.outputs import shard_paths
from albert_tf.utils.progress import count_of
from albert_tf.weights.vocabulary_files import VocabularyFiles

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

FLAGS = flags.FLAGS


def define_flags() -> None:
    fields.define_required("input_file", "Comma-separated list of paths and globs of text files. Files whose names end "
                           "in .gz or .bz2 are decompressed.")
    shared.define_text_column_flag("document, with a sentence on each line")
    fields.define_required("output_file", "Comma-separated list of TFRecord files to write. Examples are shuffled over "
                           "all files.")
    shared.define_vocabulary_flags(with_weights=False)
    flags.DEFINE_string("split_lines", None, "Code of the text's language, such as en or zh: each line is split into "
                        "sentences by the rules of that language. It needs the package sentencex. Default: each line "
                        "is a sentence, and what is longer than --max_seq_length is lost.")
    flags.DEFINE_string("input_file_mode", "r", "Has no effect: text is always read as UTF-8. Scripts for the release "
                        "can set it.")
    flags.DEFINE_bool("do_whole_word_mask", True, "Whether to mask whole words. If false, each piece counts as a word.")
    flags.DEFINE_bool("do_permutation", False, "Whether to choose a second set of n-grams in each example, whose "
                      "tokens are permuted at random and predicted too.")
    flags.DEFINE_bool("favor_shorter_ngram", True, "Whether an n-gram of n words is drawn with a probability "
                      "proportional to 1/n. If false, the probabilities are reversed and the longest n-gram is most "
                      "likely.")
    flags.DEFINE_bool("random_next_sentence", False, "The release's name for --sentence_objective=nsp.")
    flags.DEFINE_enum("sentence_objective", "sop", OBJECTIVES, "The sentence label of an example: whether the segments "
                      "are swapped (sop), whether the second one is from another document (nsp), or no label (none).")
    fields.define_integer("max_seq_length", 512, "Largest number of tokens of an example, including special tokens.",
                          *MAX_SEQ_LENGTH)
    fields.define_integer("ngram", 3, "The longest n-gram to mask, in words.", *bounds.NGRAM)
    fields.define_integer("max_predictions_per_seq", 20, "Largest number of masked tokens of an example.",
                          *bounds.PREDICTIONS)
    fields.define_integer("random_seed", 12345, "Seed of all random numbers. The examples do not depend on the number "
                          "of workers.", *bounds.SEED)
    fields.define_integer("dupe_factor", 40, "Number of passes over the text, each with other segments and masks.",
                          *bounds.DUPE_FACTOR)
    fields.define_float("masked_lm_prob", 0.15, "Share of the tokens to mask, between 0 and 1.")
    fields.define_float("short_seq_prob", 0.1, "Share of the examples, from 0 to 1, that have a random length below "
                        "--max_seq_length.", 0.0, 1.0)
    flags.DEFINE_enum("engine", "local", ["local", "beam"], "The work is done by processes on this machine (local), or "
                      "by the workers of an Apache Beam runner (beam); see docs/large_corpora.md.")
    flags.DEFINE_string("beam_pipeline_options", None, "Comma-separated options of the Beam pipeline, such as "
                        "runner=FlinkRunner,flink_master=host:8081. Default: Beam's local runner with --num_workers "
                        "processes.")
    fields.define_integer("num_workers", min(os.cpu_count() or 1, bounds.WORKERS.upper), "Number of processes.",
                          *bounds.WORKERS)
    fields.define_integer("num_shards", 1, "Number of shards of each output: with N > 1, x.tfrecord becomes "
                          "x-00000-of-0000N.tfrecord, ...", *bounds.SHARDS)
    flags.DEFINE_bool("release_compatible", False, "Whether to reproduce three errors of the release: a chunk of one "
                      "sentence is paired with a random document, the short length is drawn once per document, and a "
                      "segment may begin inside a word.")


def main() -> None:
    pipeline_options = beam_options()
    if not (FLAGS.spm_model_file or FLAGS.vocab_file):
        raise ValueError("--spm_model_file or --vocab_file is missing")
    tokenizer = VocabularyFiles().replaced_by(shared.vocabulary_from_flags()).tokenizer()
    objective = "nsp" if FLAGS.random_next_sentence else FLAGS.sentence_objective
    segments = SegmentOptions(FLAGS.max_seq_length, FLAGS.short_seq_prob, objective, FLAGS.release_compatible)
    masking = MaskingOptions(FLAGS.max_predictions_per_seq, FLAGS.masked_lm_prob, FLAGS.ngram,
                             FLAGS.favor_shorter_ngram, FLAGS.do_whole_word_mask, FLAGS.do_permutation)
    options = CreationOptions(segments, masking, FLAGS.dupe_factor, FLAGS.random_seed, FLAGS.split_lines)
    input_files = expand_globs(FLAGS.input_file)
    outputs = list(filter(None, map(str.strip, FLAGS.output_file.split(","))))
    if not outputs:
        raise ValueError(f"--output_file must name at least one file. Received: {FLAGS.output_file}")
    if len(outputs) > len(set(outputs)):
        raise ValueError(f"--output_file names a file twice: give each another name. Received: {FLAGS.output_file}")
    shards = {path: shard_paths(path, FLAGS.num_shards) for path in outputs}
    files = f"{count_of(len(input_files), 'text file')} -> {count_of(len(outputs) * FLAGS.num_shards, 'record file')}"
    origin = shared.origin(input_files)
    if pipeline_options:
        from albert_tf.beam import creation

        logging.info("%s, on Apache Beam", files)
        statistics = creation.create_pretraining_data(input_files, shards, tokenizer, options, pipeline_options,
                                                      FLAGS.text_column, origin)
    else:
        logging.info("%s, %s", files, count_of(FLAGS.num_workers, "worker"))
        statistics = create_pretraining_data(input_files, shards, tokenizer, options, FLAGS.num_workers,
                                             FLAGS.text_column, origin)
    logging.info(summary(statistics))
    if message := warning(statistics, options):
        logging.warning(message)


def beam_options() -> PipelineOptions | None:
    """The options of the pipeline; None for the local engine."""
    if FLAGS.engine == "local":
        if FLAGS.beam_pipeline_options:
            raise ValueError("--beam_pipeline_options needs --engine=beam")
        return None
    if importlib.util.find_spec("apache_beam") is None:
        raise ValueError("--engine=beam needs Apache Beam, which is not installed: "
                         "in a clone of albert_tf, pip install -r requirements-beam.txt")
    from albert_tf.beam.running import pipeline_options

    return pipeline_options(FLAGS.beam_pipeline_options or "", FLAGS.num_workers)

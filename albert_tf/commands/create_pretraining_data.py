"""Makes pre-training records from text: sentence-order pairs with n-gram masks.

    python -m albert_tf create_pretraining_data --input_file='text/*.txt' --output_file=data/train.tfrecord \\
        --spm_model_file=30k-clean.model --max_seq_length=512 --max_predictions_per_seq=77

The text has one sentence per line and a blank line between documents. With --split_lines=en, a line may have any number
of sentences.

    python -m albert_tf create_pretraining_data --objective=phonemes --input_file=phonemes.jsonl \\
        --output_file=data/phonemes.tfrecord --max_seq_length=512

makes records of phonemized text (see `phonemize`). The flags of masks and segments have no effect then, since masks are
drawn in training.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Annotated, Callable, Iterable

from absl import logging

from albert_tf.commands import flags
from albert_tf.data.rows import text_column_help
from albert_tf.options import Requirement
from albert_tf.pretraining import phonemes
from albert_tf.pretraining.creation import create_pretraining_data, summary, warning
from albert_tf.pretraining.examples import MAX_SEQ_LENGTH, OBJECTIVES, CreationOptions, MaskingOptions, SegmentOptions
from albert_tf.pretraining.phonemes import PhonemeOptions
from albert_tf.text.phonemes import PhonemeTable
from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf, Range
from albert_tf.utils.files import expand_globs
from albert_tf.utils.imports import check_installed
from albert_tf.utils.manifests import shard_paths
from albert_tf.utils.progress import count_of
from albert_tf.weights.source import VocabularySource
from albert_tf.weights.vocabulary import VocabularyFiles


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(VocabularySource):
    input_file: Annotated[
        str, "Comma-separated list of paths and globs of text files. Files that end in .gz or .bz2 are decompressed."]
    text_column: Annotated[str | None, text_column_help("document, with a sentence on each line")] = None
    output_file: Annotated[
        str, "Comma-separated list of TFRecord files to write. Examples are shuffled over all files."]
    objective: Annotated[
        str, OneOf(["text", "phonemes"]), "What the records are for: text, for masked LM and sentence order; or "
        "phonemes, for an encoder of phonemes, from JSON lines of words and their phonemes."] = "text"
    phoneme_table: Annotated[
        str | None, "Path of a JSON file with the id of each symbol. Default: the 178 symbols of StyleTTS2."] = None
    word_vocab_size: Annotated[
        int, bounds.VOCAB_SIZE.at_least(20), "Largest number of words that are predicted: the most frequent ones, in "
        "lower case."] = 30000
    word_vocab_file: Annotated[
        str | None, "Path of the words of other records, OUTPUT.words.tsv, which these records then share: for "
        "evaluation records, the words of the training records."] = None
    split_lines: Annotated[
        str | None, "Code of the text's language, such as en or zh: lines are split into sentences by its rules. Needs "
        "the package sentencex. Default: each line is a sentence, and is truncated to --max_seq_length."] = None
    input_file_mode: Annotated[
        str, "Has no effect: text is always read as UTF-8. Scripts for the release can set it."] = "r"
    do_whole_word_mask: Annotated[bool, "Whether to mask whole words. If false, each piece counts as a word."] = True
    do_permutation: Annotated[
        bool, "Whether to choose a second set of n-grams in each example, and to permute and predict its "
        "tokens."] = False
    favor_shorter_ngram: Annotated[
        bool, "Whether an n-gram of n words is drawn with a probability proportional to 1/n. If false, the "
        "probabilities are reversed and the longest n-gram is most likely."] = True
    random_next_sentence: Annotated[bool, "The release's name for --sentence_objective=nsp."] = False
    sentence_objective: Annotated[
        str, OneOf(OBJECTIVES), "The sentence label of an example: whether the segments are swapped (sop), whether the "
        "second one is from another document (nsp), or no label (none)."] = "sop"
    max_seq_length: Annotated[
        int, MAX_SEQ_LENGTH, "Largest number of tokens of an example, including special tokens."] = 512
    ngram: Annotated[int, bounds.NGRAM, "The longest n-gram to mask, in words."] = 3
    max_predictions_per_seq: Annotated[int, bounds.PREDICTIONS, "Largest number of masked tokens of an example."] = 20
    random_seed: Annotated[
        int, bounds.SEED, "Seed of all random numbers. The examples do not depend on the number of workers."] = 12345
    dupe_factor: Annotated[
        int, bounds.DUPE_FACTOR, "Number of passes over the text, each with other segments and masks."] = 40
    masked_lm_prob: Annotated[float, "Share of the tokens to mask, between 0 and 1."] = 0.15
    short_seq_prob: Annotated[
        float, Range(0.0, 1.0), "Share of the examples, from 0 to 1, that have a random length below "
        "--max_seq_length."] = 0.1
    engine: Annotated[
        str, OneOf(["local", "beam"]), "The work is done by processes on this machine (local), or by the workers of an "
        "Apache Beam runner (beam); see docs/pretraining.md."] = "local"
    beam_pipeline_options: Annotated[
        str | None, "Comma-separated options of the Beam pipeline, such as runner=FlinkRunner,flink_master=host:8081. "
        "Default: Beam's local runner with --num_workers processes."] = None
    num_workers: Annotated[int, bounds.WORKERS, "Number of processes."] = min(os.cpu_count() or 1, bounds.WORKERS.upper)
    num_shards: Annotated[
        int, bounds.SHARDS, "Number of shards of each output: with N > 1, x.tfrecord becomes "
        "x-00000-of-0000N.tfrecord, ..."] = 1
    release_compatible: Annotated[
        bool, "Whether to reproduce three errors of the release: a chunk of one sentence is paired with a random "
        "document, the short length is drawn once per document, and a segment may begin inside a word."] = False

    def requirements(self) -> Iterable[Requirement]:
        return [*super().requirements(),
                Requirement(("phoneme_table", "word_vocab_size", "word_vocab_file"), self.objective == "phonemes",
                            "--objective=phonemes"),
                Requirement(("beam_pipeline_options",), self.engine == "beam", "--engine=beam")]


def main(options: Options) -> None:
    if options.objective == "phonemes":
        return create_phonemes(options)
    create: Callable = functools.partial(create_pretraining_data, num_workers=options.num_workers)
    engine = count_of(options.num_workers, "worker")
    if options.engine == "beam":
        check_installed("--engine=beam", "apache_beam")
        from albert_tf.beam import creation

        create = functools.partial(creation.create_pretraining_data, pipeline_options=creation.pipeline_options(
            options.beam_pipeline_options or "", options.num_workers))
        engine = "on Apache Beam"
    if not (options.spm_model_file or options.vocab_file):
        raise ValueError("--spm_model_file or --vocab_file is missing")
    tokenizer = VocabularyFiles().with_overrides(options.user_vocabulary).tokenizer()
    objective = "nsp" if options.random_next_sentence else options.sentence_objective
    segments = SegmentOptions(options.max_seq_length, options.short_seq_prob, objective, options.release_compatible)
    masking = MaskingOptions(options.max_predictions_per_seq, options.masked_lm_prob, options.ngram,
                             options.favor_shorter_ngram, options.do_whole_word_mask, options.do_permutation)
    creation_options = CreationOptions(segments, masking, options.dupe_factor, options.random_seed, options.split_lines)
    input_files, shards = expand_globs(options.input_file), output_shards(options)
    files = f"{count_of(len(input_files), 'text file')} -> {count_of(len(shards) * options.num_shards, 'record file')}"
    origin = flags.origin(input_files)
    logging.info("%s, %s", files, engine)
    statistics = create(input_files, shards, tokenizer, creation_options, text_column=options.text_column,
                        origin=origin)
    logging.info(summary(statistics))
    if message := warning(statistics, creation_options):
        logging.warning(message)


def create_phonemes(options: Options) -> None:
    """Makes records of phonemized text."""
    if options.engine != "local":
        raise ValueError("--objective=phonemes has the engine local only")
    table = PhonemeTable.read(options.phoneme_table)
    phoneme_options = PhonemeOptions(options.max_seq_length, options.word_vocab_size)
    input_files = expand_globs(options.input_file)
    counts = phonemes.create_phoneme_records(
        input_files, output_shards(options), table, phoneme_options, options.num_workers, options.random_seed,
        options.word_vocab_file, flags.origin(input_files))
    logging.info(phonemes.summary(counts))


def output_shards(options: Options) -> dict[str, list[str]]:
    """The shards of each output."""
    outputs = list(filter(None, map(str.strip, options.output_file.split(","))))
    if not outputs:
        raise ValueError(f"--output_file must name at least one file. Received: {options.output_file}")
    if len(outputs) > len(set(outputs)):
        raise ValueError(f"--output_file names a file twice: give each another name. Received: {options.output_file}")
    return {path: shard_paths(path, options.num_shards) for path in outputs}

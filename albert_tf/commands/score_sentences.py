"""Scores sentences by their pseudo-log-likelihood; accuracy on minimal pairs (BLiMP).

    python -m albert_tf score_sentences --init_checkpoint=model_dir --input_file=sentences.txt
    python -m albert_tf score_sentences --init_checkpoint=model_dir --pairs=blimp --output_file=blimp.json

The first form prints a score in nats and the sentence for each line. The second form prints the share of pairs in
which the grammatical sentence has the higher score: by file, by field, as the mean of the files (the BabyLM challenge's
average) and over all pairs. The manifest next to --output_file lists what the results were made from.
"""

from __future__ import annotations

import dataclasses
import json

import numpy as np

from albert_tf import keras, options as fields
from albert_tf.data.rows import read_texts, text_column_option
from albert_tf.text.lines import read_standard_input
from albert_tf.training.config import Precision
from albert_tf.utils import bounds
from albert_tf.utils.manifests import output_set
from albert_tf.utils.outputs import write_text
from albert_tf.utils.progress import count_of, progress
from albert_tf.weights.source import SOURCE_OPTIONS, Source

_MADE_FROM = (*SOURCE_OPTIONS, "input_file", "pairs", "within_word_l2r", "precision")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Source, Precision):
    input_file: str | None = fields.string(
        None, "Path of a UTF-8 text file to score, one sentence per line. Default: standard input.")
    text_column: str | None = text_column_option("sentence", needs="input_file")
    pairs: str | None = fields.string(
        None, "Comma-separated list of JSON-lines or Parquet files, globs and folders with minimal pairs. Each line "
        "has sentence_good, sentence_bad and, for accuracies by field, field.")
    output_file: str | None = fields.string(
        None, "Path of a JSON file for the results: {\"scores\": [...]} in the order of the lines, or with --pairs "
        "{\"all\": ..., \"mean_of_files\": ..., \"files\": {...}, \"fields\": {...}}. Default: results are only "
        "printed.")
    within_word_l2r: bool = fields.boolean(
        False, "Whether to also mask the pieces to the right of the scored one in the same word. Without this flag, "
        "the scores of words of several pieces are too high.")
    tokens_per_batch: int = fields.integer(
        8192, "Largest number of tokens in a batch of masked copies of sentences.", bounds.TOKENS)


def main(options: Options) -> None:
    if options.pairs and options.input_file:
        raise ValueError("--input_file and --pairs exclude each other")
    keras.mixed_precision.set_global_policy(options.precision)
    results = score_pairs if options.pairs else score_lines
    if options.output_file:
        names = (*_MADE_FROM, *["text_column"] * bool(options.text_column))
        with output_set({options.output_file: [options.output_file]}) as outputs:
            outputs.made_from = {name: getattr(options, name) for name in names}
            write_text(outputs.temporary[options.output_file], json.dumps(results(options), indent=2) + "\n")
    else:
        results(options)


def score_lines(options: Options) -> dict:
    name = options.input_file or "standard input"
    from_file = options.input_file and read_texts(options.input_file, options.text_column)
    lines = list(from_file or read_standard_input())
    if not lines:
        raise ValueError(f"{name} has no lines")
    scores = score(options, lines, [f"{name} line {number}" for number in range(1, len(lines) + 1)])
    for value, line in zip(scores, lines):
        print(f"{value:.4f}\t{line}")
    return dict(scores=scores.tolist())


def score_pairs(options: Options) -> dict:
    from albert_tf.tasks.masked_lm import accuracies, read_minimal_pairs

    pairs = read_minimal_pairs(options.pairs)
    sentences = [sentence for pair in pairs for sentence in (pair.good, pair.bad)]
    scores = score(options, sentences, [pair.place for pair in pairs for _ in range(2)])
    results = accuracies(pairs, scores[::2], scores[1::2])
    overall = {f"mean of {count_of(len(results['files']), 'file')}": results["mean_of_files"],
               f"all {count_of(len(pairs), 'pair')}": results["all"]}
    for accuracy_of in (results["files"], results["fields"], overall):
        for name, value in accuracy_of.items():
            print(f"{value:.3f}  {name}")
    return results


def score(options: Options, sentences: list[str], locations: list[str]) -> np.ndarray:
    from albert_tf.tasks.masked_lm import score_sentences
    from albert_tf.weights.resolved_model import masked_lm

    model, tokenizer = masked_lm(options)
    with progress("scoring", len(sentences), " sentences") as done:
        return score_sentences(model, tokenizer, sentences, options.within_word_l2r, options.tokens_per_batch,
                               locations, done)

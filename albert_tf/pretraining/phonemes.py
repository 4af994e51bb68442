"""Converts phonemized text (text/phonemes.py) to pre-training records, in two passes over the files.

The first pass counts words and symbols; the most frequent words get an id. The second pass writes a record for each
row: the ids of its phonemes, a separator between two words, and the id of each word. Masks are drawn when records are
read (phoneme_objective.py).

    words    the     cat          ids of words    57 903
    symbols  ð ə     k æ t        input_ids       81 83 16 53 72 62

No module that is imported here may import TensorFlow, since every worker would load it.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import json
import os
from typing import Any, Iterable, Iterator, Mapping

import numpy as np
from absl import logging

from albert_tf.data.records import serialize
from albert_tf.data.rows import is_parquet, read_parquet
from albert_tf.data.worker_pool import chunks, worker_pool
from albert_tf.pretraining.creation import BucketWriter, check_names, write_shards
from albert_tf.text.lines import read_lines
from albert_tf.text.phonemes import SEPARATOR, PhonemeTable, parse_line
from albert_tf.utils.files import errors_naming, is_remote, scratch_folder
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.manifests import checked_manifest, manifest_path, output_set
from albert_tf.utils.progress import count_of, progress

OBJECTIVE = "phonemes"
# The first ids of words: words outside the vocabulary, and the separator between words.
OTHER_WORD, SEPARATOR_WORD = 0, 1
_SPECIAL_WORDS = ("[OTHER]", "[SEPARATOR]")
_LINES_OF_TASK = 2000
_MOST_UNKNOWN = 0.01  # largest share of symbols that the table may lack
_LARGEST_SHARE = 0.5  # of one word
_NUM_BUCKETS = 64
_WORDS = ".words.tsv"

Row = list[tuple[str, list[int]]]  # words, each with the ids of its phonemes


@dataclasses.dataclass(frozen=True)
class PhonemeOptions:
    """How records of phonemes are made."""

    max_seq_length: int  # the largest number of phonemes and separators of a row
    word_vocab_size: int  # the largest number of words that have an id, with the two special ones


def create_phoneme_records(
    input_files: list[str], outputs: Mapping[str, list[str]], table: PhonemeTable, options: PhonemeOptions,
    num_workers: int, random_seed: int, word_vocab_file: str | None = None, origin: Mapping[str, Any] | None = None
) -> collections.Counter:
    """Writes records of phonemized text, shuffled over all output files, and the words that have an id.

    The words are in a file FIRST_OUTPUT.words.tsv, in the order of their ids: each line has a word and its count. It
    belongs to the first output, and is in its manifest.

    Args:
      input_files: files of JSON lines, as albert_tf/text/phonemes.py describes them.
      outputs, origin: as for create_pretraining_data.
      word_vocab_file: the words of other records, instead of the words of the text.

    Returns:
      The counts of examples, tokens, words, other_words (without an id), different_words and unknown_symbols.
    """
    first, shards = next(iter(outputs)), list(itertools.chain.from_iterable(outputs.values()))
    words_file = first.removesuffix(".tfrecord") + _WORDS
    outputs = {path: [*files, *([words_file] if path == first else [])] for path, files in outputs.items()}
    check_names(outputs)
    with output_set(outputs) as written, scratch_folder(
            None if is_remote(first) else os.path.dirname(written.temporary[words_file])) as work:
        counts = _Counts()
        with worker_pool(num_workers, _Rows, table, options) as run, progress("counting words", None, " lines") as done:
            for of_task, lines in run(_Rows.count, _tasks(input_files)):
                counts.add(of_task)
                done(lines)
        counts.check()
        vocabulary = _read_words(word_vocab_file) if word_vocab_file else [
            *_SPECIAL_WORDS, *(word for word, _ in counts.words.most_common(options.word_vocab_size - 2))]
        ids = {word: i for i, word in enumerate(vocabulary)}
        buckets = len(shards) * max(1, _NUM_BUCKETS // len(shards))
        examples = 0
        with errors_naming(first, work), worker_pool(
                num_workers, _RowWriter, table, options, work, ids, buckets, random_seed) as run, progress(
                "writing rows", None, " lines") as done:
            for rows, lines in run(_RowWriter.write, _tasks(input_files)):
                examples += rows
                done(lines)
        write_shards(written, shards, work, buckets)
        with tf.io.gfile.GFile(written.temporary[words_file], "w") as file:
            for word in vocabulary:
                file.write(f"{word}\t{counts.words[word]}\n")  # special ones, in capital letters, have none
        totals = counts.totals(ids)
        written.made_from = dict(
            objective=OBJECTIVE, **dataclasses.asdict(options), max_words=counts.max_words, num_words=len(vocabulary),
            words_sha256=hashlib.sha256("\n".join(vocabulary).encode()).hexdigest(), vocab_size=table.vocab_size,
            symbols=table.symbols, separator_id=table.ids[SEPARATOR], mask_id=table.mask_id, random_seed=random_seed,
            words=totals["words"], different_words=totals["different_words"], other_words=totals["other_words"],
            baselines=counts.baselines(ids), **(origin or {}))
    return totals + collections.Counter(examples=examples)


def summary(counts: collections.Counter) -> str:
    """The counts as a readable text."""
    return (f"{count_of(counts['words'], 'word')}, {counts['different_words']:,} different, "
            f"{counts['other_words'] / counts['words']:.1%} of them outside the vocabulary; "
            f"{count_of(counts['examples'], 'example')}, {counts['tokens'] / counts['examples']:.1f} phonemes and "
            f"separators on average; {count_of(counts['unknown_symbols'], 'symbol')} left out")


def _read_words(path: str) -> list[str]:
    """The words in a file that create_phoneme_records wrote, whose records must be complete if they are beside it."""
    manifest = manifest_path(path.removesuffix(_WORDS))
    if path.endswith(_WORDS) and tf.io.gfile.exists(manifest):
        checked_manifest(manifest)
    words = [line.partition("\t")[0] for line in read_lines(path)]
    if tuple(words[: len(_SPECIAL_WORDS)]) != _SPECIAL_WORDS or len(set(words)) != len(words):
        raise ValueError(f"{path} is no list of words that create_pretraining_data has written: it must begin with "
                         f"{' and '.join(_SPECIAL_WORDS)}, and have each word once")
    return words


def _tasks(paths: Iterable[str]) -> Iterator[tuple[int, str, int, list[str]]]:
    """Lines of files: number and path of the file, number of the first line, lines."""
    for file, path in enumerate(paths):
        lines = _lines_of_rows(path) if is_parquet(path) else read_lines(path)
        for numbered in chunks(enumerate(lines, start=1), _LINES_OF_TASK):
            yield file, path, numbered[0][0], [line for _, line in numbered]


def _lines_of_rows(path: str) -> Iterator[str]:
    """The rows of a Parquet file of PL-BERT's preparation as lines; each row is a document."""
    for _, row in read_parquet(path, ["phonemes", "input_ids"]):
        yield json.dumps(row, ensure_ascii=False)
        yield ""


def _new_counter() -> Any:
    return dataclasses.field(default_factory=collections.Counter)


@dataclasses.dataclass
class _Counts:
    """Counts of rows."""

    words: collections.Counter[str] = _new_counter()
    phonemes: collections.Counter[str] = _new_counter()  # by word, of all its occurrences
    symbols: collections.Counter[int] = _new_counter()  # by id
    unknown: collections.Counter[str] = _new_counter()  # symbols that the table does not have
    max_words: int = 0  # of a row
    tokens: int = 0  # phonemes and separators

    def add_row(self, row: Row) -> None:
        """Adds the counts of a row."""
        for word, ids in row:
            self.words[word] += 1
            self.phonemes[word] += len(ids)
            self.symbols.update(ids)
        self.max_words, self.tokens = max(self.max_words, len(row)), self.tokens + _length(row)

    def add(self, other: _Counts) -> None:
        """Adds other counts."""
        for name in ("words", "phonemes", "symbols", "unknown"):
            getattr(self, name).update(getattr(other, name))
        self.max_words, self.tokens = max(self.max_words, other.max_words), self.tokens + other.tokens

    def totals(self, ids: Mapping[str, int]) -> collections.Counter:
        """What create_phoneme_records returns, but for the examples."""
        other = sum(count for word, count in self.words.items() if word not in ids)
        return collections.Counter(
            words=self.words.total(), different_words=len(self.words), other_words=other, tokens=self.tokens,
            unknown_symbols=self.unknown.total())

    def baselines(self, ids: Mapping[str, int]) -> dict[str, dict[str, float]]:
        """Accuracy of the most frequent phoneme and word, and cross entropy of the frequencies in nats.

        They are those of run_pretraining's metrics, which depend on --word_predictions: with "all", a word counts once
        for each of its phonemes, and each separator counts as one.
        """
        once: collections.Counter[int] = collections.Counter()
        of_all = collections.Counter({SEPARATOR_WORD: self.tokens - self.phonemes.total()})
        for word, count in self.words.items():
            once[ids.get(word, OTHER_WORD)] += count
            of_all[ids.get(word, OTHER_WORD)] += self.phonemes[word]
        return {name: {**_baseline("masked_lm", self.symbols), **_baseline("word", classes)}
                for name, classes in (("all", of_all), ("once", once))}

    def check(self) -> None:
        """Raises ValueError for a text that does not fit the table, or that would teach nothing."""
        if self.unknown:
            share = self.unknown.total() / (self.unknown.total() + self.symbols.total())
            most = ", ".join(f"{symbol!r} (U+{ord(symbol):04X}): {count:,}"
                             for symbol, count in self.unknown.most_common(5))
            message = f"{share:.2%} of the symbols are not in the table of phonemes: {most}"
            if share > _MOST_UNKNOWN:
                raise ValueError(f"{message}. Set --phoneme_table to a JSON file of symbols and ids that has them "
                                 "(docs/phonemes.md)")
            logging.warning("%s. They are left out (docs/phonemes.md: --phoneme_table)", message)
        if not self.symbols:
            raise ValueError("there are no phonemes in the input files")
        word, count = self.words.most_common(1)[0]
        if count > _LARGEST_SHARE * self.words.total():
            raise ValueError(f"{word!r} is {count / self.words.total():.0%} of all words, so that a model would learn "
                             "nothing by predicting words: is the input a text?")


def _baseline(name: str, counted: collections.Counter[int]) -> dict[str, float]:
    shares = np.array([count for count in counted.values() if count]) / counted.total()
    return {f"{name}_accuracy": float(shares.max()), f"{name}_loss": float(-np.sum(shares * np.log(shares)))}


class _Rows:
    """Makes rows of lines."""

    def __init__(self, table: PhonemeTable, options: PhonemeOptions):
        self.table, self.options = table, options

    def count(self, file: int, path: str, number: int, lines: list[str]) -> tuple[_Counts, int]:
        """The counts of lines, and their number."""
        counts = _Counts()
        for row in self.rows(path, number, lines, counts.unknown):
            counts.add_row(row)
        return counts, len(lines)

    def rows(self, path: str, number: int, lines: list[str], unknown: collections.Counter) -> Iterator[Row]:
        """The rows of the documents in lines, in lower-case words. A row that is too long is cut between words."""
        row: Row = []
        for i, line in enumerate(lines):
            if row and not line.strip():
                yield row
                row = []
            for word, phonemes in parse_line(line, path, number + i) if line.strip() else ():
                ids, missing = self.table.encode(phonemes)
                unknown.update(missing)
                if ids:
                    if row and _length(row) + 1 + len(ids) > self.options.max_seq_length:
                        yield row
                        row = []
                    row.append((word.lower(), ids[: self.options.max_seq_length]))
        if row:
            yield row


class _RowWriter(_Rows):
    """Writes records to the buckets of a folder. `ids` has the ids of words."""

    def __init__(self, table: PhonemeTable, options: PhonemeOptions, work: str, ids: Mapping[str, int],
                 num_buckets: int, random_seed: int):
        super().__init__(table, options)
        self._work, self._ids = work, ids
        self._num_buckets, self._random_seed = num_buckets, random_seed

    def write(self, file: int, path: str, number: int, lines: list[str]) -> tuple[int, int]:
        """Writes the records of lines. Returns the numbers of records and of lines."""
        rng = np.random.default_rng([self._random_seed, file, number])
        buckets, examples = BucketWriter(self._work, self._num_buckets), 0
        for row in self.rows(path, number, lines, collections.Counter()):
            buckets.write(int(rng.integers(1 << 63, dtype=np.uint64)), self._record(row))
            examples += 1
        buckets.flush()
        return examples, len(lines)

    def _record(self, row: Row) -> bytes:
        separator = [self.table.ids[SEPARATOR]]
        phonemes = list(itertools.chain.from_iterable([*(separator if i else []), *symbols]
                                                      for i, (_, symbols) in enumerate(row)))
        padding = self.options.max_seq_length - len(phonemes)
        return serialize(input_ids=phonemes + [0] * padding, input_mask=[1] * len(phonemes) + [0] * padding,
                         word_ids=[self._ids.get(word, OTHER_WORD) for word, _ in row])


def _length(row: Row) -> int:
    """The number of phonemes and separators of a row."""
    return sum(len(ids) + 1 for _, ids in row) - 1

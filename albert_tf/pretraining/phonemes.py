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
import os
from typing import Any, Iterable, Iterator, Mapping

import numpy as np
from absl import logging

from albert_tf.data.records import serialize
from albert_tf.data.worker_pool import chunks, worker_pool
from albert_tf.pretraining.creation import BucketWriter, check_names, write_shards
from albert_tf.text.lines import read_lines
from albert_tf.text.phonemes import PhonemeTable, parse_line
from albert_tf.utils.files import errors_naming, is_remote, scratch_folder
from albert_tf.utils.manifests import output_set
from albert_tf.utils.outputs import write_text
from albert_tf.utils.progress import count_of, progress

OBJECTIVE = "phonemes"
# The first ids of words: words outside the vocabulary, and the separator between words.
OTHER_WORD, SEPARATOR_WORD = 0, 1
_SPECIAL_WORDS = ("[OTHER]", "[SEPARATOR]")
_LINES_OF_TASK = 2000
_MOST_UNKNOWN = 0.01  # largest share of symbols that the table may lack
_LARGEST_SHARE = 0.5  # of one word
_NUM_BUCKETS = 64

Row = list[tuple[str, list[int]]]  # words, each with the ids of its phonemes


@dataclasses.dataclass(frozen=True)
class PhonemeOptions:
    """How records of phonemes are made.

    Args:
      max_seq_length: the largest number of phonemes and separators of a row.
      word_vocab_size: the largest number of words that have an id, with the two special ones.
      join_lines: whether a row has several lines of a document, if they fit.
    """

    max_seq_length: int
    word_vocab_size: int
    join_lines: bool = True


def create_phoneme_records(
    input_files: list[str], outputs: Mapping[str, list[str]], table: PhonemeTable, options: PhonemeOptions,
    num_workers: int, random_seed: int, word_vocab_file: str | None = None, origin: Mapping[str, Any] | None = None
) -> collections.Counter:
    """Writes records of phonemized text, shuffled over all output files, and the words that have an id.

    The words are in a file FIRST_OUTPUT.words.tsv, in the order of their ids: each line has a word and its count.

    Args:
      input_files: files of JSON lines, as albert_tf/text/phonemes.py describes them.
      outputs: the shards of each output, as for create_pretraining_data.
      word_vocab_file: the words of other records, instead of the words of the text.
      origin: further entries of made_from in the manifests.

    Returns:
      The counts of examples, tokens, words, other_words (without an id), different_words and unknown_symbols.

    Raises:
      ValueError: a line is wrong; more than 1 % of the symbols are not in the table; or a word is more than half of all
        words, so that predicting words would teach nothing.
    """
    check_names(outputs)
    first = next(iter(outputs.values()))[0]
    with output_set(outputs) as written, scratch_folder(
            None if is_remote(first) else os.path.dirname(written.temporary[first])) as work:
        with worker_pool(num_workers, _Rows, table, options) as run:
            counts, words, symbols, max_words = _count(run, input_files)
        _check(counts, words, symbols)
        vocabulary = _read_words(word_vocab_file) if word_vocab_file else [
            *_SPECIAL_WORDS, *(word for word, _ in words.most_common(options.word_vocab_size - 2))]
        ids = {word: i for i, word in enumerate(vocabulary)}
        counts["other_words"] = sum(count for word, count in words.items() if word not in ids)
        buckets = len(written.temporary) * max(1, _NUM_BUCKETS // len(written.temporary))
        with errors_naming(first, work), worker_pool(
                num_workers, _RowWriter, table, options, work, ids, buckets, random_seed) as run:
            with progress("writing rows", None, " lines") as done:
                for examples, lines in run(_RowWriter.write, _tasks(input_files)):
                    counts["examples"] += examples
                    done(lines)
        write_shards(written, work, buckets)
        text = "".join(f"{word}\t{words[word] if i >= len(_SPECIAL_WORDS) else 0}\n"
                       for i, word in enumerate(vocabulary))
        write_text(words_path(next(iter(outputs))), text)
        written.made_from = dict(
            objective=OBJECTIVE, **dataclasses.asdict(options), max_words=max_words, num_words=len(vocabulary),
            words_sha256=hashlib.sha256("\n".join(vocabulary).encode()).hexdigest(), vocab_size=table.vocab_size,
            separator_id=table.separator_id, mask_id=table.mask_id, random_seed=random_seed, words=counts["words"],
            different_words=counts["different_words"], other_words=counts["other_words"],
            baselines=_baselines(words, ids, symbols), **(origin or {}))
    return counts


def words_path(output: str) -> str:
    """The path of the words of an output."""
    return f"{output.removesuffix('.tfrecord')}.words.tsv"


def summary(counts: collections.Counter) -> str:
    """The counts as a readable text."""
    return (f"{count_of(counts['words'], 'word')}, {counts['different_words']:,} different, "
            f"{counts['other_words'] / counts['words']:.1%} of them outside the vocabulary; "
            f"{count_of(counts['examples'], 'example')}, {counts['tokens'] / counts['examples']:.1f} phonemes and "
            f"separators on average; {count_of(counts['unknown_symbols'], 'symbol')} left out")


def _baselines(words: collections.Counter, ids: Mapping[str, int], symbols: collections.Counter) -> dict[str, float]:
    """Accuracy of the most frequent phoneme and word, and cross entropy of the frequencies in nats."""
    classes: collections.Counter = collections.Counter()
    for word, count in words.items():
        classes[ids.get(word, OTHER_WORD)] += count
    results = {}
    for name, counted in (("masked_lm", symbols), ("word", classes)):
        shares = np.array(list(counted.values())) / counted.total()
        results[f"{name}_accuracy"] = float(shares.max())
        results[f"{name}_loss"] = float(-np.sum(shares * np.log(shares)))
    return results


def _read_words(path: str) -> list[str]:
    words = [line.partition("\t")[0] for line in read_lines(path)]
    if tuple(words[: len(_SPECIAL_WORDS)]) != _SPECIAL_WORDS or len(set(words)) != len(words):
        raise ValueError(f"{path} is no list of words that create_pretraining_data has written: it must begin with "
                         f"{' and '.join(_SPECIAL_WORDS)}, and have each word once")
    return words


def _tasks(paths: Iterable[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Lines of files: path, number of the first line, lines."""
    for path in paths:
        for numbered in chunks(enumerate(read_lines(path), start=1), _LINES_OF_TASK):
            yield path, numbered[0][0], [line for _, line in numbered]


def _count(run, paths: Iterable[str]) -> tuple[collections.Counter, collections.Counter, collections.Counter, int]:
    """Counts of the whole text, of its words and of its symbols, and the largest number of words of a row."""
    counts: collections.Counter = collections.Counter()
    words: collections.Counter = collections.Counter()
    symbols: collections.Counter = collections.Counter()
    unknown: collections.Counter = collections.Counter()
    max_words = 0
    with progress("counting words", None, " lines") as done:
        for lines, new_words, new_symbols, new_unknown, most, tokens in run(_Rows.count, _tasks(paths)):
            words.update(new_words)
            symbols.update(new_symbols)
            unknown.update(new_unknown)
            max_words, counts["tokens"] = max(max_words, most), counts["tokens"] + tokens
            done(lines)
    counts.update(words=words.total(), different_words=len(words), unknown_symbols=unknown.total())
    if unknown:
        _report_unknown(unknown, symbols)
    return counts, words, symbols, max_words


def _report_unknown(unknown: collections.Counter, symbols: collections.Counter) -> None:
    share = unknown.total() / (unknown.total() + symbols.total())
    most = ", ".join(f"{symbol!r} (U+{ord(symbol):04X}): {count:,}" for symbol, count in unknown.most_common(5))
    message = f"{share:.2%} of the symbols are not in the table of phonemes: {most}"
    if share > _MOST_UNKNOWN:
        raise ValueError(f"{message}. Set --phoneme_table to a JSON file of symbols and ids that has them")
    logging.warning("%s. They are left out", message)


def _check(counts: collections.Counter, words: collections.Counter, symbols: collections.Counter) -> None:
    if not symbols:
        raise ValueError("there are no phonemes in the input files")
    word, count = words.most_common(1)[0]
    if count > _LARGEST_SHARE * counts["words"]:
        raise ValueError(f"{word!r} is {count / counts['words']:.0%} of all words, so that a model would learn nothing "
                         "by predicting words: is the input a text?")


class _Rows:
    """Makes rows of lines."""

    def __init__(self, table: PhonemeTable, options: PhonemeOptions):
        self.table, self.options = table, options

    def count(self, path: str, number: int, lines: list[str]) -> tuple:
        """The number of lines; counts of words, symbols and unknown symbols; the most words of a row; all tokens."""
        words: collections.Counter = collections.Counter()
        symbols: collections.Counter = collections.Counter()
        unknown: collections.Counter = collections.Counter()
        most = tokens = 0
        for row in self.rows(path, number, lines, unknown):
            words.update(word for word, _ in row)
            for _, ids in row:
                symbols.update(ids)
            most, tokens = max(most, len(row)), tokens + _length(row)
        return len(lines), words, symbols, unknown, most, tokens

    def rows(self, path: str, number: int, lines: list[str], unknown: collections.Counter) -> Iterator[Row]:
        """The rows of lines, in lower-case words. A line that is too long is cut between words."""
        row: Row = []
        for i, line in enumerate(lines):
            if row and not (self.options.join_lines and line.strip()):
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

    def write(self, path: str, number: int, lines: list[str]) -> tuple[int, int]:
        """Writes the records of lines. Returns the numbers of records and of lines."""
        file = int.from_bytes(hashlib.sha256(os.path.basename(path).encode()).digest()[:4], "big")
        rng = np.random.default_rng([self._random_seed, file, number])
        buckets, examples = BucketWriter(self._work, self._num_buckets), 0
        for row in self.rows(path, number, lines, collections.Counter()):
            buckets.write(int(rng.integers(1 << 63, dtype=np.uint64)), self._record(row))
            examples += 1
        buckets.flush()
        return examples, len(lines)

    def _record(self, row: Row) -> bytes:
        separator = [self.table.separator_id]
        phonemes = list(itertools.chain.from_iterable([*(separator if i else []), *symbols]
                                                      for i, (_, symbols) in enumerate(row)))
        padding = self.options.max_seq_length - len(phonemes)
        return serialize(input_ids=phonemes + [0] * padding, input_mask=[1] * len(phonemes) + [0] * padding,
                         word_ids=[self._ids.get(word, OTHER_WORD) for word, _ in row])


def _length(row: Row) -> int:
    """The number of phonemes and separators of a row."""
    return sum(len(ids) + 1 for _, ids in row) - 1

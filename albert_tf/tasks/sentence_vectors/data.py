"""Reads pairs of texts and converts them to features, a row per text: the examples of sentence vectors."""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple, Sequence

import numpy as np

from albert_tf.data.feature_table import FeatureCache, FeatureSchema, FeatureTable, digest
from albert_tf.data.rows import BadRow, BadRows, is_of_objects, read_rows, read_texts
from albert_tf.data.worker_pool import chunks
from albert_tf.tasks.classification.data import read_examples
from albert_tf.tasks.classification.table_format import TableFormat
from albert_tf.text.packing import PairPacker, by_feature
from albert_tf.text.tokenization import FullTokenizer, word_starts
from albert_tf.utils.imports import tensorflow as tf

DROPOUT = 0.1  # with which simcse reads a line twice (Gao et al., 2021), if the config has none
_NAME = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_-]*( \d+)?\s*")  # sentence1, text_a, Sentence 2
_CHUNK = 1000  # pairs that are tokenized in one call


class TextPair(NamedTuple):
    """Two texts, the cosine that their vectors should have, and texts that do not belong to the first one."""

    first: str
    second: str
    cosine: float = 1.0
    negatives: tuple[str, ...] = ()

    @property
    def texts(self) -> list[str]:
        """All texts of the row."""
        return [self.first, self.second, *self.negatives]

    def behind(self, prompt: str) -> TextPair:
        """The row with a prompt before each text."""
        first, second, *negatives = (prompt + text for text in self.texts)
        return TextPair(first, second, self.cosine, tuple(negatives))


def read_pairs(path: str, num_negatives: int = 0) -> list[TextPair]:
    """The pairs of texts that belong together, one in each row of a file.

    The texts are the first two columns of a .tsv or .csv without a header, or text_a and text_b of JSON lines or
    Parquet. The next num_negatives columns, or negative_1, negative_2, ..., are hard negatives. Other columns are not
    read.

    Raises:
      ValueError: there are no pairs, rows have too few columns or an empty text (the first ten are named), or the first
        row of a .tsv or .csv looks like a header: it alone has nothing but words such as sentence1.
    """
    fields = ["text_a", "text_b", *(f"negative_{number}" for number in range(1, num_negatives + 1))]
    has_names = is_of_objects(path)
    columns = {field: field if has_names else index for index, field in enumerate(fields)}
    pairs, bad = [], BadRows(path)
    for row in bad.removed_from(read_rows(path, columns, has_header=False)):
        first, second, *negatives = (row.fields[field] for field in fields)
        if all(text.strip() for text in (first, second, *negatives)):
            pairs.append(TextPair(first, second, negatives=tuple(negatives)))
        else:
            bad.add(BadRow(row.line, "a text is empty"))
    bad.check()
    if not pairs:
        raise ValueError(f"{path} has no pairs")
    if not has_names and len(pairs) > 1 and _is_header(pairs[0]) and not any(map(_is_header, pairs[1:])):
        raise ValueError(f"{path}: the first row looks like a header, and pairs have none: "
                         f"{', '.join(map(repr, pairs[0].texts))}. Remove it, or if it is a pair, move it down. The "
                         "texts must be the first columns")
    return pairs


def _is_header(pair: TextPair) -> bool:
    """Whether the texts of a row are like names of columns."""
    return all(map(_NAME.fullmatch, pair.texts))


def read_single_texts(path: str, text_column: str | None = None) -> list[str]:
    """The texts of a file that are not empty, at least one; see read_texts."""
    texts = [text for text in read_texts(path, text_column) if text.strip()]
    if not texts:
        raise ValueError(f"{path} has no lines")
    return texts


def with_replaced_words(lines: Sequence[str], tokenizer: FullTokenizer, share: float, seed: int) -> Iterator[str]:
    """The lines; in every second one, random words of the vocabulary replace about this share of the words."""
    starts = word_starts(tokenizer)
    pieces = (tokenizer.decode([piece_id]) for piece_id in tokenizer.vocab.values() if starts[piece_id])
    words = [piece for piece in pieces if piece.isalnum() and len(piece) > 1]
    rng = np.random.default_rng(seed)
    for number, line in enumerate(lines):
        line_words = line.split()
        chosen = (rng.random(len(line_words)) < share) & bool(number % 2 and words)
        yield " ".join(words[rng.integers(len(words))] if each else word for word, each in zip(line_words, chosen))


def read_scored_pairs(format: TableFormat, data_dir: str | None, split: str, best_score: float) -> list[TextPair]:
    """The pairs of a regression such as STS-B; their cosines are the scores divided by that of equal meanings."""
    examples = read_examples(format, data_dir, split)
    if not format.is_regression or examples[0].text_b is None:
        raise ValueError(f"the task {format.name} must be a regression of two texts, as sts-b is")
    scores = [float(example.label or 0) for example in examples]
    if max(scores) > best_score:
        raise ValueError(f"{format.name}: --best_score is {best_score:g}, but an example has the score "
                         f"{max(scores):g}: set --best_score to the score of two texts with the same meaning")
    return [TextPair(example.text_a, example.text_b or "", score / best_score)
            for example, score in zip(examples, scores)]


def feature_table(
    cache: FeatureCache, pairs: Sequence[TextPair], split: str, max_seq_length: int
) -> FeatureTable:
    """The features of pairs: ids and masks [2 + negatives, tokens], the same for all, and the cosine as label_ids."""
    num_negatives = len(pairs[0].negatives)
    content = [tuple(pair) if num_negatives else tuple(pair[:3]) for pair in pairs]
    made_from = dict(pairs=digest(repr(content).encode("utf-8", "surrogatepass")))
    schema = FeatureSchema(max_seq_length, dict(label_ids=tf.float32), num_choices=2 + num_negatives)

    def features() -> Iterator[dict]:
        packer = PairPacker(cache.tokenizer, max_seq_length, pad=False)
        for chunk in chunks(pairs, _CHUNK):
            ids = iter(cache.tokenizer.encode_batch([text for pair in chunk for text in pair.texts]))
            for pair in chunk:
                rows = [packer.pack(next(ids).tolist()) for _ in pair.texts]
                yield dict(by_feature(rows), label_ids=pair.cosine)

    return cache.table(f"pairs_{split}", made_from, schema, features)


def line_table(cache: FeatureCache, lines: Sequence[str], max_seq_length: int) -> FeatureTable:
    """The features of lines of text, one row each; the arguments are as in feature_table."""
    def features() -> Iterator[dict]:
        packer = PairPacker(cache.tokenizer, max_seq_length, pad=False)
        return (packer.pack(ids.tolist()) for chunk in chunks(lines, _CHUNK)
                for ids in cache.tokenizer.encode_batch(chunk))

    made_from = dict(lines=digest("\n".join(lines).encode("utf-8", "surrogatepass")))
    return cache.table("lines_train", made_from, FeatureSchema(max_seq_length, {}), features)


# What the second text of a row of token_table is, with its share of the rows.
_SECOND_TEXTS = dict(none=0.4, next=0.3, other=0.15, changed=0.15)
_CHANGED = 0.3  # of the tokens of a changed text


def token_table(cache: FeatureCache, lines: Sequence[str], max_seq_length: int, seed: int) -> FeatureTable:
    """The features of a row for each line: the line alone, or before another text.

    That is the next line, a random one, or the line itself with tokens of a random one instead of some of its tokens.
    """
    def features() -> Iterator[dict]:
        packer, rng = PairPacker(cache.tokenizer, max_seq_length, pad=False), np.random.default_rng(seed)
        for chunk in chunks(lines, _CHUNK):
            texts = cache.tokenizer.encode_batch(chunk)
            for ids, following in zip(texts, [*texts[1:], texts[0]]):
                other = texts[rng.integers(len(texts))]
                changed = np.where(rng.random(len(ids)) < _CHANGED, np.resize(other, len(ids)), ids)
                seconds = dict(none=ids[:0], next=following, other=other, changed=changed)
                yield packer.pack(ids, seconds[rng.choice(list(seconds), p=list(_SECOND_TEXTS.values()))])

    made_from = dict(lines=digest("\n".join(lines).encode("utf-8", "surrogatepass")), seed=seed)
    return cache.table("tokens_train", made_from, FeatureSchema(max_seq_length, {}), features)

"""Mines hard negatives: texts near a first text that do not belong to it.

The rules are those of sentence-transformers' mine_hard_negatives with the sampling strategy "top".
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
from typing import Iterable, Sequence

import numpy as np

from albert_tf.data.rows import JSON_LINES
from albert_tf.data.worker_pool import chunks
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.tasks.sentence_vectors.features import TextPair, column_names
from albert_tf.tasks.sentence_vectors.search import Neighbour, nearest_lines, unit_vectors_function
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils import bounds

_BLOCK = 4096  # texts whose vectors are in memory at a time
FORMATS = (".tsv", ".csv", *JSON_LINES)


@dataclasses.dataclass(frozen=True)
class MiningOptions:
    """Which of a first text's nearest texts are hard negatives; its second texts never are.

    Args:
      num_negatives: number of negatives of a pair, the nearest ones.
      range_min: number of the nearest texts that are passed over.
      range_max: number of nearest texts that are looked at; None: num_negatives + range_min, or with a limit on cosines
        10 * num_negatives + range_min, and as many more as the first text has second ones.
      max_score, min_score: limits of the cosine of a negative; None for none.
      absolute_margin: a negative's cosine is at least this much below that of the pair; None for no margin.
      relative_margin: a negative's cosine is below that of the pair by at least this share of it; None for no margin.

    Raises:
      ValueError: a number is out of range.
    """

    num_negatives: int = 3
    range_min: int = 0
    range_max: int | None = None
    max_score: float | None = None
    min_score: float | None = None
    absolute_margin: float | None = None
    relative_margin: float | None = None

    def __post_init__(self):
        bounds.CANDIDATES.check("num_negatives", self.num_negatives)
        bounds.CANDIDATES.at_least(0).check("range_min", self.range_min)
        if self.range_max is not None and self.range_max < self.range_min + self.num_negatives:
            raise ValueError(f"range_max must be at least range_min + num_negatives, {self.range_min} + "
                             f"{self.num_negatives}. Received: {self.range_max}")

    @property
    def has_margin(self) -> bool:
        """Whether negatives depend on the cosine of the pair."""
        return self.absolute_margin is not None or self.relative_margin is not None

    def rank_limit(self, num_positives: int) -> int:
        """range_max, or its default for a first text with this many second ones."""
        if self.range_max is not None:
            return self.range_max
        factor = 10 if self.has_margin or self.max_score is not None else 1
        return self.range_min + factor * self.num_negatives + num_positives

    def highest_score(self, cosine: float) -> float:
        """The highest cosine of a negative of a pair with this cosine."""
        limits = [np.inf if self.max_score is None else self.max_score]
        if self.absolute_margin is not None:
            limits.append(cosine - self.absolute_margin)
        if self.relative_margin is not None:
            limits.append(cosine - abs(cosine) * self.relative_margin)
        return min(limits)


def mine_negatives(
    model: AlbertSentenceEncoder, tokenizer: FullTokenizer, pairs: Sequence[TextPair], options: MiningOptions,
    corpus: Iterable[str] = (), batch_size: int = 32, block_size: int = _BLOCK,
) -> list[TextPair]:
    """The pairs with their hard negatives. Pairs without enough negatives are left out.

    Args:
      model: the encoder with its pooling.
      tokenizer: the model's tokenizer.
      pairs: pairs of texts that belong together. A first text may have several second ones.
      options: see MiningOptions.
      corpus: more texts that may be negatives, besides all second texts.
      batch_size, block_size: see nearest_lines.
    """
    positives: dict[str, list[str]] = {}
    for pair in pairs:
        positives.setdefault(pair.first, []).append(pair.second)
    texts = list(dict.fromkeys([*(pair.second for pair in pairs), *corpus]))
    most = max(map(len, positives.values()))
    found = nearest_lines(model, tokenizer, list(positives), texts, options.rank_limit(most) + most + 1, batch_size,
                          block_size)
    cosines = _lowest_cosines(model, tokenizer, positives, batch_size) if options.has_margin else np.ones(len(found))
    negatives = {first: _select(neighbours, {first, *positives[first]}, options, float(cosine), most)
                 for first, neighbours, cosine in zip(positives, found, cosines)}
    return [pair._replace(negatives=negatives[pair.first]) for pair in pairs
            if len(negatives[pair.first]) == options.num_negatives]


def _select(neighbours: list[Neighbour], left_out: set[str], options: MiningOptions, cosine: float, most: int
            ) -> tuple[str, ...]:
    """The negatives among the nearest texts of a first text whose pair has this cosine."""
    highest, lowest = options.highest_score(cosine), -np.inf if options.min_score is None else options.min_score
    kept = [each.text for each in neighbours if each.text not in left_out and lowest <= each.cosine <= highest]
    return tuple(kept[: options.rank_limit(most)][options.range_min :][: options.num_negatives])


def _lowest_cosines(model: AlbertSentenceEncoder, tokenizer: FullTokenizer, positives: dict[str, list[str]],
                    batch_size: int) -> np.ndarray:
    """The lowest cosine of each first text and its second ones, float32 [first texts]."""
    unit_vectors, lowest = unit_vectors_function(model, tokenizer, batch_size), []
    for block in chunks(positives.items(), _BLOCK):
        counts = [len(seconds) for _, seconds in block]
        firsts = np.repeat(unit_vectors([first for first, _ in block]), counts, axis=0)
        cosines = np.sum(firsts * unit_vectors([text for _, seconds in block for text in seconds]), axis=1)
        lowest.append(np.minimum.reduceat(cosines, np.cumsum([0, *counts[:-1]])))
    return np.concatenate(lowest)


def as_rows(pairs: Sequence[TextPair], path: str) -> str:
    """Pairs with negatives as the content of a file that read_pairs reads: .tsv, .csv or JSON lines, by its name.

    Raises:
      ValueError: a text has a tab or a line break, which a .tsv cannot have.
    """
    names, ending = column_names(len(pairs[0].negatives)), os.path.splitext(path)[1].lower()
    if ending in JSON_LINES:
        return "".join(json.dumps(dict(zip(names, pair.texts)), ensure_ascii=False) + "\n" for pair in pairs)
    if ending == ".csv":
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows(pair.texts for pair in pairs)
        return file.getvalue()
    for pair in pairs:
        for text in pair.texts:
            if {"\t", "\n", "\r"} & set(text):
                raise ValueError(f"{path}: a .tsv cannot have a text with a tab or a line break: choose .csv or .jsonl."
                                 f" Received: {text[:60]!r}")
    return "".join("\t".join(pair.texts) + "\n" for pair in pairs)

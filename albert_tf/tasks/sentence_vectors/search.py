"""Vectors of texts, and the nearest neighbours of queries among lines whose vectors are stored."""

from __future__ import annotations

import heapq
from typing import Callable, Iterable, NamedTuple, Sequence

import numpy as np

from albert_tf.data.worker_pool import chunks
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.vectors import LEAST_LENGTH, VectorPrecision
from albert_tf.tasks.sentence_vectors.embeddings import embed_by, token_ids, vectors_function
from albert_tf.text.tokenization import FullTokenizer


class Neighbour(NamedTuple):
    """A line near a query."""

    cosine: float  # with "binary" that of vectors of 1 and -1, which is 1 - 2 * Hamming distance / size
    line: int  # its number, from 1
    text: str


def nearest_lines(
    queries: np.ndarray, lines: Iterable[str], vectors: np.ndarray, precision: VectorPrecision, top_k: int,
    block_size: int = 4096,
) -> list[list[Neighbour]]:
    """The nearest lines of each query, the nearest first; of equal cosines, the earlier line first; [] without lines.

    Queries are vectors of length 1, float32 [queries, size]; the lines' vectors are stored in the precision, and
    block_size of them are in memory at a time. Empty lines are skipped.
    """
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    best: list[list[Neighbour]] = [[] for _ in queries]
    for block in chunks(numbered, block_size):
        stored = vectors[[number - 1 for number, _ in block]]
        for row, values in enumerate(cosines(queries, stored, precision)):
            candidates = np.argsort(-values, kind="stable")[:top_k]
            neighbours = [Neighbour(float(values[i]), *block[i]) for i in candidates]
            best[row] = heapq.nsmallest(top_k, [*best[row], *neighbours], key=lambda each: (-each.cosine, each.line))
    return best


def cosines(queries: np.ndarray, stored: np.ndarray, precision: VectorPrecision) -> np.ndarray:
    """The cosine of each query and each line, float32 [queries, lines].

    Queries are float32 [queries, size], of length 1; with "binary", they are compared as bits. The stored vectors are
    in the precision, of any length.
    """
    size = queries.shape[1]
    lines = precision.restored(stored, size).numpy()
    if precision.name == "binary":  # equal Hamming distances give equal cosines
        return precision.restored(precision.stored(queries), size).numpy() @ lines.T / size
    return queries @ _of_length_1(lines).T


def unit_vectors_function(
    model: AlbertSentenceEncoder, tokenizer: FullTokenizer, batch_size: int = 32
) -> Callable[[Sequence[str]], np.ndarray]:
    """Returns a function from texts to their vectors of length 1, float32 [texts, size]. The model is traced once."""
    function = vectors_function(model)

    def unit_vectors(texts: Sequence[str]) -> np.ndarray:
        vectors = np.zeros([len(texts), model.vector_size], np.float32)
        for each in embed_by(function, token_ids(tokenizer, texts, model.row_length), batch_size):
            vectors[each.text] = each.pooled
        return _of_length_1(vectors)

    return unit_vectors


def _of_length_1(vectors: np.ndarray) -> np.ndarray:
    return np.array([vector / max(np.linalg.norm(vector), LEAST_LENGTH) for vector in vectors],
                    np.float32).reshape(vectors.shape)

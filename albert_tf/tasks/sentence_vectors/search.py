"""Nearest neighbours of queries among lines whose vectors are stored.

Files of vectors in a precision (see VectorPrecision), which may be larger than memory.

    vectors.npy           float32 [lines, size]; int8 [lines, size], or for binary [lines, size / 8]
    vectors.ranges.npy    for int8: the smallest and the largest value of each dimension, float32 [2, size]
"""

from __future__ import annotations

import hashlib
import heapq
import os
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from albert_tf.data.worker_pool import chunks
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.vectors import LEAST_LENGTH, VectorPrecision, as_ranges, read_ranges
from albert_tf.tasks.sentence_vectors.vectors import embed, prompted, token_ids, vectors_function
from albert_tf.text.tokenization import FullTokenizer, tokenizer_key
from albert_tf.utils.outputs import array_writer, made_from_of, read_array, write_array


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
    model: AlbertSentenceEncoder, tokenizer: FullTokenizer, batch_size: int = 32, prompt_name: str | None = None,
) -> Callable[[Sequence[str]], np.ndarray]:
    """Returns a function from texts to their vectors of length 1, float32 [texts, size]. The model is traced once.

    For the prompt see text_vectors.
    """
    function = vectors_function(model)

    def unit_vectors(texts: Sequence[str]) -> np.ndarray:
        vectors = np.zeros([len(texts), model.vector_size], np.float32)
        rows = token_ids(tokenizer, prompted(model.settings, texts, prompt_name), model.row_length)
        for each in embed(function, rows, batch_size):
            vectors[each.text] = each.pooled
        return _of_length_1(vectors)

    return unit_vectors


def _of_length_1(vectors: np.ndarray) -> np.ndarray:
    return np.array([vector / max(np.linalg.norm(vector), LEAST_LENGTH) for vector in vectors],
                    np.float32).reshape(vectors.shape)


# --- files of vectors -------------------------------------------------------------------------------------------------


_BLOCK = 4096  # vectors that are in memory at a time


def ranges_path(path: str) -> str:
    """x.npy -> x.ranges.npy."""
    return f"{os.path.splitext(path)[0]}.ranges.npy"


def ranges_in(path: str) -> tuple[tuple[float, ...], ...]:
    """The smallest and the largest value of each dimension of the float32 vectors in a file."""
    blocks = list(_blocks(read_array(path)))
    lowest, highest = [block.min(axis=0) for block in blocks], [block.max(axis=0) for block in blocks]
    return as_ranges(np.stack([np.min(lowest, axis=0), np.max(highest, axis=0)]))


def write_stored(source: str, path: str, precision: VectorPrecision) -> None:
    """Writes the float32 vectors of the file `source` in a precision, int8, and for "int8" their ranges."""
    vectors, first = read_array(source), 0
    with array_writer(path, (len(vectors), precision.stored_size(vectors.shape[1])), np.int8) as write:
        for block in _blocks(vectors):
            write(first, precision.stored(block).numpy())
            first += len(block)
    if precision.ranges is not None:
        write_array(ranges_path(path), np.asarray(precision.ranges, np.float32))


def made_with(model: AlbertSentenceEncoder, tokenizer: FullTokenizer) -> dict[str, Any]:
    """What the cosines of texts depend on, as JSON values."""
    weights = hashlib.sha256()
    for variable in model.weights:
        if model.uses_pooler or "/pooler/" not in variable.name:  # a pooler without use may be random
            weights.update(variable.numpy().tobytes())
    return dict(tokenizer_key(tokenizer), weights_sha256=weights.hexdigest(), pooling=model.settings.pooling,
                max_seq_length=model.row_length, num_hidden_layers=model.config.num_hidden_layers)


def open_vectors(
    path: str, num_lines: int | None, size: int, expected: Mapping[str, Any]
) -> tuple[np.ndarray, VectorPrecision]:
    """The vectors that extract_embeddings has written, and their precision, from the manifest beside them.

    Other vectors than num_lines (None: any) of the size, made with what `expected` has (see made_with), are an error.
    """
    vectors, made_from = read_array(path), made_from_of(path)
    if made_from is None:
        raise ValueError(f"{path} has no manifest that says what it was made from: write it with extract_embeddings")
    if made_from.get("per_token"):
        raise ValueError(f"{path} has a vector for each token: write it without --per_token")
    for name, value in expected.items():
        if made_from.get(name) != value:
            raise ValueError(f"{path} was made with {name}={made_from.get(name)}, but the search uses {value}: set "
                             "what extract_embeddings used, or write the vectors again")
    name = made_from.get("vector_precision", "float32")
    precision = VectorPrecision(name, read_ranges(ranges_path(path)) if name == "int8" else None)
    precision.check_size(size)
    if vectors.ndim != 2 or vectors.shape[1] != precision.stored_size(size):
        raise ValueError(f"{path} has {name} vectors of the shape {list(vectors.shape)}, but the model's vectors have "
                         f"{size} dimensions")
    if num_lines is not None and len(vectors) != num_lines:
        raise ValueError(f"{path} has {len(vectors)} vectors, but there are {num_lines} lines")
    return vectors, precision


def _blocks(vectors: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(vectors), _BLOCK):
        yield np.asarray(vectors[start : start + _BLOCK])

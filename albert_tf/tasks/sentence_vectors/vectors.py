"""Vectors of texts: computed in batches of similar length, exported, projected for a student, stored and searched.

Files of vectors in a precision (see VectorPrecision), which may be larger than memory::

    vectors.npy           float32 [lines, size]; int8 [lines, size], or for binary [lines, size / 8]
    vectors.ranges.npy    for int8: the smallest and the largest value of each dimension, float32 [2, size]
"""

from __future__ import annotations

import hashlib
import heapq
import os
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np
import scipy.linalg
import tensorflow as tf

from albert_tf.data.worker_pool import chunks
from albert_tf.export.saved_model import TextSignature, export_model, sequence_features
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.settings import PredictingModel, SentenceEncoderSettings
from albert_tf.modeling.vectors import LEAST_LENGTH, VectorPrecision, as_ranges, prompt_text, read_ranges
from albert_tf.text.graph.packing import pack_texts
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.packing import SpecialTokens
from albert_tf.text.tokenization import FullTokenizer, tokenizer_key
from albert_tf.utils.manifests import made_from_of
from albert_tf.utils.outputs import array_writer, read_array, write_array
from albert_tf.weights.heads import checked_settings


class Vectors(NamedTuple):
    """The vectors of one text."""

    text: int  # its index
    pooled: np.ndarray  # float32 [H], by the model's pooling
    tokens: np.ndarray  # float32 [tokens, H], the sequence output of [CLS], the text's tokens and [SEP]


def prompted(settings: SentenceEncoderSettings, texts: Sequence[str], prompt_name: str | None = None) -> list[str]:
    """Texts behind a prompt of a sentence encoder: None for the default prompt, "" for none."""
    prompt = prompt_text(settings.prompts, settings.default_prompt_name if prompt_name is None else prompt_name)
    return [prompt + text for text in texts]


def token_ids(tokenizer: FullTokenizer, texts: Sequence[str], max_seq_length: int) -> list[np.ndarray]:
    """The ids of [CLS] text [SEP] for each text, int32 [tokens], truncated to max_seq_length."""
    special_tokens = SpecialTokens(tokenizer)
    return [special_tokens.around(ids[: max_seq_length - 2]) for ids in tokenizer.encode_batch(list(texts))]


def text_vectors(
    model: PredictingModel, tokenizer: FullTokenizer, texts: Sequence[str], batch_size: int = 32,
    prompt_name: str | None = None,
) -> np.ndarray:
    """The vector of each text, float32 [texts, H], by a sentence encoder, Keras or exported; longer texts are cut.

    The prompt with this name is put before each text; None: the model's default prompt; "": none.
    """
    texts = prompted(checked_settings(model, tokenizer, SentenceEncoderSettings), texts, prompt_name)
    read = texts or [""]  # the vector of "" tells how wide vectors are
    batches = (read[first : first + batch_size] for first in range(0, len(read), batch_size))
    vectors = [np.asarray(model(tokenizer(batch, max_seq_length=model.row_length))["sentence_embedding"])
               for batch in batches]
    return np.concatenate(vectors)[: len(texts)]


def vectors_function(model: AlbertSentenceEncoder) -> Callable:
    """A tf.function from ids, ragged int32 [batch, (seq)], to sentence_embedding and sequence_output, float32."""

    @tf.function(autograph=False, input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    def vectors(ids):
        outputs = model(padded_inputs(ids))
        return outputs["sentence_embedding"], tf.cast(outputs["sequence_output"], tf.float32)

    return vectors


def embed(vectors: Callable, rows: Sequence[np.ndarray], batch_size: int) -> Iterator[Vectors]:
    """The vectors of all rows of `token_ids`, shortest first, so that the rows of a batch have similar lengths.

    `vectors` is the vectors_function of a model.
    """
    for texts, ids in batches_by_length(rows, batch_size):
        for text, pooled, tokens in zip(texts, *(output.numpy() for output in vectors(ids))):
            yield Vectors(int(text), pooled, tokens[: len(rows[text])])


def batches_by_length(
    rows: Sequence[np.ndarray], batch_size: int
) -> Iterator[tuple[np.ndarray, tf.RaggedTensor]]:
    """Batches of rows, shortest first: the indices of the rows, and their ids, ragged int32 [batch, (seq)]."""
    order = np.argsort([len(row) for row in rows], kind="stable")
    for start in range(0, len(rows), batch_size):
        batch = order[start : start + batch_size]
        yield batch, tf.RaggedTensor.from_row_lengths(np.concatenate([rows[index] for index in batch]),
                                                      [len(rows[index]) for index in batch])


def padded_inputs(ids: tf.RaggedTensor) -> dict[str, tf.Tensor]:
    """The inputs of a model, each int32 [batch, longest row], from ragged ids of one text a row."""
    dense = ids.to_tensor()
    return dict(input_ids=dense, input_mask=tf.ones_like(ids).to_tensor(), segment_ids=tf.zeros_like(dense))


def token_files(path: str) -> tuple[str, str]:
    """The files beside the vectors of tokens at `path`: x.npy -> x.row_splits.npy, x.input_ids.npy.

    They have row_splits, int64 [lines + 1], and input_ids, int32 [tokens].
    """
    stem = os.path.splitext(path)[0]
    return f"{stem}.row_splits.npy", f"{stem}.input_ids.npy"


def write_token_files(path: str, rows: Sequence[np.ndarray]) -> None:
    """Writes the files of token_files, from the ids of each line."""
    row_splits, input_ids = token_files(path)
    write_array(row_splits, np.cumsum([0, *map(len, rows)], dtype=np.int64))
    write_array(input_ids, np.concatenate(rows))


# --- exported models --------------------------------------------------------------------------------------------------


def export_sentence_encoder(
    export_dir: str, model: AlbertSentenceEncoder, tokenizer: FullTokenizer, max_seq_length: int
) -> None:
    """Writes a SavedModel that converts texts to vectors (see export_model for the signatures).

    The input as raw text is `text`, string [batch]. The output is sentence_embedding, [batch, vector_size], with the
    model's pooling and normalization: float32, or int8 by the model's vector_precision. The model's default prompt is
    put before raw texts.

    Longer texts are truncated.
    """
    prompt, = prompted(model.settings, [""])

    def pack(graph_tokenizer: GraphTokenizer, text: tf.Tensor) -> dict:
        return pack_texts(graph_tokenizer, max_seq_length, tf.strings.join([prompt, text]) if prompt else text)

    export_model(export_dir, model, tokenizer, sequence_features(max_seq_length), model.exported_outputs,
                 TextSignature(dict(text=[None]), pack))


# --- a student's targets ----------------------------------------------------------------------------------------------


_PRODUCT_BLOCK = 10_000  # vectors that are in memory in float64


def projection(
    vectors: np.ndarray, size: int, student_vectors: np.ndarray | None = None, rows: slice = slice(None)
) -> np.ndarray:
    """The matrix from a teacher's vectors to a student's targets, float32 [width, size].

    Inner products stay the same, or as nearly the same as the size allows: wider vectors are projected to their first
    principal components, not centred (Eckart and Young, 1936); narrower ones get zeros. Then they are rotated towards
    the student's vectors (Schoenemann, 1966).

    The vectors are float32 [texts, width]. The student's, [some texts, size], belong to the texts in `rows`; their
    lengths do not matter. None: no rotation.
    """
    width = vectors.shape[1]
    matrix = np.eye(width, size) if width <= size else _principal_components(vectors)[:, :size]  # [width, size]
    if student_vectors is not None:
        rotation, _ = scipy.linalg.orthogonal_procrustes(_of_length_1(vectors[rows] @ matrix),
                                                         _of_length_1(student_vectors))
        matrix = matrix @ rotation
    return matrix.astype(np.float32)


def _principal_components(vectors: np.ndarray) -> np.ndarray:
    """The components in the columns, the largest first, float64 [width, width]."""
    products = np.zeros([vectors.shape[1]] * 2)
    for block in _blocks(vectors, _PRODUCT_BLOCK):
        block = block.astype(np.float64)
        products += block.T @ block
    return np.linalg.eigh(products)[1][:, ::-1]  # eigh's eigenvalues ascend


def _of_length_1(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), LEAST_LENGTH)


class Neighbour(NamedTuple):
    """A line near a query."""

    cosine: float  # with "binary", of vectors of 1 and -1: 1 - 2 * Hamming distance / size
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
    return queries @ _each_of_length_1(lines).T


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
        return _each_of_length_1(vectors)

    return unit_vectors


def _each_of_length_1(vectors: np.ndarray) -> np.ndarray:
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
    """Everything that determines the cosines of texts, as JSON values."""
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

    Raises ValueError unless there are num_lines vectors (None: any number) of the size, made with the values in
    `expected` (see made_with).
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


def _blocks(vectors: np.ndarray, size: int = _BLOCK) -> Iterator[np.ndarray]:
    for start in range(0, len(vectors), size):
        yield np.asarray(vectors[start : start + size])

"""Vectors of texts: computed in batches of similar length, exported, and projected for a student."""

from __future__ import annotations

from typing import Iterator, Sequence

import numpy as np
import scipy.linalg
import tensorflow as tf

from albert_tf.data.worker_pool import chunks
from albert_tf.export.saved_model import TextSignature, export_model, sequence_features
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.settings import PredictingModel, SentenceEncoderSettings
from albert_tf.modeling.vectors import LEAST_LENGTH, prompt_text
from albert_tf.text.graph.packing import pack_texts
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.weights.heads import checked_settings


def prompted(settings: SentenceEncoderSettings, texts: Sequence[str], prompt_name: str | None = None) -> list[str]:
    """Texts behind a prompt of a sentence encoder: None for the default prompt, "" for none."""
    prompt = prompt_text(settings.prompts, settings.default_prompt_name if prompt_name is None else prompt_name)
    return [prompt + text for text in texts]


def token_ids(tokenizer: FullTokenizer, texts: Sequence[str], max_seq_length: int) -> list[np.ndarray]:
    """The ids of [CLS] text [SEP] for each text, int32 [tokens], truncated to max_seq_length."""
    special_tokens = tokenizer.special_tokens
    longest = max_seq_length - special_tokens.single
    return [special_tokens.around(ids[:longest]) for ids in tokenizer.encode_batch(list(texts))]


def text_vectors(
    model: PredictingModel, tokenizer: FullTokenizer, texts: Sequence[str], batch_size: int = 32,
    prompt_name: str | None = None,
) -> np.ndarray:
    """The vector of each text, float32 [texts, vector_size].

    Args:
      model: an AlbertSentenceEncoder, or an exported one (from_onnx).
      tokenizer: the model's tokenizer.
      texts: raw texts. Longer ones than the model's row_length, in tokens, are truncated.
      batch_size: number of texts that are computed together.
      prompt_name: name of the prompt that is put before each text; None for the model's default prompt, "" for none.

    Raises:
      ValueError: the model is not a sentence encoder, the tokenizer is not the model's, or there is no such prompt.

    Example::

      model = albert_tf.from_pretrained("albert_minilm_en", model="sentence_encoder")
      tokenizer = albert_tf.tokenizer_from_pretrained("albert_minilm_en")
      first, second = albert_tf.text_vectors(model, tokenizer, ["A quiet day.", "Nothing happened today."])
      first @ second  # the cosine
    """
    texts = prompted(checked_settings(model, tokenizer, SentenceEncoderSettings), texts, prompt_name)
    read = texts or [""]  # the vector of "" tells how wide vectors are
    batches = (read[first : first + batch_size] for first in range(0, len(read), batch_size))
    vectors = [np.asarray(model(tokenizer(batch, max_seq_length=model.row_length))["sentence_embedding"])
               for batch in batches]
    return np.concatenate(vectors)[: len(texts)]


def embed(
    model: AlbertSentenceEncoder, rows: Sequence[np.ndarray], batch_size: int
) -> Iterator[tuple[int, np.ndarray]]:
    """The index and the vector, float32 [H], of each row of `token_ids`. Rows of similar lengths are in one batch."""

    @tf.function(autograph=False, input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    def vectors(ids: tf.RaggedTensor) -> tf.Tensor:
        dense = ids.to_tensor()
        mask = tf.ones_like(ids).to_tensor()
        return model(dict(input_ids=dense, input_mask=mask, segment_ids=tf.zeros_like(dense)))["sentence_embedding"]

    order = np.argsort([len(row) for row in rows], kind="stable").tolist()
    for batch in chunks(order, batch_size):
        ids = tf.RaggedTensor.from_row_lengths(np.concatenate([rows[index] for index in batch]),
                                               [len(rows[index]) for index in batch])
        yield from zip(batch, vectors(ids).numpy())


def export_sentence_encoder(
    export_dir: str, model: AlbertSentenceEncoder, tokenizer: FullTokenizer, max_seq_length: int
) -> None:
    """Writes a SavedModel that converts texts to vectors (see export_model for the signatures).

    The input as raw text is `text`, string [batch]; the model's default prompt is put before it. The output is
    sentence_embedding, float32 [batch, vector_size], with the model's pooling and normalization.
    """
    prompt, = prompted(model.settings, [""])

    def pack(graph_tokenizer: GraphTokenizer, text: tf.Tensor) -> dict:
        return pack_texts(graph_tokenizer, max_seq_length, tf.strings.join([prompt, text]) if prompt else text)

    export_model(export_dir, model, tokenizer, sequence_features(max_seq_length), model.exported_outputs,
                 TextSignature(dict(text=[None]), pack))


_PRODUCT_BLOCK = 10_000  # vectors that are in memory in float64


def projection(
    vectors: np.ndarray, size: int, student_vectors: np.ndarray | None = None, rows: slice = slice(None)
) -> np.ndarray:
    """The matrix from a teacher's vectors, [texts, width], to a student's targets, float32 [width, size].

    Inner products stay as they are, as far as the size allows: wider vectors are projected to their first principal
    components, not centred (Eckart and Young, 1936); narrower ones get zeros. Then they are rotated towards the
    student's vectors of the texts in `rows` (Schoenemann, 1966), unless these are None.
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
    for start in range(0, len(vectors), _PRODUCT_BLOCK):
        block = np.asarray(vectors[start : start + _PRODUCT_BLOCK], np.float64)
        products += block.T @ block
    return np.linalg.eigh(products)[1][:, ::-1]  # eigh's eigenvalues ascend


def _of_length_1(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), LEAST_LENGTH)

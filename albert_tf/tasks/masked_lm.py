"""Uses a masked-LM head on raw text: fills [MASK], in Python and in exported models."""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.export.saved_model import TextSignature, export_model, sequence_features
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.settings import PredictingModel, PretrainerSettings
from albert_tf.text.graph.packing import numbers_in_rows, pack_ids
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.packing import padded_rows
from albert_tf.text.pieces import WORD_START
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.weights.heads import checked_settings

MASK = "[MASK]"


class Filling(NamedTuple):
    """A piece for a [MASK].

    Attributes:
      piece: of the vocabulary; "▁" stands for a space before it.
      probability: of the piece at the mask, from 0 to 1.
    """

    piece: str
    probability: float


def fill_masks(
    model: PredictingModel, tokenizer: FullTokenizer, text: str, top_k: int = 5
) -> list[list[Filling]]:
    """The top_k most likely pieces for each [MASK] of a text, best first.

    Args:
      model: an AlbertPretrainer, or an exported one (from_onnx).
      tokenizer: the model's tokenizer.
      text: raw text with at least one [MASK].
      top_k: number of pieces per mask.

    Raises:
      ValueError: the model has no masked-LM head, the tokenizer is not the model's, text is not a string, it has no
        [MASK], or it has more tokens than max_position_embeddings.

    Example::

      model = albert_tf.from_pretrained("albert_tiny_en", model="pretrainer")
      tokenizer = albert_tf.tokenizer_from_pretrained("albert_tiny_en")
      albert_tf.fill_masks(model, tokenizer, "She opened the [MASK].")[0][0].piece  # "▁door"
    """
    checked_settings(model, tokenizer, PretrainerSettings)
    if not isinstance(text, str):
        raise ValueError(f"text must be a string: call fill_masks once for each text. Received: {type(text).__name__}")
    ids = masked_ids(tokenizer, text)
    if tokenizer.mask_id not in ids:
        raise ValueError(f"there is no {MASK}, in capitals and square brackets, in the text: {text[:80]!r}")
    longest = model.config.max_position_embeddings
    if len(ids) > longest:
        raise ValueError(f"the text has {len(ids)} tokens, but the model takes {longest} at most: {text[:80]!r}")
    return _fillings(model, tokenizer, [ids], top_k)[0]


def fill_texts(
    model: PredictingModel, tokenizer: FullTokenizer, texts: Sequence[str], top_k: int = 5
) -> list[list[list[Filling]]]:
    """fill_masks for a batch. A text may have no [MASK], and a text that is too long for the model is truncated."""
    longest, last = model.config.max_position_embeddings, tokenizer.special_tokens.last
    rows = []
    for text in texts:
        ids = masked_ids(tokenizer, text)
        rows.append(ids if len(ids) <= longest else [*ids[: longest - len(last)], *last])
    return _fillings(model, tokenizer, rows, top_k)


def _fillings(
    model: PredictingModel, tokenizer: FullTokenizer, rows: Sequence[Sequence[int]], top_k: int
) -> list[list[list[Filling]]]:
    """The best pieces of each mask of each row of ids."""
    positions = [[i for i, piece_id in enumerate(ids) if piece_id == tokenizer.mask_id] for ids in rows]
    if not any(positions):
        return [[] for _ in rows]
    ids = padded_rows(rows, tokenizer.pad_id)  # [rows, seq]
    outputs = model(dict(input_ids=ids, input_mask=padded_rows([[1] * len(row) for row in rows], 0),
                         segment_ids=np.zeros_like(ids), masked_lm_positions=padded_rows(positions, 0)))
    logits = np.asarray(outputs["mlm_logits"], np.float32)  # [rows, masks, vocab]
    return [[best_pieces(mask, tokenizer, top_k) for mask in row[: len(masks)]]
            for row, masks in zip(logits, positions)]


def masked_ids(tokenizer: FullTokenizer, text: str) -> list[int]:
    """The ids of [CLS] text [SEP], with the id of [MASK] for each "[MASK]" in the text.

    The parts between masks are tokenized separately, and SentencePiece adds a word-start mark before each part. A part
    that follows a mask without a space continues the mask's word (the full stop in "a [MASK]."), so there the mark is
    removed.
    """
    before, *after = text.split(MASK)
    ids = tokenizer.encode(before)
    for part in after:
        ids.append(tokenizer.mask_id)
        pieces = tokenizer.convert_ids_to_tokens(tokenizer.encode(part))
        if pieces and not part[0].isspace():
            pieces[:1] = filter(None, [inside_word(tokenizer, pieces[0])])
        ids += tokenizer.convert_tokens_to_ids(pieces)
    return tokenizer.special_tokens.around(ids).tolist()


def inside_word(tokenizer: FullTokenizer, piece: str) -> str:
    """The piece without its word-start mark, if the vocabulary has it; "" for a piece that is only the mark."""
    inside = piece[len(WORD_START):] if piece.startswith(WORD_START) else piece
    return inside if not inside or inside in tokenizer.vocab else piece


def best_pieces(logits: np.ndarray, tokenizer: FullTokenizer, top_k: int) -> list[Filling]:
    """The top_k most likely pieces of a mask, best first, from its logits [vocab]."""
    # A model may have more rows than pieces, for a round number. They have no text.
    probabilities = softmax(logits)[: tokenizer.vocab_size]
    least = np.partition(probabilities, -min(top_k, len(probabilities)))[-min(top_k, len(probabilities))]
    candidates = np.flatnonzero(probabilities >= least)  # sorting these alone is 30 times as fast as sorting all
    best = candidates[np.argsort(-probabilities[candidates], kind="stable")[:top_k]]
    pieces = tokenizer.convert_ids_to_tokens(best.tolist())
    return [Filling(piece, float(probabilities[i])) for piece, i in zip(pieces, best)]


def softmax(logits: np.ndarray) -> np.ndarray:
    """The softmax over the last axis, without scipy, which takes time to import (see imports.py)."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def export_mask_filling(
    export_dir: str, model: AlbertPretrainer, tokenizer: FullTokenizer, top_k: int = 5,
    max_seq_length: int | None = None, max_predictions_per_seq: int = 20,
) -> None:
    """Writes a SavedModel that fills each [MASK] (see export_model for the signatures).

    The input as raw text is `text`, string [batch]. The outputs are pieces, string, and probabilities, float32 [batch,
    masks, top_k] each, best first, padded with "" and 0. tf.Examples have max_seq_length tokens (None:
    max_position_embeddings) and max_predictions_per_seq masked_lm_positions.
    """
    longest = model.config.max_position_embeddings
    masks = GraphMasks(tokenizer, longest, top_k)
    positions = tf.io.FixedLenFeature([max_predictions_per_seq], tf.int64)
    export_model(export_dir, model, tokenizer,
                 dict(sequence_features(max_seq_length or longest), masked_lm_positions=positions), masks.fillings,
                 TextSignature(dict(text=[None]), masks.pack, masks.answer))


# str.isspace as a regular expression.
_BEGINS_WITH_SPACE = r"(?s)[\t-\r\x1c-\x1f\x{85}\pZ].*"
_LEFT_OUT = -1


class GraphMasks(tf.Module):
    """Converts raw texts with [MASK] to the model's inputs, and its outputs to the top_k pieces of each mask."""

    def __init__(self, tokenizer: FullTokenizer, max_seq_length: int, top_k: int):
        super().__init__()
        self._max_seq_length, self._top_k = max_seq_length, top_k
        pieces = tokenizer.convert_ids_to_tokens(range(tokenizer.vocab_size))
        self._pieces = tf.constant(pieces)
        inside = [inside_word(tokenizer, piece) for piece in pieces]
        # The id of each piece within a word; a piece that is only a word-start mark is left out there.
        self._inside_word = tf.constant([tokenizer.vocab[piece] if piece else _LEFT_OUT for piece in inside])

    def pack(self, tokenizer: GraphTokenizer, text: tf.Tensor) -> dict:
        """Packs texts, string [batch], as masked_ids does.

        Returns input_ids, input_mask, segment_ids, int32 [batch, seq]; masked_lm_positions, int32 [batch, masks], and
        is_mask, bool [batch, masks]. Both are padded with zeros for texts that have fewer masks.
        """
        parts = tf.strings.split(text, MASK)  # [batch, (parts)]
        is_after_mask = numbers_in_rows(parts) > 0
        ids = tokenizer.tokenize(parts.values)  # [parts, (pieces)]
        continues_word = is_after_mask & ~tf.strings.regex_full_match(parts.values, _BEGINS_WITH_SPACE)
        changes = tf.gather(continues_word, ids.value_rowids()) & (numbers_in_rows(ids) == 0)
        changed = tf.where(changes, tf.gather(self._inside_word, ids.values), ids.values)
        ids = tf.ragged.boolean_mask(ids.with_values(changed), ids.with_values(changed != _LEFT_OUT))
        masks = tf.RaggedTensor.from_row_lengths(tf.fill([tf.math.count_nonzero(is_after_mask)], tokenizer.mask_id),
                                                 tf.cast(is_after_mask, tf.int64))
        rows = parts.with_values(tf.concat([masks, ids], axis=1)).merge_dims(1, 2)  # [batch, (pieces)]
        packed = pack_ids(tokenizer, self._max_seq_length, rows)
        in_rows, columns = tf.unstack(tf.where(packed["input_ids"] == tokenizer.mask_id), axis=1)  # [masks] each
        positions = tf.RaggedTensor.from_value_rowids(tf.cast(columns, tf.int32), in_rows, nrows=parts.nrows())
        is_mask = tf.ones_like(positions, tf.bool)
        return dict(packed, masked_lm_positions=positions.to_tensor(0), is_mask=is_mask.to_tensor())

    def fillings(self, outputs: dict) -> dict:
        """The most likely pieces, string [batch, masks, top_k], and their probabilities, from the model's outputs."""
        probabilities = tf.nn.softmax(outputs["mlm_logits"])[..., : self._pieces.shape[0]]  # see fill_mask
        probabilities, ids = tf.math.top_k(probabilities, min(self._top_k, probabilities.shape[-1]))
        return dict(pieces=tf.gather(self._pieces, ids), probabilities=probabilities)

    def answer(self, texts: dict, inputs: dict, fillings: dict) -> dict:
        """The fillings of raw texts. For texts that have fewer masks, the padding is "" and probability 0."""
        is_mask = inputs["is_mask"][..., None]
        return dict(pieces=tf.where(is_mask, fillings["pieces"], ""),
                    probabilities=tf.where(is_mask, fillings["probabilities"], 0.0))

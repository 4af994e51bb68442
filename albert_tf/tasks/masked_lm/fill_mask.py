"""Fills [MASK] in raw text with the masked-LM head."""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from albert_tf.text.packing import SpecialTokens, padded_rows
from albert_tf.text.pieces import WORD_START
from albert_tf.weights.heads import check_reads_texts

MASK = "[MASK]"


class Filling(NamedTuple):
    """A piece of the vocabulary and its probability at the mask."""

    piece: str
    probability: float


def fill_masks(model, tokenizer, text: str, top_k: int = 5) -> list[list[Filling]]:
    """The top_k most likely pieces for each [MASK] of a text, best first.

    Args:
      model: an AlbertPretrainer, or an exported one (from_onnx).
      tokenizer: the model's tokenizer.
      text: raw text with at least one [MASK].
      top_k: number of pieces per mask.

    Raises:
      ValueError: the model has no masked-LM head, the tokenizer is not the model's, text is not a string, it has no
        [MASK], or it has more tokens than max_position_embeddings.
    """
    check_reads_texts(model, tokenizer, "pretrainer")
    if not isinstance(text, str):
        raise ValueError(f"text must be a string: call fill_masks once for each text. Received: {type(text).__name__}")
    ids = masked_ids(tokenizer, text)
    if tokenizer.mask_id not in ids:
        raise ValueError(f"there is no {MASK}, in capitals and square brackets, in the text: {text[:80]!r}")
    longest = model.config.max_position_embeddings
    if len(ids) > longest:
        raise ValueError(f"the text has {len(ids)} tokens, but the model takes {longest} at most: {text[:80]!r}")
    return _fillings(model, tokenizer, [ids], top_k)[0]


def fill_texts(model, tokenizer, texts: Sequence[str], top_k: int = 5) -> list[list[list[Filling]]]:
    """fill_masks for a batch. A text may have no [MASK], and a text that is too long for the model is truncated."""
    check_reads_texts(model, tokenizer, "pretrainer")
    longest = model.config.max_position_embeddings
    rows = []
    for text in texts:
        ids = masked_ids(tokenizer, text)
        rows.append(ids if len(ids) <= longest else [*ids[: longest - 1], tokenizer.sep_id])
    return _fillings(model, tokenizer, rows, top_k)


def _fillings(model, tokenizer, rows: Sequence[Sequence[int]], top_k: int) -> list[list[list[Filling]]]:
    """The best pieces of each mask of each row of ids."""
    positions = [[i for i, piece_id in enumerate(ids) if piece_id == tokenizer.mask_id] for ids in rows]
    if not any(positions):
        return [[] for _ in rows]
    ids = padded_rows(rows, tokenizer.pad_id)  # [rows, seq]
    outputs = model(dict(input_ids=ids, input_mask=padded_rows([[1] * len(row) for row in rows], 0),
                         segment_ids=np.zeros_like(ids), masked_lm_positions=padded_rows(positions, 0)))
    logits = np.asarray(outputs["mlm_logits"], np.float32)  # [rows, masks, vocab]
    return [[best_pieces(mask, tokenizer, top_k) for mask in row[: len(places)]]
            for row, places in zip(logits, positions)]


def masked_ids(tokenizer, text: str) -> list[int]:
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
    return SpecialTokens(tokenizer).around(ids).tolist()


def inside_word(tokenizer, piece: str) -> str:
    """The piece without its word-start mark, if the vocabulary has it; "" for a piece that is only the mark."""
    inside = piece[len(WORD_START):] if piece.startswith(WORD_START) else piece
    return inside if not inside or inside in tokenizer.vocab else piece


def best_pieces(logits: np.ndarray, tokenizer, top_k: int) -> list[Filling]:
    """The top_k most likely pieces of a mask, best first, from its logits [vocab]."""
    # A model may have more rows than pieces, for a round number. They have no text.
    probabilities = softmax(logits)[: tokenizer.vocab_size]
    least = np.partition(probabilities, -min(top_k, len(probabilities)))[-min(top_k, len(probabilities))]
    candidates = np.flatnonzero(probabilities >= least)  # sorting these alone is 30 times as fast as sorting all
    best = candidates[np.argsort(-probabilities[candidates], kind="stable")[:top_k]]
    pieces = tokenizer.convert_ids_to_tokens(best.tolist())
    return [Filling(piece, float(probabilities[i])) for piece, i in zip(pieces, best)]


def softmax(logits: np.ndarray) -> np.ndarray:
    """The softmax over the last axis, without scipy, whose import takes time (see imports.py)."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)

"""Fills [MASK] in raw text with the masked-LM head."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.text.packing import SpecialTokens
from albert_tf.text.sentencepieces import WORD_START

MASK = "[MASK]"


class Filling(NamedTuple):
    """A piece of the vocabulary and its probability at the mask."""

    piece: str
    probability: float


def fill_masks(model, tokenizer, text: str, top_k: int = 5) -> list[list[Filling]]:
    """The top_k most likely pieces for each [MASK] of a text, best first.

    Args:
      model: an AlbertPretrainer.
      tokenizer: the model's tokenizer.
      text: raw text with at least one [MASK].
      top_k: number of pieces per mask.

    Raises:
      ValueError: the model has no masked-LM head, text is not a string, it has no [MASK], or it has more tokens than
        max_position_embeddings.
    """
    if not isinstance(model, AlbertPretrainer):
        raise ValueError('the model must have the masked-LM head: from_pretrained(path, model="pretrainer"). Received: '
                         f"{type(model).__name__}")
    if not isinstance(text, str):
        raise ValueError(f"text must be a string: call fill_masks once for each text. Received: {type(text).__name__}")
    ids = masked_ids(tokenizer, text)
    positions = [i for i, piece_id in enumerate(ids) if piece_id == tokenizer.mask_id]
    if not positions:
        raise ValueError(f"there is no {MASK}, in capitals and square brackets, in the text: {text[:80]!r}")
    longest = model.albert.config.max_position_embeddings
    if len(ids) > longest:
        raise ValueError(f"the text has {len(ids)} tokens, but the model takes {longest} at most: {text[:80]!r}")
    row = np.array([ids], np.int32)  # [1, seq]
    outputs = model(dict(input_ids=row, input_mask=np.ones_like(row), segment_ids=np.zeros_like(row),
                         masked_lm_positions=np.array([positions], np.int32)))
    logits = np.asarray(outputs["mlm_logits"], np.float32)[0]  # [masks, vocab]
    return [_best(row, tokenizer, top_k) for row in _softmax(logits)]


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


def readable_pieces(tokenizer, pieces: list[str]) -> list[str]:
    """Pieces for people, in WordPiece's form: "door" begins a word, "##s" continues one.

    A SentencePiece model has them as "\u2581door" and "s". Its piece "\u2581" is a space, and stays as it is, like the
    pieces that are no text ("[SEP]").
    """
    return [_in_the_form_of_wordpiece(piece) for piece in pieces] if tokenizer.sp_model else list(pieces)


def _in_the_form_of_wordpiece(piece: str) -> str:
    if piece == WORD_START or piece[0] + piece[-1] in ("[]", "<>"):
        return piece
    return piece[len(WORD_START):] if piece.startswith(WORD_START) else f"##{piece}"


def _softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def _best(probabilities: np.ndarray, tokenizer, top_k: int) -> list[Filling]:
    # A model may have more rows than pieces, for a round number. They have no text.
    best = np.argsort(-probabilities[: tokenizer.vocab_size], kind="stable")[:top_k]
    pieces = tokenizer.convert_ids_to_tokens(best.tolist())
    return [Filling(piece, float(probabilities[i])) for piece, i in zip(pieces, best)]

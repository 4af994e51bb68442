"""Pieces of the release's SentencePiece vocabularies, with its rule about commas after digits.

A piece that ends in a digit and a comma is encoded again without the comma (and without its word-start mark), and the
comma is put behind. What is encoded again gets a word-start mark of its own, as in the release under Python 3. The
outcome depends on the piece alone, so it is looked up by the piece's id (release: tokenization.encode_pieces).
"""

from __future__ import annotations

import itertools

import numpy as np
import sentencepiece

from albert_tf.files import read_bytes

WORD_START = "\u2581"


def load_model(path: str) -> sentencepiece.SentencePieceProcessor:
    """Loads a SentencePiece model.

    Raises:
      ValueError: the file is missing or is no SentencePiece model.
    """
    model = read_bytes(path, "SentencePiece model")
    try:
        if not model:
            raise RuntimeError("it is empty")
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise ValueError(f"{path} is no SentencePiece model") from error


def encode_pieces(sp_model: sentencepiece.SentencePieceProcessor, text: str) -> list[str]:
    """The pieces of a text that preprocess_text has been over, as the release gives them."""
    pieces = sp_model.encode(text, out_type=str)
    if not any(map(_ends_in_digit_comma, pieces)):
        return pieces
    return list(itertools.chain.from_iterable(split_digit_comma(sp_model, piece) for piece in pieces))


def encode_ids(sp_model: sentencepiece.SentencePieceProcessor, text: str) -> list[int]:
    """The ids of encode_pieces."""
    return [sp_model.piece_to_id(piece) for piece in encode_pieces(sp_model, text)]


class DigitCommaTable:
    """For each id of a vocabulary, what the digit-comma rule puts in its place.

    `replacements` has the ids for each id of a piece that the rule splits.
    """

    def __init__(self, sp_model: sentencepiece.SentencePieceProcessor):
        self._sp_model = sp_model
        self.replacements: dict[int, list[int]] = {}
        self._needs_a_look = np.zeros(sp_model.vocab_size(), bool)
        # An unknown piece stands for its own text, which only the text can tell.
        self._needs_a_look[sp_model.unk_id()] = True
        for piece_id in range(sp_model.vocab_size()):
            piece = sp_model.id_to_piece(piece_id)
            if _ends_in_digit_comma(piece):
                split = split_digit_comma(sp_model, piece)
                self.replacements[piece_id] = [sp_model.piece_to_id(part) for part in split]
                self._needs_a_look[piece_id] = True

    def encode_batch(self, texts: list[str]) -> list[np.ndarray]:
        """encode_ids of each text, int32, at about SentencePiece's own speed."""
        encoded = self._sp_model.encode(texts, out_type=int)
        lengths = [len(ids) for ids in encoded]
        flat = np.fromiter(itertools.chain.from_iterable(encoded), np.int32, count=sum(lengths))
        ends = np.cumsum(lengths)
        rows = np.split(flat, ends[:-1]) if texts else []
        for row in np.unique(np.searchsorted(ends, np.flatnonzero(self._needs_a_look[flat]), side="right")):
            rows[row] = np.array(self._replace(texts[row], encoded[row]), np.int32)
        return rows

    def _replace(self, text: str, ids: list[int]) -> list[int]:
        if self._sp_model.unk_id() in ids:
            return encode_ids(self._sp_model, text)
        return list(itertools.chain.from_iterable(self.replacements.get(i, (i,)) for i in ids))


def _ends_in_digit_comma(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def split_digit_comma(sp_model: sentencepiece.SentencePieceProcessor, piece: str) -> list[str]:
    """What the digit-comma rule makes of a piece: itself alone, in most cases."""
    if not _ends_in_digit_comma(piece):
        return [piece]
    return sp_model.encode(piece[:-1].replace(WORD_START, ""), out_type=str) + [","]

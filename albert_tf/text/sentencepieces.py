"""Text normalisation and SentencePiece tokenization, as in the release (tokenization.preprocess_text, encode_pieces).

The digit-comma rule: a piece that ends in a digit and a comma is encoded again without the comma (and without its
word-start mark), and the comma becomes a piece of its own. The pieces from the second encoding begin with a new
word-start mark, as in the release under Python 3. The result depends on the piece alone, so a table has it by the
piece's id.
"""

from __future__ import annotations

import itertools
import unicodedata

import numpy as np
import sentencepiece

from albert_tf.utils.files import read_bytes


def preprocess_text(text: str, remove_space: bool = True, lower: bool = False, keep_accents: bool = False) -> str:
    """Normalises a text as the release does: white space, NFKD, removal of combining characters, lower case.

    Args:
      text: any text. The quotes `` and '' are not changed.
      remove_space: whether to replace each run of white space by one space and to strip both ends.
      lower: whether to lower-case the text.
      keep_accents: whether to leave out NFKD and the removal of combining characters, as Hugging Face's ALBERT can. A
        SentencePiece model with NFKC may then compose or replace characters that were lower-cased before: ™ gives TM.
    """
    if remove_space:
        text = " ".join(text.split())
    if not keep_accents and not text.isascii():  # no ASCII character decomposes or is a combining one
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(character for character in decomposed if not unicodedata.combining(character))
    return text.lower() if lower else text


WORD_START = "\u2581"


def load_model(path: str) -> sentencepiece.SentencePieceProcessor:
    """Loads a SentencePiece model.

    Raises:
      ValueError: the file is missing or is not a SentencePiece model.
    """
    model = read_bytes(path, "SentencePiece model")
    try:
        if not model:
            raise RuntimeError("it is empty")
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise ValueError(f"{path} is not a SentencePiece model") from error


def encode_pieces(sp_model: sentencepiece.SentencePieceProcessor, text: str) -> list[str]:
    """The pieces of a text, as in the release. The text must have been normalised by preprocess_text."""
    pieces = sp_model.encode(text, out_type=str)
    return [part for piece in pieces for part in split_digit_comma(sp_model, piece)]


def encode_ids(sp_model: sentencepiece.SentencePieceProcessor, text: str) -> list[int]:
    """The ids of the pieces that encode_pieces returns."""
    return [sp_model.piece_to_id(piece) for piece in encode_pieces(sp_model, text)]


class DigitCommaTable:
    """The digit-comma rule as a table: `replacements` maps the id of a piece that is split to the ids of its parts."""

    def __init__(self, sp_model: sentencepiece.SentencePieceProcessor):
        self._sp_model = sp_model
        self.replacements: dict[int, list[int]] = {}
        for piece_id, piece in enumerate(map(sp_model.id_to_piece, range(sp_model.vocab_size()))):
            if ends_in_digit_comma(piece):
                parts = split_digit_comma(sp_model, piece)
                self.replacements[piece_id] = [sp_model.piece_to_id(part) for part in parts]
        self._may_be_replaced = np.zeros(sp_model.vocab_size(), bool)
        # The rule applies to the text of an unknown piece, which its id does not tell.
        self._may_be_replaced[[*self.replacements, sp_model.unk_id()]] = True

    def encode_batch(self, texts: list[str]) -> list[np.ndarray]:
        """encode_ids for several texts, int32 [pieces] each, at about SentencePiece's own speed."""
        encoded = self._sp_model.encode(texts, out_type=int)
        lengths = [len(ids) for ids in encoded]
        flat = np.fromiter(itertools.chain.from_iterable(encoded), np.int32, count=sum(lengths))
        ends = np.cumsum(lengths)
        rows = np.split(flat, ends[:-1]) if texts else []
        for row in np.unique(np.searchsorted(ends, np.flatnonzero(self._may_be_replaced[flat]), side="right")):
            if self._sp_model.unk_id() in encoded[row]:
                ids = encode_ids(self._sp_model, texts[row])
            else:
                ids = [part for i in encoded[row] for part in self.replacements.get(i, (i,))]
            rows[row] = np.array(ids, np.int32)
        return rows


def ends_in_digit_comma(piece: str) -> bool:
    """Whether the digit-comma rule splits a piece."""
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def split_digit_comma(sp_model: sentencepiece.SentencePieceProcessor, piece: str) -> list[str]:
    """The parts into which the digit-comma rule splits a piece; most pieces are not split."""
    if not ends_in_digit_comma(piece):
        return [piece]
    return sp_model.encode(piece[:-1].replace(WORD_START, ""), out_type=str) + [","]

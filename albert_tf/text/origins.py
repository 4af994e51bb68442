"""Pieces of a text, and the character of the original text that each of their characters came from.

The offsets are kept through every step: white space collapsed, NFKD, marks dropped, SentencePiece's own normalisation,
the digit-comma rule. All of it is linear in the text.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from typing import Any, NamedTuple

import numpy as np

from albert_tf.text import wordpiece
from albert_tf.text.normalization import preprocess_text
from albert_tf.text.sentencepieces import WORD_START, split_digit_comma
from albert_tf.text.tokenization import FullTokenizer

NOWHERE = -1
_SOLID = re.compile(r"\S+")


class TracedPieces(NamedTuple):
    """The pieces of a text with their origins.

    Args:
      ids: int32 [pieces].
      lengths: int32 [pieces], the characters of each in `surface`; none is empty.
      surface: the pieces joined, with a blank where a word starts.
      origins: int32 [characters of surface], where each comes from in the original text; NOWHERE for one that was put
        in. They never go back.
      forms: what each character of the original text is normalised to on its own, [characters of the text].
    """

    ids: np.ndarray
    lengths: np.ndarray
    surface: str
    origins: np.ndarray
    forms: list[str] | str


    @property
    def offsets(self) -> np.ndarray:
        """The original characters that each piece stands for: first and one past the last, int32 [pieces, 2].

        A piece that stands for none, as a blank that was put in, has both at the end of the piece before it.
        """
        offsets, last_end, start = np.zeros([len(self.ids), 2], np.int32), 0, 0
        for i, length in enumerate(self.lengths):
            origins = self.origins[start : start + length]
            origins = origins[origins != NOWHERE]
            offsets[i] = (origins[0], origins[-1] + 1) if len(origins) else (last_end, last_end)
            last_end, start = offsets[i, 1], start + length
        return offsets


def trace_pieces(tokenizer: FullTokenizer, texts: list[str]) -> list[TracedPieces]:
    """`tokenizer.encode_batch` of raw texts, with the origin of every character."""
    if tokenizer.sp_model is None:
        return [_traced_word_pieces(tokenizer, text) for text in texts]
    normal = [preprocess_text(text, lower=tokenizer.do_lower_case) for text in texts]
    encoded = tokenizer.sp_model.encode(normal, out_type=str)
    return [_traced_sentence_pieces(tokenizer, *each) for each in zip(texts, normal, encoded)]


def _traced_sentence_pieces(tokenizer: FullTokenizer, text: str, normal: str, pieces: list[str]) -> TracedPieces:
    forms = _forms(text, tokenizer.do_lower_case)
    surface = "".join(pieces).replace(WORD_START, " ")
    if surface[1:] == forms:  # nothing but a blank was put in front
        origins = np.arange(NOWHERE, len(text), dtype=np.int32)
    else:
        origins = _origins_of_surface(tokenizer.sp_model, text, normal, forms)
    if any(piece[-1] == "," and len(piece) > 1 for piece in pieces):
        replaced = [split_digit_comma(tokenizer.sp_model, piece) for piece in pieces]
        origins = _with_put_in_blanks(pieces, replaced, origins)
        pieces = list(itertools.chain.from_iterable(replaced))
        surface = "".join(pieces).replace(WORD_START, " ")
    lengths = np.fromiter(map(len, pieces), np.int32, len(pieces))
    ids = np.array(tokenizer.convert_tokens_to_ids(pieces), np.int32)
    return TracedPieces(ids, lengths, surface, origins, forms)


def _forms(text: str, lower: bool) -> list[str] | str:
    """What each character becomes on its own; one string where each becomes one character."""
    if text.isascii():
        return text.lower() if lower else text
    form_of = {character: preprocess_text(character, remove_space=False, lower=lower) for character in set(text)}
    forms = [form_of[character] for character in text]
    return "".join(forms) if all(len(form) == 1 for form in form_of.values()) else forms


def _origins_of_surface(sp_model: Any, text: str, normal: str, forms: list[str] | str) -> np.ndarray:
    """Through both normalisations: SentencePiece's offsets into the normal text, and from there into the original."""
    to_original = np.array([*_origins_of_normal(text, forms), NOWHERE], np.int32)
    _, to_normal = sp_model.normalize(normal, with_offsets=True)
    return to_original[np.array(to_normal[:-1], np.int64)]


def _origins_of_normal(text: str, forms: list[str] | str) -> list[int]:
    """For each character of preprocess_text's result the original one; for a run of white space its first blank."""
    origins, end_of_last = [], None
    for word in _SOLID.finditer(text):
        start, end = word.span()
        if end_of_last is not None:
            origins.append(next((i for i in range(end_of_last, start) if forms[i] == " "), end_of_last))
        for i in range(start, end):
            origins += [i] * len(forms[i])
        end_of_last = end
    return origins


def _with_put_in_blanks(pieces: list[str], replaced: list[list[str]], origins: np.ndarray) -> np.ndarray:
    """The digit-comma rule puts a blank in front of a piece that is encoded again inside a word."""
    lengths = np.array([len(piece) for piece in pieces])
    grown = np.array([sum(map(len, parts)) for parts in replaced]) - lengths
    return np.insert(origins, np.repeat(np.cumsum(lengths) - lengths, grown), NOWHERE)


def _traced_word_pieces(tokenizer: FullTokenizer, text: str) -> TracedPieces:
    pieces, lengths = [], []
    words = wordpiece.basic_tokens(text, tokenizer.do_lower_case)
    for word in words:
        of_word = wordpiece.word_pieces(word, tokenizer.vocab)
        is_unknown = of_word == [wordpiece.UNKNOWN]
        lengths += [len(word)] if is_unknown else [len(piece) - 2 * (i > 0) for i, piece in enumerate(of_word)]
        pieces += of_word
    origins = np.array(_origins_of_basic_tokens(text, tokenizer.do_lower_case), np.int32)
    ids = np.array(tokenizer.convert_tokens_to_ids(pieces), np.int32)
    return TracedPieces(ids, np.array(lengths, np.int32), "".join(words), origins, text)


def _origins_of_basic_tokens(text: str, lower: bool) -> list[int]:
    """Basic tokens keep the order of characters: each character's own number of them is enough."""
    size_of = {}
    for character in set(text):
        form = wordpiece.clean(character).strip()
        if lower:
            decomposed = unicodedata.normalize("NFD", form.lower())
            form = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        size_of[character] = len("".join(form.split()))
    return [i for i, character in enumerate(text) for _ in range(size_of[character])]

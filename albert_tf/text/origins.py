"""Pieces of a text, and the offset in the original text of each of their characters.

The offsets follow every step: white space, NFKD, removal of combining characters, SentencePiece's normalisation and the
digit-comma rule.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from typing import Any, NamedTuple

import numpy as np

from albert_tf.text.pieces import (
    BYTE,
    UNKNOWN,
    WORD_START,
    clean,
    decode_bytes,
    lower_case,
    split_digit_comma,
    word_pieces,
)

NOWHERE = -1
_WORD = re.compile(r"\S+")


class TracedPieces(NamedTuple):
    """The pieces of a text with their origins.

    origins, int32 [characters of surface], are in ascending order; NOWHERE stands for an inserted character.
    """

    ids: np.ndarray  # int32 [pieces]
    lengths: np.ndarray  # int32 [pieces], the number of characters of each piece in `surface`, at least 1
    surface: str  # the joined pieces, with a space at the start of each word
    origins: np.ndarray  # the offset in the original text of each character of `surface`
    forms: list[str] | str  # the normalised form of each single character of the original text
    spans: np.ndarray | None = None  # the offsets, if a library has computed them

    @property
    def offsets(self) -> np.ndarray:
        """The span of each piece in the original text, int32 [pieces, 2]: first character, and one past the last.

        A piece without original characters (an inserted space) has an empty span at the end of the piece before it. If
        the SentencePiece model composes several characters to one (e and an accent), the span has all of them.
        """
        if self.spans is not None:
            return self.spans
        offsets, last_end, start = np.zeros([len(self.ids), 2], np.int32), 0, 0
        composed = self._composed()
        for i, length in enumerate(self.lengths):
            origins = self.origins[start : start + length]
            origins = origins[origins != NOWHERE]
            offsets[i] = (origins[0], origins[-1] + 1) if len(origins) else (last_end, last_end)
            while len(origins) and int(offsets[i, 1]) in composed:
                offsets[i, 1] += 1
            last_end, start = offsets[i, 1], start + length
        return offsets

    def _composed(self) -> set[int]:
        """Offsets of combining marks and jamo that SentencePiece absorbed into the preceding character."""
        if isinstance(self.forms, str) and self.forms.isascii():
            return set()
        # Marks, Hangul jamo of vowels and final consonants, and half-width sound marks join the character before them.
        marks = {i for i, form in enumerate(self.forms) if form and (
            unicodedata.category(form[0])[0] == "M" or "\u1160" <= form[0] <= "\u11ff" or form[0] in "\uff9e\uff9f")}
        return marks - set(self.origins.tolist()) if marks else marks


def trace_pieces(tokenizer: Any, texts: list[str]) -> list[TracedPieces]:
    """FullTokenizer.encode_batch with the origin of every character."""
    if tokenizer.sp_model is None:
        return [_trace_word_pieces(tokenizer, text) for text in texts]
    normal = [tokenizer.preprocess(text) for text in texts]
    encoded = tokenizer.sp_model.encode(normal, out_type=str)
    return [_trace_sentence_pieces(tokenizer, *each) for each in zip(texts, normal, encoded)]


def _trace_sentence_pieces(tokenizer: Any, text: str, normal: str, pieces: list[str]) -> TracedPieces:
    forms = forms_of(tokenizer, text)
    shown = _with_characters(pieces) if tokenizer.has_bytes else pieces
    surface = "".join(shown).replace(WORD_START, " ")
    if surface[1:] == forms:  # the only change of length is the space in front
        origins: np.ndarray = np.arange(NOWHERE, len(text), dtype=np.int32)
    else:
        to_original = np.array([*_origins_of_normal(text, forms), NOWHERE], np.int32)
        _, to_normal = tokenizer.sp_model.normalize(normal, with_offsets=True)
        origins = to_original[np.array(to_normal[:-1], np.int64)]
        if shown is not pieces:
            origins = np.repeat(origins, _pieces_of_characters(pieces, shown))
    if any(piece[-1] == "," and len(piece) > 1 for piece in shown):
        replaced = [split_digit_comma(tokenizer.sp_model, piece) for piece in pieces]
        origins = _insert_spaces(shown, [[piece] if len(parts) == 1 else parts
                                                for piece, parts in zip(shown, replaced)], origins)
        pieces = list(itertools.chain.from_iterable(replaced))
        shown = _with_characters(pieces) if tokenizer.has_bytes else pieces
        surface = "".join(shown).replace(WORD_START, " ")
    lengths = np.fromiter(map(len, shown), np.int32, len(shown))
    ids = np.array(tokenizer.convert_tokens_to_ids(pieces), np.int32)
    return TracedPieces(ids, lengths, surface, origins, forms)


def _with_characters(pieces: list[str]) -> list[str]:
    """The pieces, in which each byte is replaced by its character: "a", "<0xC3>", "<0xA4>" gives "a", "ä", "ä"."""
    shown: list[str] = []
    for is_byte, run in itertools.groupby(pieces, lambda piece: bool(BYTE.fullmatch(piece))):
        shown += run if not is_byte else [
            character for character in decode_bytes("".join(run)) for _ in character.encode()]
    return shown


def _pieces_of_characters(pieces: list[str], shown: list[str]) -> list[int]:
    """For each character of the text, the number of characters in `shown`: one per byte piece, or 1."""
    counts, i = [], 0
    while i < len(pieces):
        is_byte = shown[i] != pieces[i]
        counts += [len(shown[i].encode())] if is_byte else [1] * len(pieces[i])
        i += counts[-1] if is_byte else 1
    return counts


def forms_of(tokenizer: Any, text: str) -> list[str] | str:
    """The normalised form of each single character; a string if every form is one character."""
    if tokenizer.sp_model is None:
        form_of = {character: _form_in_words(tokenizer, character) for character in set(text)}
        return [form_of[character] for character in text]
    if text.isascii():
        return tokenizer.preprocess(text, remove_space=False)
    form_of = {character: tokenizer.preprocess(character, remove_space=False) for character in set(text)}
    forms = [form_of[character] for character in text]
    return "".join(forms) if all(len(form) == 1 for form in form_of.values()) else forms


def _form_in_words(tokenizer: Any, character: str) -> str:
    """What a character becomes in basic tokens."""
    form = clean(character, tokenizer.transformers_rules).strip()
    if tokenizer.do_lower_case:
        form = lower_case(form, tokenizer.keep_accents)
    return "".join(form.split())


def _origins_of_normal(text: str, forms: list[str] | str) -> list[int]:
    """The original offset of each character of the normalised text.

    The space that replaces a run of white space has the offset of the run's first character with the form of a space.
    """
    origins, end_of_last = [], None
    for word in _WORD.finditer(text):
        start, end = word.span()
        if end_of_last is not None:
            origins.append(next((i for i in range(end_of_last, start) if forms[i] == " "), end_of_last))
        for i in range(start, end):
            origins += [i] * len(forms[i])
        end_of_last = end
    return origins


def _insert_spaces(pieces: list[str], replaced: list[list[str]], origins: np.ndarray) -> np.ndarray:
    """Follows the digit-comma rule, which encodes a piece again and so adds a word-start mark inside a word.

    A model without a dummy prefix adds none, and drops the mark of a piece that starts a word.
    """
    lengths = np.array([len(piece) for piece in pieces])
    grown = np.array([sum(map(len, parts)) for parts in replaced]) - lengths
    origins = np.delete(origins, (np.cumsum(lengths) - lengths)[grown < 0])
    lengths -= grown < 0
    return np.insert(origins, np.repeat(np.cumsum(lengths) - lengths, np.maximum(grown, 0)), NOWHERE)


def _trace_word_pieces(tokenizer: Any, text: str) -> TracedPieces:
    pieces, lengths = [], []
    words = tokenizer.basic_tokens(text)
    for word in words:
        of_word = word_pieces(word, tokenizer.vocab, tokenizer.longest_word)
        is_unknown = of_word == [UNKNOWN]
        lengths += [len(word)] if is_unknown else [len(piece) - 2 * (i > 0) for i, piece in enumerate(of_word)]
        pieces += of_word
    forms = forms_of(tokenizer, text)
    # Basic tokens keep the order of characters, so it is enough to know how many characters each one becomes.
    origins = np.array([i for i, form in enumerate(forms) for _ in form], np.int32)
    ids = np.array(tokenizer.convert_tokens_to_ids(pieces), np.int32)
    return TracedPieces(ids, np.array(lengths, np.int32), "".join(words), origins, forms)

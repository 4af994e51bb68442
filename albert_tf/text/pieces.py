"""Splits a text into pieces as the release does: by a SentencePiece model, or by WordPiece for the Chinese models.

Release: tokenization.preprocess_text, encode_pieces, BasicTokenizer, WordpieceTokenizer.

The digit-comma rule of SentencePiece: a piece that ends in a digit and a comma is encoded again without the comma and
the word-start mark, and the comma becomes a piece itself. The pieces from the second encoding begin with a new
word-start mark, as in the release under Python 3. The result depends on the piece alone, so it is kept in a table.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from typing import Mapping

import numpy as np
import sentencepiece
from absl import logging

from albert_tf.utils.files import decode_utf8, read_bytes

WORD_START = "\u2581"
UNKNOWN = "[UNK]"
BYTE = re.compile("<0x([0-9A-F]{2})>")  # a byte of an unknown character, in models with byte fallback
LONGEST_WORD, LONGEST_WORD_OF_TRANSFORMERS = 200, 100  # in characters; longer ones are unknown
_CJK_BLOCKS = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
               (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))
_ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


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


def load_model(path: str) -> sentencepiece.SentencePieceProcessor:
    """Loads a SentencePiece model, which must mark words by U+2581 in front of them."""
    content = read_bytes(path, "SentencePiece model")
    try:
        if not content:
            raise RuntimeError("it is empty")
        model = sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise ValueError(f"{path} is not a SentencePiece model") from error
    normalized = model.normalize("1 1")
    if normalized.endswith(WORD_START) or WORD_START not in normalized:
        raise ValueError(f"{path} marks the ends of words (treat_whitespace_as_suffix) or no words "
                         "(escape_whitespaces=false), which is not supported")
    return model


def encode_pieces(sp_model: sentencepiece.SentencePieceProcessor, text: str) -> list[str]:
    """The pieces of a text, as in the release. The text must have been normalised by preprocess_text."""
    pieces = sp_model.encode(text, out_type=str)
    return [part for piece in pieces for part in split_digit_comma(sp_model, piece)]


def encode_ids(sp_model: sentencepiece.SentencePieceProcessor, text: str) -> list[int]:
    """The ids of the pieces that encode_pieces returns."""
    return [sp_model.piece_to_id(piece) for piece in encode_pieces(sp_model, text)]


def decode_bytes(text: str) -> str:
    """A text of pieces, in which the pieces of a character's bytes are replaced by the character."""
    return re.sub(f"({BYTE.pattern})+",
                  lambda run: bytes.fromhex("".join(BYTE.findall(run[0]))).decode("utf-8", "replace"), text)


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
        """encode_ids for several texts, int32 [pieces] each, at about the speed of SentencePiece."""
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


def load_vocab(path: str, transformers_rules: bool = False) -> dict[str, int]:
    """Reads a WordPiece vocabulary, the first column of each line. As in the release, repeated tokens get no second id.

    With transformers_rules, a whole line is a token, without white space at its end, and has its number as id; a
    repeated token has the number of its last line.
    """
    vocab: dict[str, int] = {}
    content = read_bytes(path, "vocabulary file")
    if b"\0" in content:
        raise ValueError(f"{path} is damaged, since it has NUL bytes: copy it again")
    lines = decode_utf8(content, path).removeprefix("\ufeff").removesuffix("\n").split("\n")
    for number, line in enumerate(lines):
        if transformers_rules:
            vocab[line.rstrip()] = number
        else:
            columns = line.split()
            vocab.setdefault(columns[0] if columns else " ", len(vocab))
    if len(vocab) < len(lines) and not transformers_rules:
        logging.warning("%s: %d of %d lines repeat an earlier one and get no id, as in ALBERT's release. For models "
                        "that were trained with BERT's code, in which each line has an id, the ids are wrong",
                        path, len(lines) - len(vocab), len(lines))
    if UNKNOWN not in vocab:
        raise ValueError(f"{path} has no {UNKNOWN}: it is not a WordPiece vocabulary")
    return vocab


def basic_tokens(text: str, lower: bool, keep_accents: bool = False, transformers_rules: bool = False) -> list[str]:
    """Splits a text without its control characters into words, punctuation marks and CJK characters, one token each.

    With transformers_rules, private-use characters are removed, and a capital sigma becomes the same letter everywhere.
    """
    if transformers_rules and lower:
        text = text.replace("\u03a3", "\u03c3")  # at the end of a word, str.lower makes it the final sigma
    return [token for word in "".join(map(clean, text, itertools.repeat(transformers_rules))).split()
            for token in _tokens_of_word(word, lower, keep_accents)]


@functools.lru_cache(2**16)  # most words of a text have come before
def _tokens_of_word(word: str, lower: bool, keep_accents: bool) -> list[str]:
    """The tokens of a word without control characters."""
    if lower:
        word = lower_case(word, keep_accents)
    return "".join(f" {c} " if c in _ASCII_PUNCTUATION or unicodedata.category(c).startswith("P") else c
                   for c in word).split()


def lower_case(text: str, keep_accents: bool) -> str:
    """A text in lower case. Without keep_accents, characters are decomposed (Unicode NFD) and lose their accents."""
    text = text.lower()
    if keep_accents:
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def vocabulary_lines(vocab: Mapping[str, int]) -> str:
    """The file from which load_vocab reads the same ids, which are 0 to the number of pieces - 1."""
    return "".join(f"{piece}\n" for piece in sorted(vocab, key=vocab.__getitem__))


def word_pieces(word: str, vocab: dict[str, int], longest_word: int = LONGEST_WORD) -> list[str]:
    """The pieces of a word by greedy longest match; [UNK] if no match covers it or it is longer than longest_word."""
    if len(word) > longest_word:
        return [UNKNOWN]
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            if prefix + word[start:end] in vocab:
                break
        else:
            return [UNKNOWN]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


@functools.cache
def clean(character: str, transformers_rules: bool = False) -> str:
    """The replacement of a character: nothing, a space, the character, or (for CJK) the character between spaces."""
    code = ord(character)
    if character in "\t\n\r":
        return " "
    if code in (0, 0xFFFD):
        return ""
    if code < 128:
        return character if code >= 32 and code != 127 else ""
    category = unicodedata.category(character)
    if category in ("Cc", "Cf") or category == "Co" and transformers_rules:
        return ""
    if category == "Zs":
        return " "
    return f" {character} " if any(low <= code <= high for low, high in _CJK_BLOCKS) else character

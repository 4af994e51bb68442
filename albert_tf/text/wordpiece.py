"""WordPiece tokenization, for the Chinese models (release: tokenization.BasicTokenizer, WordpieceTokenizer)."""

from __future__ import annotations

import unicodedata

from absl import logging

from albert_tf.utils.files import decode_utf8, read_bytes

UNKNOWN = "[UNK]"
LONGEST_WORD = 200
_CJK_BLOCKS = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
               (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))
_ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def load_vocab(path: str) -> dict[str, int]:
    """Reads the first column of each line. A repeated token gets no second id. A blank line is the token " ".

    Raises:
      ValueError: the file is missing, is not UTF-8, or has no [UNK].
    """
    vocab: dict[str, int] = {}
    lines = decode_utf8(read_bytes(path, "vocabulary file"), path).removesuffix("\n").split("\n")
    for line in lines:
        columns = line.split()
        vocab.setdefault(columns[0] if columns else " ", len(vocab))
    if len(vocab) < len(lines):
        logging.warning("%s: %d of %d lines repeat an earlier one and get no id, as in ALBERT's release. For models "
                        "that were trained with BERT's code, in which each line has an id, the ids are wrong",
                        path, len(lines) - len(vocab), len(lines))
    if UNKNOWN not in vocab:
        raise ValueError(f"{path} has no {UNKNOWN}: it is not a WordPiece vocabulary")
    return vocab


def basic_tokens(text: str, lower: bool, keep_accents: bool = False) -> list[str]:
    """Splits a text into words, punctuation marks and CJK characters, one token each.

    Control characters are removed. With `lower`, the text is lower-cased and, without `keep_accents`, accents are
    removed.
    """
    cleaned = "".join(map(clean, text))
    tokens = []
    for word in cleaned.split():
        if lower:
            word = lower_case(word, keep_accents)
        tokens += "".join(f" {c} " if _is_punctuation(c) else c for c in word).split()
    return tokens


def lower_case(text: str, keep_accents: bool) -> str:
    """A text in lower case. Without keep_accents, characters are decomposed (Unicode NFD) and lose their accents."""
    text = text.lower()
    if keep_accents:
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def word_pieces(word: str, vocab: dict[str, int]) -> list[str]:
    """The pieces of a word by greedy longest match; [UNK] if no match covers it or it has over 200 characters."""
    if len(word) > LONGEST_WORD:
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


def clean(character: str) -> str:
    """The replacement of a character: nothing, a space, the character, or (for CJK) the character between spaces."""
    code = ord(character)
    if character in "\t\n\r":
        return " "
    if code in (0, 0xFFFD):
        return ""
    if code < 128:
        return character if code >= 32 and code != 127 else ""
    category = unicodedata.category(character)
    if category in ("Cc", "Cf"):
        return ""
    if category == "Zs":
        return " "
    return f" {character} " if any(low <= code <= high for low, high in _CJK_BLOCKS) else character


def _is_punctuation(character: str) -> bool:
    return character in _ASCII_PUNCTUATION or unicodedata.category(character).startswith("P")

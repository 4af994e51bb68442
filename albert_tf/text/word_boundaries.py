"""Which pieces of a vocabulary start a word (release: create_pretraining_data._is_start_piece_sp)."""

from __future__ import annotations

import re

import numpy as np

from albert_tf.text.sentencepieces import WORD_START
from albert_tf.text.tokenization import FullTokenizer

_MARKS = "!\"#$%&()*+,-./:;?@[\\]^_`{|}~"
_ONLY_LETTERS_AND_MARKS = re.compile(f"[a-zA-Z{re.escape(_MARKS)}]*")


def word_starts(tokenizer: FullTokenizer) -> np.ndarray:
    """Whether the piece of each id starts a word, bool [vocab_size].

    A SentencePiece piece starts a word if it begins with U+2581 or "<", if it is a single punctuation mark, or if it
    has a character that is neither a mark nor a letter a-z. So digits and the apostrophe start words; "!!" does not. A
    WordPiece piece starts a word if it does not begin with "##".
    """
    starts = np.zeros(max(tokenizer.vocab.values()) + 1, bool)
    rule = _starts_word if tokenizer.sp_model else lambda piece: not piece.startswith("##")
    for piece, piece_id in tokenizer.vocab.items():
        starts[piece_id] = rule(piece)
    return starts


def _starts_word(piece: str) -> bool:
    if piece.startswith((WORD_START, "<")) or (len(piece) == 1 and piece in _MARKS):
        return True
    return not _ONLY_LETTERS_AND_MARKS.fullmatch(piece)

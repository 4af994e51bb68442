"""Text normalisation before SentencePiece tokenization (release: tokenization.preprocess_text)."""

from __future__ import annotations

import unicodedata


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

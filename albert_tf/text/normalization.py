"""What happens to a text before SentencePiece sees it (release: tokenization.preprocess_text)."""

from __future__ import annotations

import unicodedata


def preprocess_text(text: str, remove_space: bool = True, lower: bool = False) -> str:
    """Normalises a text as the release does: white space, NFKD, no combining characters, lower case.

    Args:
      text: any text. The quotes `` and '' stay as they are.
      remove_space: whether runs of white space become one blank, and go at both ends.
      lower: whether to lower the case. Accents go in either case.
    """
    if remove_space:
        text = " ".join(text.split())
    if not text.isascii():  # in ASCII nothing decomposes and nothing combines
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(character for character in decomposed if not unicodedata.combining(character))
    return text.lower() if lower else text

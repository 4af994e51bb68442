"""Added tokens: strings that are tokens wherever a text has them, by the rules of Hugging Face's AddedVocabulary.

A text is cut at its added tokens, and the parts between them are split into pieces like other texts.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Iterable, NamedTuple, Sequence

_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


class AddedToken(NamedTuple):
    """An added token."""

    content: str
    id: int | None = None  # None: the next one after the vocabulary
    single_word: bool = False  # whether it must not touch a letter, a digit or "_"
    lstrip: bool = False  # whether white space before it belongs to it
    rstrip: bool = False  # whether white space after it belongs to it
    normalized: bool = False  # whether it is searched in the normalised text, in its normalised form
    special: bool = True  # as in Hugging Face's files; it changes no ids

    @classmethod
    def of_json(cls, token: Any, token_id: Any = None, special: bool = False) -> AddedToken:
        """A token in a JSON file: a string, or an object. Raises ValueError if it is neither."""
        values = dict(content=token) if isinstance(token, str) else token
        if not isinstance(values, dict) or not isinstance(values.get("content"), str) or not values["content"]:
            raise ValueError(f"an added token must have a content. Received: {token!r}")
        token_id = values.get("id", token_id)
        if type(token_id) is not int and token_id is not None:
            raise ValueError(f"the id of an added token must be a whole number. Received: {token_id!r}")
        special = bool(values.get("special", special))
        flags = {name: bool(values.get(name, not special if name == "normalized" else False)) for name in _FLAGS}
        return cls(values["content"], token_id, **{**flags, "special": special})

    def to_json(self) -> dict[str, Any]:
        """The token without its id, as in added_tokens_decoder of tokenizer_config.json."""
        return {name: value for name, value in self._asdict().items() if name != "id"}


class Part(NamedTuple):
    """text[start:end]: an added token, or a text between two of them (token_id None)."""

    start: int
    end: int
    token_id: int | None = None


def split_at_tokens(
    text: str, tokens: Sequence[AddedToken], forms: Callable[[str], Sequence[str]], space_id: int | None = None
) -> list[Part]:
    """The parts of a text, without empty ones. `forms` gives the normalised form of each character of a text.

    space_id is the token of white space before a token that is searched in the normalised text; None for no such token.
    """
    parts = []
    normalized = {"".join(forms(token.content)): token for token in tokens if token.normalized}
    for part in _split(text, {token.content: token for token in tokens if not token.normalized}, list):
        if part.token_id is None:
            parts += [Part(part.start + start, part.start + end, token_id) for start, end, token_id in _split(
                text[part.start : part.end], normalized, forms, space_id)]
        else:
            parts.append(part)
    return parts


def _split(
    text: str, tokens: dict[str, AddedToken], forms: Callable[[str], Sequence[str]], space_id: int | None = None
) -> list[Part]:
    parts, start_of_part = [], 0
    for start, end, token in _matches(text, tokens, forms):
        start_of_space = max(len(text[:start].rstrip()), start_of_part)
        if token.lstrip:
            start = start_of_space
        if token.rstrip:
            end += len(text[end:]) - len(text[end:].lstrip())
        end_of_part = start if space_id is None else start_of_space
        parts += [Part(start_of_part, end_of_part), Part(end_of_part, start, space_id), Part(start, end, token.id)]
        start_of_part = end
    return [part for part in (*parts, Part(start_of_part, len(text))) if part.start < part.end]


def _matches(
    text: str, tokens: dict[str, AddedToken], forms: Callable[[str], Sequence[str]]
) -> Iterable[tuple[int, int, AddedToken]]:
    """The first and longest matches from left to right, as offsets in the text, without those inside a word."""
    pattern = "|".join(map(re.escape, sorted(filter(None, tokens), key=len, reverse=True)))
    if not pattern:
        return
    of_characters = forms(text)
    origins = [i for i, form in enumerate(of_characters) for _ in form]
    searched = "".join(of_characters)
    for match in re.finditer(pattern, searched):
        token = tokens[match[0]]
        touches = [*searched[: match.start()][-1:], *searched[match.end() :][:1]]
        if not (token.single_word and any(re.fullmatch(r"\w", character) for character in touches)):
            yield origins[match.start()], origins[match.end() - 1] + 1, token

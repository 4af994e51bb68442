"""The files of a Hugging Face folder that say how its tokenizer reads texts, beside the vocabulary.

transformers 5 reads tokenizer_config.json; special_tokens_map.json and added_tokens.json, if that file has no
added_tokens_decoder; and tokenizer.json. What changes ids is followed here, or refused.
"""

from __future__ import annotations

import contextlib
import functools
import os
import reprlib
from typing import Any, Iterable, Iterator, NamedTuple

from albert_tf.text.added_tokens import AddedToken
from albert_tf.utils.files import errors_at, read_json_object, version
from albert_tf.utils.foreign_keys import check_supported
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.weights.hugging_face import TOKENIZER_CONFIG, TOKENIZER_JSON

SPECIAL_TOKENS_MAP, ADDED_TOKENS = "special_tokens_map.json", "added_tokens.json"
CASING = ("do_lower_case", "keep_accents")
STRIP_ACCENTS = "strip_accents"  # of Hugging Face's BERT, the opposite of keep_accents
PREFIXES_PARTS = "prefixes_parts"  # this package's own key in tokenizer_config.json
# Written in a text they are text here, as in the release.
_SPECIAL = ("[CLS]", "[SEP]", "[MASK]", "<pad>", "<unk>", "[PAD]", "[UNK]")
_ALBERT = (None, "AlbertTokenizer", "AlbertTokenizerFast")  # values of tokenizer_class


class TokenizerOptions(NamedTuple):
    """The options of a FullTokenizer; None if nothing is stored."""

    do_lower_case: bool | None = None
    keep_accents: bool | None = None
    added_tokens: tuple[AddedToken, ...] | None = None
    prefixes_parts: bool | None = None

    def with_defaults(self, other: TokenizerOptions) -> TokenizerOptions:
        """These options, and those of `other` where nothing is stored here."""
        return self._replace(**{name: value for name, value in other._asdict().items() if getattr(self, name) is None})

    def to_json(self) -> dict[str, Any]:
        """The options that are set, as in tokenizer_config.json."""
        values = {name: value for name, value in self._asdict().items() if value is not None}
        tokens = values.pop("added_tokens", ())
        if tokens:
            values["added_tokens_decoder"] = {str(token.id): token.to_json() for token in tokens}
        return values


def options_in(folder: str) -> TokenizerOptions:
    """The options that the files of a folder tell. The special tokens of every vocabulary are not added tokens.

    Raises ValueError for what FullTokenizer cannot do, such as removing accents from text that is not lower-cased.
    """
    names = (TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, ADDED_TOKENS, TOKENIZER_JSON)
    paths = [os.path.join(folder, name) for name in names]
    return _read(*paths, *(version(path) if tf.io.gfile.exists(path) else None for path in paths))


@functools.lru_cache(maxsize=64)
def _read(
    config_path: str, map_path: str, added_path: str, json_path: str, *versions: tuple | None
) -> TokenizerOptions:
    config, special_map, added, content = (
        read_json_object(path) if exists else {}
        for path, exists in zip((config_path, map_path, added_path, json_path), versions))
    tokens: dict[str, AddedToken] = {}
    with _errors_at(config_path):
        check_supported(TOKENIZER_CONFIG, config)
        casing = _casing(config)
        decoder = config.get("added_tokens_decoder")
        tokens.update(_named(AddedToken.of_json(token, int(number)) for number, token in (decoder or {}).items()))
        tokens = {**_named(_extra_tokens(config)), **tokens}
    if decoder is None:
        with _errors_at(map_path):
            tokens = {**_named(_extra_tokens(special_map)), **tokens}
        with _errors_at(added_path):
            tokens.update(_named(AddedToken.of_json(content, number, special=content in tokens)
                                 for content, number in added.items()))
    with _errors_at(json_path):
        tokens.update(_named(map(AddedToken.of_json, content.get("added_tokens") or [])))
        _check_tokenizer(content)
        prefixes_parts = config.get("tokenizer_class") in _ALBERT or prepend_scheme(content) == "always"
    kept = tuple(token for content, token in tokens.items() if content not in _SPECIAL)
    return TokenizerOptions(*casing, *((kept, bool(config.get(PREFIXES_PARTS, prefixes_parts))) if kept else ()))


def _casing(config: dict[str, Any]) -> tuple[bool | None, bool | None]:
    """do_lower_case and keep_accents; None if they are not stored."""
    for name in (*CASING, STRIP_ACCENTS):
        if not isinstance(config.get(name), (bool, type(None))):
            raise ValueError(f"{name} must be true or false. Received: {reprlib.repr(config[name])}")
    lower, keep_accents, strip_accents = map(config.get, (*CASING, STRIP_ACCENTS))
    if strip_accents and lower is False:
        raise ValueError(f"{STRIP_ACCENTS} is true and do_lower_case false: accents can be removed only from text that "
                         "is lower-cased")
    if keep_accents is None and strip_accents is not None:
        keep_accents = not strip_accents
    return lower, keep_accents


@contextlib.contextmanager
def _errors_at(path: str) -> Iterator[None]:
    """Errors of a wrong type or a missing key as ValueErrors, with the file's name."""
    with errors_at(path):
        try:
            yield
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"it is not a file of transformers: {error!r}") from error


def _named(tokens: Iterable[AddedToken]) -> dict[str, AddedToken]:
    return {token.content: token for token in tokens}


def _extra_tokens(values: dict[str, Any]) -> Iterator[AddedToken]:
    extra = values.get("extra_special_tokens") or values.get("additional_special_tokens") or []
    for token in extra.values() if isinstance(extra, dict) else extra:
        yield AddedToken.of_json(token, special=True)


def _check_tokenizer(content: dict[str, Any]) -> None:
    template, model = content.get("post_processor") or {}, content.get("model") or {}
    kind = template.get("type")
    if kind == "TemplateProcessing":
        rows = ([part for item in template[name] for part in item.values()] for name in ("single", "pair"))
        kind = ", ".join(" ".join(f"{part['id']}:{part['type_id']}" for part in row) for row in rows)
    directions = {name: (content.get(name) or {}).get("direction") for name in ("truncation", "padding")}
    check_supported(TOKENIZER_JSON, dict(directions, model=model.get("type"), post_processor=kind))
    for name in ("normalizer", "pre_tokenizer"):
        for step in steps(content, name):
            check_supported(TOKENIZER_JSON, {name: step["type"]})
    if model.get("continuing_subword_prefix", "##") != "##":
        raise ValueError("continuing_subword_prefix must be ##. "
                         f"Received: {reprlib.repr(model['continuing_subword_prefix'])}")


def steps(content: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The steps of tokenizer.json's normalizer or pre_tokenizer."""
    step = content.get(kind)
    return [] if not step else step.get("normalizers", step.get("pretokenizers", [step]))


def prepend_scheme(content: dict[str, Any]) -> str | None:
    """The prepend_scheme of tokenizer.json: "first", "always" or "never"; None without a Metaspace."""
    for step in steps(content, "pre_tokenizer"):
        if step["type"] == "Metaspace":
            adds = step.get("add_prefix_space", True)  # of versions before prepend_scheme
            return step.get("prepend_scheme", "always" if adds else "never")
    return None

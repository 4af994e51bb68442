"""The options of a tokenizer in the files of a Hugging Face folder. What changes ids is followed here, or refused.

transformers 5 reads tokenizer_config.json; special_tokens_map.json and added_tokens.json, if that file has no
added_tokens_decoder; and tokenizer.json. The library tokenizers computes a text's ids by a normalizer, a pre_tokenizer,
a model and a post_processor. Each is one step or a sequence of steps, and each step has values. If all of them are
those of FullTokenizer, it reads the folder; otherwise ForeignTokenizer does, with this library.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import reprlib
import unicodedata
from typing import Any, Collection, Iterable, Iterator, Mapping, NamedTuple

from albert_tf.text.pieces import LONGEST_WORD_OF_TRANSFORMERS, UNKNOWN, WORD_START
from albert_tf.utils.files import errors_at, read_json_object, version
from albert_tf.utils.foreign_keys import check_supported
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.weights.hugging_face import TOKENIZER_CONFIG, TOKENIZER_JSON

SPECIAL_TOKENS_MAP, ADDED_TOKENS = "special_tokens_map.json", "added_tokens.json"
CASING = ("do_lower_case", "keep_accents")
STRIP_ACCENTS = "strip_accents"  # of Hugging Face's BERT, the opposite of keep_accents
TRANSFORMERS_RULES = "transformers_rules"  # a key of this package in tokenizer_config.json
# Written in a text they are text here, as in the release.
_SPECIAL = ("[CLS]", "[SEP]", "[MASK]", "<pad>", "<unk>", "[PAD]", "[UNK]")
# Values of tokenizer_class: of ALBERT, of classes that follow tokenizer.json alone, and the beginnings of BERT's.
_ALBERT = (None, "AlbertTokenizer", "AlbertTokenizerFast")
_GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")
_BERTS = ("Bert", "DistilBert", "Electra")
# The keys of tokenizer_config.json that a tokenizer.json decides on.
_FOLLOWED = ("tokenizer_class", "tokenize_chinese_chars", "add_prefix_space", "cls_token", "sep_token", "mask_token",
             "unk_token")


Token = Mapping[str, Any]  # an added token: arguments of tokenizers.AddedToken and "id", None for the next one


class TokenizerOptions(NamedTuple):
    """The options of a tokenizer; None if nothing is stored."""

    do_lower_case: bool | None = None
    keep_accents: bool | None = None
    added_tokens: tuple[Token, ...] | None = None  # a ForeignTokenizer splits texts at these
    prefixes_parts: bool | None = None  # whether a word-start mark follows an added token
    transformers_rules: bool | None = None
    names: Mapping[str, str] | None = None  # of a ForeignTokenizer: its special tokens
    tokenizer_json: str | None = None  # the path, if a ForeignTokenizer reads the file

    def with_defaults(self, other: TokenizerOptions) -> TokenizerOptions:
        """These options, and `other`'s where nothing is stored here."""
        return self._replace(**{name: value for name, value in other._asdict().items() if getattr(self, name) is None})

    def to_json(self) -> dict[str, Any]:
        """The options of a FullTokenizer that are set, as in tokenizer_config.json."""
        names = (*CASING, TRANSFORMERS_RULES)
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def options_in(folder: str) -> TokenizerOptions:
    """The options that the files of a folder tell. The special tokens of every vocabulary are not added tokens.

    Raises ValueError for what neither FullTokenizer nor the library tokenizers does.
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
    tokens: dict[str, Token] = {}
    with _errors_at(config_path):
        decoder = config.get("added_tokens_decoder")
        tokens.update(_named(_token(token, int(number)) for number, token in (decoder or {}).items()))
        tokens = {**_named(_extra_tokens(config)), **tokens}
    if decoder is None:
        with _errors_at(map_path):
            tokens = {**_named(_extra_tokens(special_map)), **tokens}
        with _errors_at(added_path):
            tokens.update(_named(_token(content, number, special=content in tokens)
                                 for content, number in added.items()))
    with _errors_at(json_path):
        tokens.update(_named(map(_token, content.get("added_tokens") or [])))
        has_steps = isinstance(content.get("model"), dict)  # otherwise it is a file of keras-hub
        is_foreign = has_steps and not (_is_ours(content) and _names_ours(config) and _names_ours(special_map))
        pieces = {*tokens, *_ids(content)} if is_foreign else set()
        if has_steps:
            check_supported(TOKENIZER_JSON, {
                name: (content.get(name) or {}).get("direction") for name in ("truncation", "padding")})
    if is_foreign:
        for path, values in ((config_path, config), (map_path, special_map)):
            with _errors_at(path):
                check_supported(TOKENIZER_CONFIG, {key: value for key, value in values.items() if key not in _FOLLOWED})
                _check_agreement(dict(config, **values), content, pieces)
        return TokenizerOptions(added_tokens=tuple(tokens.values()), tokenizer_json=json_path,
                                names={**_special_tokens(special_map), **_special_tokens(config)})
    with _errors_at(config_path):
        check_supported(TOKENIZER_CONFIG, {**config, **_special_tokens(config)})
        options = _options(config)
    with _errors_at(map_path):
        check_supported(SPECIAL_TOKENS_MAP, _special_tokens(special_map) if decoder is None else {})
    if has_steps:
        kind = content["model"]["type"]
        options = options.with_defaults(TokenizerOptions(transformers_rules=kind == "WordPiece" or None))
        if config.get("tokenizer_class") in _GENERIC:
            options = _casing(content).with_defaults(options)
        elif kind == "Unigram":
            options = options.with_defaults(_casing(content))
    kept = tuple(token for text, token in tokens.items() if text not in _SPECIAL)
    if kept:
        prefixes_parts = config.get("tokenizer_class") in _ALBERT or prepend_scheme(content) == "always"
        options = options._replace(added_tokens=kept, prefixes_parts=prefixes_parts)
    return options


def _token(token: Any, token_id: Any = None, special: bool = False) -> Token:
    """An added token in a JSON file: a string, or an object."""
    values = dict(content=token) if isinstance(token, str) else token
    if not isinstance(values, dict) or not isinstance(values.get("content"), str) or not values["content"]:
        raise ValueError(f"an added token must have a content. Received: {token!r}")
    token_id = values.get("id", token_id)
    if type(token_id) is not int and token_id is not None:
        raise ValueError(f"the id of an added token must be a whole number. Received: {token_id!r}")
    special = bool(values.get("special", special))
    return dict(content=values["content"], id=token_id, special=special, **{
        name: bool(values.get(name, default)) for name, default in dict(
            single_word=False, lstrip=False, rstrip=False, normalized=not special).items()})


def _text(token: Any) -> Any:
    """The string of a special token that a file names."""
    return token.get("content") if isinstance(token, dict) else token


def _special_tokens(values: dict[str, Any]) -> dict[str, str]:
    """The special tokens that a file names, as strings."""
    named = {key: _text(token) for key, token in values.items() if key.endswith("_token")}
    return {key: token for key, token in named.items() if isinstance(token, str)}


def _names_ours(values: dict[str, Any]) -> bool:
    """Whether FullTokenizer can follow what a file says about steps and special tokens."""
    values = {**values, **_special_tokens(values)}
    try:
        check_supported(TOKENIZER_CONFIG, {key: values.get(key) for key in _FOLLOWED})
    except ValueError:
        return False
    return not (values.get(STRIP_ACCENTS) and values.get("do_lower_case") is False)


def _check_agreement(values: dict[str, Any], content: dict[str, Any], pieces: Collection[str]) -> None:
    """Raises ValueError if a file names what is no piece, or changes a step of tokenizer.json in transformers."""
    for key, token in _special_tokens(values).items():
        if token not in pieces:
            raise ValueError(f"{key} {token!r} is not supported: {TOKENIZER_JSON} has no such piece")
    if values.get("tokenizer_class") in _GENERIC:
        return
    model, normalizer = content["model"], steps(content, "normalizer")
    for key, found, name in (
            ("unk_token", [model] if model.get("unk_token") else [], "unk_token"),
            ("do_lower_case", normalizer, "lowercase"),
            (STRIP_ACCENTS, normalizer, STRIP_ACCENTS), ("tokenize_chinese_chars", normalizer, "handle_chinese_chars"),
            ("add_prefix_space", steps(content, "pre_tokenizer"), "add_prefix_space")):
        for step in found:
            if name in step and _text(values.get(key)) not in (None, step[name]):
                raise ValueError(f"{key} {values[key]} is not supported: {TOKENIZER_JSON} has {name} {step[name]}")


def _options(config: dict[str, Any]) -> TokenizerOptions:
    """The options in tokenizer_config.json, without added tokens."""
    for name in (*CASING, STRIP_ACCENTS, TRANSFORMERS_RULES):
        if not isinstance(config.get(name), (bool, type(None))):
            raise ValueError(f"{name} must be true or false. Received: {reprlib.repr(config[name])}")
    lower, keep_accents, strip_accents = map(config.get, (*CASING, STRIP_ACCENTS))
    if strip_accents and lower is False:
        raise ValueError(f"{STRIP_ACCENTS} is true and do_lower_case false: accents can be removed only from text that "
                         "is lower-cased")
    if keep_accents is None and strip_accents is not None:
        keep_accents = not strip_accents
    is_bert = str(config.get("tokenizer_class")).startswith(_BERTS)
    rules = config.get(TRANSFORMERS_RULES)
    return TokenizerOptions(lower, keep_accents, transformers_rules=(is_bert or None) if rules is None else rules)


@contextlib.contextmanager
def _errors_at(path: str) -> Iterator[None]:
    """Errors of a wrong type or a missing key as ValueErrors, with the file's name."""
    with errors_at(path):
        try:
            yield
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"it is not a file of transformers: {error!r}") from error


def _named(tokens: Iterable[Token]) -> dict[str, Token]:
    return {token["content"]: token for token in tokens}


def _extra_tokens(values: dict[str, Any]) -> Iterator[Token]:
    extra = values.get("extra_special_tokens") or values.get("additional_special_tokens") or []
    for token in extra.values() if isinstance(extra, dict) else extra:
        yield _token(token, special=True)


# --- the steps of a tokenizer.json -----------------------------------------------------------------------------------

Step = dict[str, Any]
_Accepted = dict[str, tuple[Any, ...]]  # the values of each key of a step; null stands for a missing one


def replace(content: str, **pattern: str) -> Step:
    """A step that replaces the matches of a pattern, Regex or String."""
    return dict(type="Replace", pattern=pattern, content=content)


# The normalizer of a SentencePiece model, in this order; steps can be missing. The quotes are AlbertTokenizer's of
# transformers, and no steps of the release. The first and the last step are in the files that this package writes.
_LAST_WHITE_SPACE = 0x3000  # to look through all of Unicode would take 60 ms of each command's start
WHITE_SPACE = replace(" ", Regex="[" + "".join(filter(str.isspace, map(chr, range(_LAST_WHITE_SPACE + 1)))) + "]+")
NFKD, LOWERCASE, SINGLE_SPACES = dict(type="NFKD"), dict(type="Lowercase"), replace(" ", Regex=" {2,}")
STRIP = dict(type="Strip", strip_left=False, strip_right=True)
_WITHOUT_ACCENTS, _PRECOMPILED = dict(type="StripAccents"), dict(type="Precompiled")
_NORMALIZER = (WHITE_SPACE, replace('"', String="``"), replace('"', String="''"), NFKD, _WITHOUT_ACCENTS, LOWERCASE,
               _PRECOMPILED, SINGLE_SPACES, STRIP)
WHITESPACE_SPLIT = dict(type="WhitespaceSplit")
_BERT: _Accepted = dict(type=("BertNormalizer",), clean_text=(True,), handle_chinese_chars=(True,),
                        strip_accents=(None, True, False), lowercase=(True, False))
_BERT_PRE_TOKENIZER: _Accepted = dict(type=("BertPreTokenizer",))
_WORDPIECE: _Accepted = dict(type=("WordPiece",), unk_token=(UNKNOWN,), continuing_subword_prefix=("##",),
                             max_input_chars_per_word=(LONGEST_WORD_OF_TRANSFORMERS,))
_METASPACE: _Accepted = dict(
    type=("Metaspace",), replacement=(WORD_START,), str_rep=(None, WORD_START), add_prefix_space=(None, True, False),
    prepend_scheme=(None, "always", "first", "never"), split=(None, True, False))
_ROWS = "[CLS]:0 A:0 [SEP]:0, [CLS]:0 A:0 [SEP]:0 B:1 [SEP]:1"


def _is_ours(content: dict[str, Any]) -> bool:
    """Whether FullTokenizer computes all steps of a tokenizer.json."""
    model, normalizer, splits = content["model"], steps(content, "normalizer"), steps(content, "pre_tokenizer")
    if _packing(content) != _ROWS:
        return False
    if model.get("type") == "WordPiece":
        return (_are(normalizer, _BERT) and _are(splits, _BERT_PRE_TOKENIZER)
                and _are([{key: value for key, value in model.items() if key != "vocab"}], _WORDPIECE)
                and not (normalizer[0].get("strip_accents") and not normalizer[0]["lowercase"])
                # Each piece can be a line of a vocabulary.
                and sorted(model["vocab"].values()) == [*range(len(model["vocab"]))]
                and not re.search(r"[^\S\n]|\0", text := "\n".join(model["vocab"]))
                and text.count("\n") == len(model["vocab"]) - 1)
    if model.get("type") != "Unigram":
        return False
    names = [_name(step) for step in normalizer]
    return (names == [step for step in _NORMALIZER if step in names] and (NFKD in names) == (_WITHOUT_ACCENTS in names)
            and _are(splits[-1:], _METASPACE)
            and (splits[:-1] == [WHITESPACE_SPLIT] and prepend_scheme(content) == "always"
                 or not splits[:-1] and SINGLE_SPACES in names))


def _are(found: list[Step], accepted: _Accepted) -> bool:
    """Whether there is one step, with these values."""
    return len(found) == 1 and all(found[0].get(key) in accepted.get(key, ()) for key in {**accepted, **found[0]})


def _name(step: Step) -> Step:
    """The step, without values that a SentencePiece model has, or with the name of what it does."""
    if step["type"] == "Precompiled":
        return _PRECOMPILED
    return _WITHOUT_ACCENTS if removes_combining_characters(step) else step


def removes_combining_characters(step: Step) -> bool:
    """Whether it is the step of this package, for any version of Unicode, that preprocess_text needs."""
    pattern = step.get("pattern", {}).get("Regex", "") if step["type"] == "Replace" and not step["content"] else ""
    characters = pattern[1:-1]
    if "\u0300" not in characters or pattern != f"[{characters}]" or len(characters) % 3:
        return False
    ranges = zip(characters[::3], characters[2::3])
    return {*characters[1::3]} == {"-"} and all(
        unicodedata.combining(chr(code)) or unicodedata.category(chr(code)) == "Cn"
        for first, last in ranges for code in range(ord(first), ord(last) + 1))


def _packing(content: dict[str, Any]) -> str:
    """The rows of the post_processor: special tokens, A and B, each with its segment. Its type if it is another one."""
    step = content.get("post_processor") or dict(type="null")
    if step["type"] == "BertProcessing":
        named = dict((step["cls"], step["sep"]))
        rows = [["[CLS]:0", "A:0", "[SEP]:0"], ["[CLS]:0", "A:0", "[SEP]:0", "B:1", "[SEP]:1"]]
        rows = rows if list(named) == ["[CLS]", "[SEP]"] else [list(named)]
    elif step["type"] == "TemplateProcessing":
        named = {name: token["ids"] for name, token in step["special_tokens"].items()}
        rows = [[f"{part['id']}:{part['type_id']}" for item in step[name] for part in item.values()]
                for name in ("single", "pair")]
    else:
        return step["type"]
    ids = _ids(content)
    is_right = all(token_id in (ids.get(name), [ids.get(name)]) for name, token_id in named.items())
    return ", ".join(map(" ".join, rows)) if is_right else "other ids"


def _ids(content: dict[str, Any]) -> dict[str, Any]:
    """The ids of the pieces of a tokenizer.json."""
    vocab = content["model"]["vocab"]
    return vocab if isinstance(vocab, dict) else {piece: number for number, (piece, _) in enumerate(vocab)}


def steps(content: dict[str, Any], kind: str) -> list[Step]:
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


def _casing(content: dict[str, Any]) -> TokenizerOptions:
    """do_lower_case and keep_accents of the normalizer of a tokenizer.json."""
    normalizer = [_name(step) for step in steps(content, "normalizer")]
    lower = any(step == LOWERCASE or step.get("lowercase", False) for step in normalizer)
    strips = [lower if step.get("strip_accents") is None else step["strip_accents"]
              for step in normalizer if step["type"] == "BertNormalizer"]
    return TokenizerOptions(lower, not any(strips) and _WITHOUT_ACCENTS not in normalizer)

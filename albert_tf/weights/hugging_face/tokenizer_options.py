"""The options of a tokenizer in the files of a Hugging Face folder. What changes ids is followed here, or refused.

transformers 5 reads tokenizer_config.json; special_tokens_map.json and added_tokens.json, if that file has no
added_tokens_decoder; and tokenizer.json. The library tokenizers computes a text's ids by a normalizer, a pre_tokenizer,
a model and a post_processor. Each is one step or a sequence of steps, and each step has values. A step is accepted if
all of its values are those of FullTokenizer.
"""

from __future__ import annotations

import contextlib
import functools
import os
import reprlib
import unicodedata
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

from albert_tf.text.added_tokens import AddedToken
from albert_tf.text.pieces import LONGEST_WORD_OF_TRANSFORMERS, UNKNOWN, WORD_START
from albert_tf.utils.files import errors_at, read_json_object, version
from albert_tf.utils.foreign_keys import check_supported
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.weights.hugging_face import TOKENIZER_CONFIG, TOKENIZER_JSON

SPECIAL_TOKENS_MAP, ADDED_TOKENS = "special_tokens_map.json", "added_tokens.json"
CASING = ("do_lower_case", "keep_accents")
STRIP_ACCENTS = "strip_accents"  # of Hugging Face's BERT, the opposite of keep_accents
# Keys of this package in tokenizer_config.json.
PREFIXES_PARTS, TRANSFORMERS_RULES = "prefixes_parts", "transformers_rules"
# Written in a text they are text here, as in the release.
_SPECIAL = ("[CLS]", "[SEP]", "[MASK]", "<pad>", "<unk>", "[PAD]", "[UNK]")
# Values of tokenizer_class: of ALBERT, of classes that follow tokenizer.json alone, and the beginnings of BERT's.
_ALBERT = (None, "AlbertTokenizer", "AlbertTokenizerFast")
_GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")
_BERT = ("Bert", "DistilBert", "Electra")
_SPECIAL_TOKENS = ("cls_token", "sep_token", "mask_token", "unk_token")


class TokenizerOptions(NamedTuple):
    """The options of a FullTokenizer; None if nothing is stored."""

    do_lower_case: bool | None = None
    keep_accents: bool | None = None
    added_tokens: tuple[AddedToken, ...] | None = None
    prefixes_parts: bool | None = None
    transformers_rules: bool | None = None

    def with_defaults(self, other: TokenizerOptions) -> TokenizerOptions:
        """These options, and `other`'s where nothing is stored here."""
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
        check_supported(TOKENIZER_CONFIG, {**config, **_special_tokens(config)})
        options = _options(config)
        decoder = config.get("added_tokens_decoder")
        tokens.update(_named(AddedToken.of_json(token, int(number)) for number, token in (decoder or {}).items()))
        tokens = {**_named(_extra_tokens(config)), **tokens}
    if decoder is None:
        with _errors_at(map_path):
            check_supported(SPECIAL_TOKENS_MAP, _special_tokens(special_map))
            tokens = {**_named(_extra_tokens(special_map)), **tokens}
        with _errors_at(added_path):
            tokens.update(_named(AddedToken.of_json(content, number, special=content in tokens)
                                 for content, number in added.items()))
    with _errors_at(json_path):
        tokens.update(_named(map(AddedToken.of_json, content.get("added_tokens") or [])))
        tokenizer_class, kind = config.get("tokenizer_class"), None
        if isinstance(content.get("model"), dict):  # otherwise it is a file of keras-hub
            _check_steps(content)
            kind = content["model"]["type"]
            options = options.with_defaults(TokenizerOptions(transformers_rules=kind == "WordPiece" or None))
            if tokenizer_class in _GENERIC:
                options = _casing(content).with_defaults(options)
            elif kind == "Unigram":
                options = options.with_defaults(_casing(content))
        prefixes_parts = tokenizer_class in _ALBERT or prepend_scheme(content) == "always"
    kept = tuple(token for content, token in tokens.items() if content not in _SPECIAL)
    if kept:
        options = options._replace(added_tokens=kept, prefixes_parts=bool(config.get(PREFIXES_PARTS, prefixes_parts)))
    return options


def _special_tokens(values: dict[str, Any]) -> dict[str, Any]:
    """The special tokens that a file names, as strings."""
    named = {name: values.get(name) for name in _SPECIAL_TOKENS}
    return {name: token.get("content") if isinstance(token, dict) else token for name, token in named.items()}


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
    is_bert = str(config.get("tokenizer_class")).startswith(_BERT)
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


def _named(tokens: Iterable[AddedToken]) -> dict[str, AddedToken]:
    return {token.content: token for token in tokens}


def _extra_tokens(values: dict[str, Any]) -> Iterator[AddedToken]:
    extra = values.get("extra_special_tokens") or values.get("additional_special_tokens") or []
    for token in extra.values() if isinstance(extra, dict) else extra:
        yield AddedToken.of_json(token, special=True)


# --- the steps of a tokenizer.json -----------------------------------------------------------------------------------

Step = dict[str, Any]
_Accepted = dict[str, Sequence[Any]]  # the accepted values of each key of a step


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
# The values of BERT's steps. A missing value is null.
_BERT_NORMALIZER: _Accepted = dict(type=("BertNormalizer",), clean_text=(True,), handle_chinese_chars=(True,),
                        strip_accents=(None, True, False), lowercase=(True, False))
_BERT_PRE_TOKENIZER: _Accepted = dict(type=("BertPreTokenizer",))
_WORDPIECE: _Accepted = dict(type=("WordPiece",), unk_token=(UNKNOWN,), continuing_subword_prefix=("##",),
                  max_input_chars_per_word=(LONGEST_WORD_OF_TRANSFORMERS,))
_METASPACE: _Accepted = dict(
    type=("Metaspace",), replacement=(WORD_START,), str_rep=(None, WORD_START), add_prefix_space=(None, True, False),
    prepend_scheme=(None, "always", "first", "never"), split=(None, True, False))


def _check_steps(content: dict[str, Any]) -> None:
    """Raises ValueError, which names the step, if a tokenizer.json computes other ids than FullTokenizer can."""
    kind = content["model"].get("type") or "none"
    directions = {name: (content.get(name) or {}).get("direction") for name in ("truncation", "padding")}
    check_supported(TOKENIZER_JSON, dict(directions, model=kind))
    if kind == "WordPiece":
        _check_vocabulary(content["model"]["vocab"])
    check_supported(TOKENIZER_JSON, dict(post_processor=_packing(content)))
    for name in ("normalizer", "pre_tokenizer"):
        for step in steps(content, name):
            check_supported(TOKENIZER_JSON, {name: step["type"]})
    (_check_wordpiece if kind == "WordPiece" else _check_sentencepiece)(content)


def _check_vocabulary(vocab: dict[str, Any]) -> None:
    """Raises ValueError if ids are not whole numbers from 0, or if most of the ids up to the largest have no piece."""
    for piece, piece_id in vocab.items():
        if type(piece_id) is not int or not 0 <= piece_id < 2 * len(vocab):
            raise ValueError(f"model: the id of {piece!r} must be a whole number from 0 to {2 * len(vocab) - 1:,}, "
                             f"twice the number of pieces. Received: {reprlib.repr(piece_id)}")
    if len({*vocab.values()}) < len(vocab):
        raise ValueError("model: two pieces have the same id")


def _check_wordpiece(content: dict[str, Any]) -> None:
    for name, accepted in (("normalizer", _BERT_NORMALIZER), ("pre_tokenizer", _BERT_PRE_TOKENIZER)):
        found = steps(content, name)
        if len(found) != 1:
            raise _unsupported(name, found, f"WordPiece needs {accepted['type'][0]} alone")
        _check_values(name, found[0], accepted)
    _check_values("model", {key: value for key, value in content["model"].items() if key != "vocab"}, _WORDPIECE)
    normalizer, = steps(content, "normalizer")
    if normalizer.get("strip_accents") and not normalizer["lowercase"]:
        raise _unsupported("normalizer", [normalizer], "accents can be removed only from text that is lower-cased")


def _check_sentencepiece(content: dict[str, Any]) -> None:
    found, order = [_name(step) for step in steps(content, "normalizer")], -1
    for step in found:
        if step not in _NORMALIZER[order + 1 :]:
            raise _unsupported("normalizer", [step], "it is not a step of ALBERT, or has another place there")
        order = _NORMALIZER.index(step)
    if (NFKD in found) != (_WITHOUT_ACCENTS in found):
        raise _unsupported("normalizer", found, "NFKD and StripAccents go together")
    splits = steps(content, "pre_tokenizer")
    if not splits or splits[:-1] not in ([], [WHITESPACE_SPLIT]):
        raise _unsupported("pre_tokenizer", splits, "SentencePiece needs Metaspace, or WhitespaceSplit and Metaspace")
    _check_values("pre_tokenizer", splits[-1], _METASPACE)
    if splits[:-1] and prepend_scheme(content) != "always":
        raise _unsupported("pre_tokenizer", splits, "each word begins with the mark of a word")
    if not splits[:-1] and SINGLE_SPACES not in found:
        raise _unsupported("normalizer", found, "several spaces must count as one")


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


def _check_values(name: str, step: Step, accepted: _Accepted) -> None:
    for key in {**accepted, **step}:
        if key not in accepted or step.get(key) not in accepted[key]:
            needed = " or ".join(repr(value) for value in accepted.get(key, ()) if value is not None)
            raise ValueError(f"{name}: {key} {reprlib.repr(step.get(key))} is not supported: "
                             f"{f'it must be {needed}' if needed else 'it is not known'}")


def _unsupported(name: str, found: list[Step], reason: str) -> ValueError:
    shown = ", ".join(step["type"] if len(step) == 1 else reprlib.repr(step) for step in found) or "null"
    return ValueError(f"{name} {shown} is not supported: {reason}")


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
    _check_ids(content, named)
    return ", ".join(map(" ".join, rows))


def _check_ids(content: dict[str, Any], named: dict[str, Any]) -> None:
    """Raises ValueError if special tokens of the post_processor have other ids than in the vocabulary."""
    vocab = content["model"]["vocab"]
    for name, ids in named.items():
        expected = vocab.get(name) if isinstance(vocab, dict) else next(
            (number for number, (piece, _) in enumerate(vocab) if piece == name), None)
        if ids not in (expected, [expected]):
            raise ValueError(f"post_processor: {name} must have its id in the vocabulary, {expected}. Received: {ids}")


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

"""The vocabulary that is stored with weights: its file, and how its tokenizer reads texts.

Beside the vocabulary, the files of a Hugging Face folder say how its tokenizer reads texts. transformers 5 reads
tokenizer_config.json; special_tokens_map.json and added_tokens.json, if that file has no added_tokens_decoder; and
tokenizer.json. What changes ids is followed here, or refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import functools
import json
import os
import reprlib
from typing import TYPE_CHECKING, Any, Collection, Iterable, Iterator, NamedTuple

from absl import logging

from albert_tf.text.added_tokens import AddedToken
from albert_tf.utils.files import errors_at, errors_naming_origin, names_in, read_bytes, read_json_object, version
from albert_tf.utils.foreign_keys import check_supported
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.manifests import checked_manifest, manifest_of, read_manifest
from albert_tf.utils.outputs import output, write_or_remove
from albert_tf.weights.hugging_face import TOKENIZER_CONFIG, TOKENIZER_JSON, tokenizer_steps
from albert_tf.weights.hugging_face.tokenizer_steps import check_steps, prepend_scheme

if TYPE_CHECKING:
    from albert_tf.config import AlbertConfig
    from albert_tf.text.tokenization import FullTokenizer

# The names of SentencePiece models and WordPiece vocabularies: the release's, Hugging Face's, and any other.
_SENTENCEPIECE = ("30k-clean.model", "spiece.model", "*.model")
_WORDPIECE = ("vocab_chinese.txt", "vocab.txt", "*vocab*.txt")
VOCABULARIES = (*_SENTENCEPIECE, *_WORDPIECE)
_MULTIPLES = (1, *(2**power for power in range(3, 11)))  # to which the size of a vocabulary is rounded up
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


@dataclasses.dataclass(frozen=True)
class VocabularyFiles:
    """The arguments of FullTokenizer that are stored with weights; options are None if nothing is stored."""

    spm_model_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    keep_accents: bool | None = None
    added_tokens: tuple[AddedToken, ...] | None = None
    prefixes_parts: bool | None = None
    transformers_rules: bool | None = None
    archive: str | None = None  # for messages: path of the archive or repository that the files were copied from
    made_from: str | None = None  # for messages: path of the tokenizer.json that the file was made from

    def __bool__(self) -> bool:
        return bool(self.path)

    @property
    def path(self) -> str:
        """The path of the SentencePiece model or the WordPiece vocabulary; "" if there is neither."""
        return self.spm_model_file or self.vocab_file or ""

    @property
    def options(self) -> TokenizerOptions:
        """The options of the tokenizer."""
        return TokenizerOptions(*(getattr(self, name) for name in TokenizerOptions._fields))

    @classmethod
    def from_tokenizer(cls, tokenizer: FullTokenizer) -> VocabularyFiles:
        """The file and the options of a tokenizer."""
        path = tokenizer.vocabulary_file
        return cls(path if tokenizer.sp_model else None, None if tokenizer.sp_model else path,
                   tokenizer.do_lower_case, tokenizer.keep_accents, tokenizer.added_tokens or None,
                   tokenizer.prefixes_parts if tokenizer.added_tokens else None, tokenizer.transformers_rules or None)

    def with_overrides(self, user: VocabularyFiles) -> VocabularyFiles:
        """The user's file and options where they are set, and these otherwise. Warns of a file with another content.

        Options that neither sets come from the files beside the user's file.
        """
        if self and user and all(map(tf.io.gfile.exists, (self.path, user.path))) and (
                read_bytes(self.path) != read_bytes(user.path)):
            logging.warning("%s is not the vocabulary that comes with the weights, %s", user.path,
                            self.made_from or self.archive or self.path)
        options = user.options.with_defaults(self.options)
        if user:
            options = options.with_defaults(options_beside(user.path))
        return dataclasses.replace(user if user else self, **options._asdict())

    def tokenizer(self, config: AlbertConfig | None = None) -> FullTokenizer:
        """The tokenizer of these files. Options that are not stored have their defaults: lower case, no accents."""
        if not self:
            raise ValueError("no vocabulary comes with the weights, and none is set: set --spm_model_file or "
                             "--vocab_file, or in Python pass a FullTokenizer")
        from albert_tf.text.tokenization import FullTokenizer

        directory = os.path.dirname(self.path)
        named = (self.made_from, self.path) if self.made_from else (self.archive or directory, directory)
        with errors_naming_origin(*named):
            tokenizer = FullTokenizer(self.vocab_file, self.do_lower_case is not False, self.spm_model_file,
                                      bool(self.keep_accents), added_tokens=self.added_tokens or (),
                                      prefixes_parts=bool(self.prefixes_parts),
                                      transformers_rules=bool(self.transformers_rules))
        if config is not None:
            check_vocabulary(tokenizer, config)
        return tokenizer


def vocabulary_in(directory: str) -> VocabularyFiles:
    """The vocabulary in a directory: a file with a usual name, or the only file with a usual extension."""
    return VocabularyFiles(_first(directory, _SENTENCEPIECE), _first(directory, _WORDPIECE), *options_in(directory))


def copy_vocabulary(files: VocabularyFiles, directory: str, name: str | None = None) -> None:
    """Copies a vocabulary to the directory of weights, and writes its options to tokenizer_config.json.

    If it has no options, an earlier tokenizer_config.json stays. `name` is the name of the copy. None: the file's name,
    or spiece.model or vocab.txt if vocabulary_in would not find it.
    """
    if files:
        if name is None:
            name = os.path.basename(files.path)
            patterns, usual = (_SENTENCEPIECE, "spiece.model") if files.spm_model_file else (_WORDPIECE, "vocab.txt")
            name = name if any(fnmatch.fnmatch(name, pattern) for pattern in patterns) else usual
        _check_is_found(files, directory, name)
        target = os.path.join(directory, name)
        with output(target) as temporary:  # source and target can be the same file, or the target read-only
            tf.io.gfile.copy(files.path, temporary, overwrite=True)
    # Only a tokenizer knows the ids of all added tokens.
    resolved = VocabularyFiles.from_tokenizer(files.tokenizer()) if files and files.added_tokens else files
    values = resolved.options.to_json()
    if files or values:
        write_or_remove(os.path.join(directory, TOKENIZER_CONFIG), json.dumps(values) if values else None)


def options_beside(vocabulary_file: str) -> TokenizerOptions:
    """The options that are stored beside a vocabulary: in tokenizer_config.json, or by train_vocabulary.

    Raises ValueError if train_vocabulary was stopped: the options in its manifest may then be those of another file.
    """
    content: dict[str, Any] = dict(made_from={})
    if manifest := manifest_of(vocabulary_file):
        with contextlib.suppress(ValueError):  # the manifest of something else
            content = read_manifest(manifest)
        if not content.get("complete", True):
            content = checked_manifest(manifest)  # raises if it is still incomplete
    trained_with = TokenizerOptions(*map(content["made_from"].get, CASING))
    return options_in(os.path.dirname(vocabulary_file)).with_defaults(trained_with)


def _first(directory: str, patterns: tuple[str, ...]) -> str | None:
    name = _first_of(names_in(directory or os.curdir), patterns)
    return name and os.path.join(directory, name)


def _first_of(names: Collection[str], patterns: tuple[str, ...]) -> str | None:
    for pattern in patterns:
        matches = fnmatch.filter(names, pattern)
        if len(matches) == 1:
            return matches[0]
    return None


def _check_is_found(files: VocabularyFiles, directory: str, name: str) -> None:
    """Raises ValueError if vocabulary_in would find another vocabulary than the copy of these files with this name."""
    names = {*names_in(directory), name}
    others = sorted({each for pattern in VOCABULARIES for each in fnmatch.filter(names, pattern)} - {name})
    found = _first_of(names, _SENTENCEPIECE) or _first_of(names, _WORDPIECE)
    if others and found != name and not (
            found and read_bytes(os.path.join(directory, found)) == read_bytes(files.path)):
        raise ValueError(f"{directory} has another vocabulary than {files.path}, {', '.join(others)}: choose another "
                         "directory, or remove what does not belong there")


def check_vocabulary(tokenizer: FullTokenizer, config: AlbertConfig) -> None:
    """Raises ValueError if a tokenizer has more pieces than the model, or a WordPiece vocabulary fewer.

    A vocab_size may be larger if it was rounded up to a multiple of 8, 16, ... or 1,024.
    """
    path, size = str(tokenizer.vocabulary_file), tokenizer.vocab_size
    if size > config.vocab_size:
        raise ValueError(f"{path} has {size:,} pieces, but the config's vocab_size is {config.vocab_size:,}: they "
                         "belong to different models")
    if size < config.vocab_size and tokenizer.sp_model is None:
        lines = len(read_bytes(path).splitlines())  # a repeated token has no id
        if not any(-(-max(size, lines) // multiple) * multiple == config.vocab_size for multiple in _MULTIPLES):
            raise ValueError(f"{path} has only {size:,} pieces, but the config's vocab_size is {config.vocab_size:,}: "
                             "the file was truncated, or they belong to different models")


# --- the files of a Hugging Face folder ------------------------------------------------------------------------------


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
            check_steps(content)
            kind = content["model"]["type"]
            options = options.with_defaults(TokenizerOptions(transformers_rules=kind == "WordPiece" or None))
            casing = TokenizerOptions(*tokenizer_steps.casing(content))
            if tokenizer_class in _GENERIC:
                options = casing.with_defaults(options)
            elif kind == "Unigram":
                options = options.with_defaults(casing)
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

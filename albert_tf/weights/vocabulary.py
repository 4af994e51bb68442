"""The vocabulary that is stored with weights: its file, and the options of its tokenizer that are stored beside it."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import json
import os
from typing import TYPE_CHECKING, Any, Collection, Mapping

from absl import logging

from albert_tf.utils.files import decode_utf8, errors_naming_origin, names_in, read_bytes, version
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.manifests import checked_manifest, manifest_of, read_manifest
from albert_tf.utils.outputs import folder_of_this_process, output, write_or_remove, write_text
from albert_tf.weights.hugging_face import MODEL_INPUTS, TOKENIZER_CONFIG, TOKENIZER_JSON
from albert_tf.weights.hugging_face.tokenizer_options import CASING, Token, TokenizerOptions, options_in

if TYPE_CHECKING:
    from albert_tf.config import AlbertConfig
    from albert_tf.text.tokenization import FullTokenizer

# The names of SentencePiece models and WordPiece vocabularies: the release's, Hugging Face's, and any other.
_SENTENCEPIECE = ("30k-clean.model", "spiece.model", "*.model")
_WORDPIECE = ("vocab_chinese.txt", "vocab.txt", "*vocab*.txt")
VOCABULARIES = (*_SENTENCEPIECE, *_WORDPIECE)
_MULTIPLES = (1, *(2**power for power in range(3, 11)))  # to which the size of a vocabulary is rounded up


@dataclasses.dataclass(frozen=True)
class VocabularyFiles:
    """The arguments of a tokenizer that are stored with weights; options are None if nothing is stored."""

    spm_model_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    keep_accents: bool | None = None
    added_tokens: tuple[Token, ...] | None = None
    prefixes_parts: bool | None = None
    transformers_rules: bool | None = None
    names: Mapping[str, str] | None = None  # of a ForeignTokenizer: its special tokens
    tokenizer_json: str | None = None
    archive: str | None = None  # for messages: path of the archive or repository that the files were copied from
    made_from: str | None = None  # for messages: path of the tokenizer.json that the file was made from

    def __bool__(self) -> bool:
        return bool(self.path)

    @property
    def path(self) -> str:
        """The path of the SentencePiece model, the WordPiece vocabulary or the tokenizer.json; "" if there is none."""
        return self.spm_model_file or self.vocab_file or self.tokenizer_json or ""

    @property
    def options(self) -> TokenizerOptions:
        """The options of the tokenizer."""
        return TokenizerOptions(*(getattr(self, name) for name in TokenizerOptions._fields))

    @classmethod
    def from_tokenizer(cls, tokenizer: FullTokenizer) -> VocabularyFiles:
        """The file and the options of a tokenizer."""
        from albert_tf.text.foreign_tokenizer import ForeignTokenizer

        if isinstance(tokenizer, ForeignTokenizer):
            path = os.path.join(folder_of_this_process(), TOKENIZER_JSON)
            write_text(path, tokenizer.to_json())
            return cls(names=tokenizer.names, tokenizer_json=path)
        path = str(tokenizer.vocabulary_file)
        return cls(path if tokenizer.sp_model else None, None if tokenizer.sp_model else path,
                   tokenizer.do_lower_case, tokenizer.keep_accents,
                   transformers_rules=tokenizer.transformers_rules or None)

    def with_overrides(self, user: VocabularyFiles) -> VocabularyFiles:
        """The user's file and options where they are set, and these otherwise. Warns of a file with another content.

        Options that neither sets come from the files beside the user's file.
        """
        if self and user and all(map(tf.io.gfile.exists, (self.path, user.path))) and (
                read_bytes(self.path) != read_bytes(user.path)):
            logging.warning("%s is not the vocabulary that comes with the weights, %s", user.path,
                            self.made_from or self.archive or self.path)
        if self.tokenizer_json and not user and any(value is not None for value in user.options):
            raise ValueError(f"{self.tokenizer_json} decides on casing and accents: leave out --do_lower_case and "
                             "--keep_accents")
        options = user.options.with_defaults(TokenizerOptions() if self.tokenizer_json else self.options)
        if user:
            options = options.with_defaults(options_beside(user.path))
        elif self.tokenizer_json:
            return self
        return dataclasses.replace(user if user else self, **options._asdict())

    def tokenizer(self, config: AlbertConfig | None = None) -> FullTokenizer:
        """The tokenizer of these files. Options that are not stored have their defaults: lower case, no accents."""
        if not self:
            raise ValueError("no vocabulary comes with the weights, and none is set: set --spm_model_file or "
                             "--vocab_file, or in Python pass a FullTokenizer")
        directory = os.path.dirname(self.path)
        named = (self.made_from, self.path) if self.made_from else (self.archive or directory, directory)
        with errors_naming_origin(*named):
            tokenizer = self._foreign_tokenizer() if self.tokenizer_json else self._full_tokenizer()
        if config is not None:
            check_vocabulary(tokenizer, config)
        return tokenizer

    def _foreign_tokenizer(self) -> FullTokenizer:
        from albert_tf.text.foreign_tokenizer import ForeignTokenizer

        path = self.tokenizer_json or ""
        return ForeignTokenizer(decode_utf8(read_bytes(path), path), path, self.names or {}, self.added_tokens or (),
                                bool(self.do_lower_case))

    def _full_tokenizer(self) -> FullTokenizer:
        """The FullTokenizer, or if the folder adds tokens to its vocabulary a ForeignTokenizer of the same steps."""
        from albert_tf.text.tokenization import FullTokenizer, warn_of_lost_pieces

        tokenizer = FullTokenizer(self.vocab_file, self.do_lower_case is not False, self.spm_model_file,
                                  bool(self.keep_accents), transformers_rules=bool(self.transformers_rules))
        warn_of_lost_pieces(tokenizer)
        if added := [token for token in self.added_tokens or () if not tokenizer.is_reserved(token["content"])]:
            from albert_tf.weights.hugging_face.tokenizer_json import with_added_tokens

            return with_added_tokens(tokenizer, added, bool(self.prefixes_parts))
        return tokenizer


def vocabulary_in(directory: str) -> VocabularyFiles:
    """The vocabulary in a directory: a file with a usual name, or the only file with a usual extension.

    As in transformers, tokenizer.json comes before vocab.txt.
    """
    options = options_in(directory)
    files = VocabularyFiles(_first(directory, _SENTENCEPIECE), _first(directory, _WORDPIECE), *options)
    if options.tokenizer_json:
        return dataclasses.replace(files, spm_model_file=None, vocab_file=None)
    if not files.spm_model_file and tf.io.gfile.exists(os.path.join(directory, TOKENIZER_JSON)):
        return vocabulary_of_tokenizer_json(directory)
    return files


def vocabulary_of_tokenizer_json(folder: str) -> VocabularyFiles:
    """The vocabulary of a folder's tokenizer.json, as a file in a temporary directory."""
    from albert_tf.weights.hugging_face.tokenizer_json import vocabulary_file_of

    path, options = os.path.join(folder, TOKENIZER_JSON), options_in(folder)
    if options.tokenizer_json:
        return VocabularyFiles(None, None, *options)
    made = vocabulary_file_of(path, *version(path))
    is_sentencepiece = made.endswith(".model")
    return VocabularyFiles(made if is_sentencepiece else None, None if is_sentencepiece else made,
                           *options, made_from=path)


def copy_vocabulary(files: VocabularyFiles, directory: str, name: str | None = None) -> None:
    """Copies a vocabulary to the directory of weights, and writes its options to tokenizer_config.json.

    If it has no options, an earlier tokenizer_config.json stays. `name` is the name of the copy. None: the file's name,
    or spiece.model or vocab.txt if vocabulary_in would not find it.
    """
    if files and (files.tokenizer_json or files.added_tokens):
        from albert_tf.text.foreign_tokenizer import ForeignTokenizer

        tokenizer = files.tokenizer()
        if isinstance(tokenizer, ForeignTokenizer):
            write_text(os.path.join(directory, TOKENIZER_JSON), tokenizer.to_json())
            write_text(os.path.join(directory, TOKENIZER_CONFIG), json.dumps(dict(
                tokenizer.names, tokenizer_class="PreTrainedTokenizerFast", model_input_names=MODEL_INPUTS)))
            return
    if files:
        if name is None:
            name = os.path.basename(files.path)
            patterns, usual = (_SENTENCEPIECE, "spiece.model") if files.spm_model_file else (_WORDPIECE, "vocab.txt")
            name = name if any(fnmatch.fnmatch(name, pattern) for pattern in patterns) else usual
        _check_is_found(files, directory, name)
        target = os.path.join(directory, name)
        with output(target) as temporary:  # source and target can be the same file, or the target read-only
            tf.io.gfile.copy(files.path, temporary, overwrite=True)
    values = files.options.to_json()
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
    options = options_in(os.path.dirname(vocabulary_file))
    return (TokenizerOptions() if options.tokenizer_json else options).with_defaults(trained_with)


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
    if size < config.vocab_size and os.path.basename(path) != TOKENIZER_JSON and tokenizer.sp_model is None:
        lines = len(read_bytes(path).splitlines())  # a repeated token has no id
        if not any(-(-max(size, lines) // multiple) * multiple == config.vocab_size for multiple in _MULTIPLES):
            raise ValueError(f"{path} has only {size:,} pieces, but the config's vocab_size is {config.vocab_size:,}: "
                             "the file was truncated, or they belong to different models")

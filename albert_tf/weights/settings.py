"""What is stored next to weights: settings in albert_tf.json, and the vocabulary with its casing and accents.

albert_tf.json has the name of the head, and the model's settings (modeling/settings.py) that are not defaults::

    {"head": "classifier", "label_names": ["bad", "good"], "max_windows": 8, "task": "reviews"}

The pooling of a sentence encoder is in the files of sentence-transformers. In a folder of Hugging Face, the length of
rows is that of its own files (see hugging_face/reading.py), which others may have changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import json
import os
from typing import TYPE_CHECKING, Any, Collection, Sequence

from absl import logging

from albert_tf.config import CONFIG_NAME, AlbertConfig
from albert_tf.modeling.settings import SentenceEncoderSettings, Settings
from albert_tf.text.added_tokens import AddedToken
from albert_tf.utils.bounds import check_one_of
from albert_tf.utils.files import check_keys, errors_at, errors_naming_origin, names_in, read_bytes, read_json_object
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.outputs import manifest_of, output, read_manifest, write_or_remove
from albert_tf.utils.unicode import nfc
from albert_tf.weights.heads import HEAD_NAMES, check_vocabulary, settings_class
from albert_tf.weights.hugging_face import MODULES, TOKENIZER_CONFIG
from albert_tf.weights.hugging_face.tokenizer_files import CASING, TokenizerOptions, options_in

if TYPE_CHECKING:
    from albert_tf.text.tokenization import FullTokenizer

SETTINGS = "albert_tf.json"
# The settings of a sentence encoder that are in the files of sentence-transformers.
POOLING = ("pooling", "normalize", "truncate_dim", "prompts", "default_prompt_name")
# The names of SentencePiece models and WordPiece vocabularies: the release's, Hugging Face's, and any other.
_SENTENCEPIECE = ("30k-clean.model", "spiece.model", "*.model")
_WORDPIECE = ("vocab_chinese.txt", "vocab.txt", "*vocab*.txt")
VOCABULARIES = (*_SENTENCEPIECE, *_WORDPIECE)


@dataclasses.dataclass(frozen=True)
class VocabularyFiles:
    """The arguments of FullTokenizer that are stored with weights.

    Args:
      do_lower_case: whether to lower-case text; None if nothing is stored.
      keep_accents: whether texts keep their accents; None if nothing is stored.
      added_tokens, prefixes_parts: as in FullTokenizer; None if nothing is stored.
      archive: path of the archive or repository of which the files are a copy, for messages; None if there is none.
      made_from: path of the tokenizer.json of which the file was made, for messages; None if there is none.
    """

    spm_model_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    keep_accents: bool | None = None
    added_tokens: tuple[AddedToken, ...] | None = None
    prefixes_parts: bool | None = None
    archive: str | None = None
    made_from: str | None = None

    def __bool__(self):
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
                   tokenizer.prefixes_parts if tokenizer.added_tokens else None)

    def with_overrides(self, user: VocabularyFiles) -> VocabularyFiles:
        """The user's file and options where they are set, and these otherwise. Warns of a file with another content.

        Options that neither has are those that are stored beside the user's file.
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
                                      prefixes_parts=bool(self.prefixes_parts))
        if config is not None:
            check_vocabulary(tokenizer, config)
        return tokenizer


def vocabulary_in(directory: str) -> VocabularyFiles:
    """The vocabulary in a directory: a file with a usual name, or the only file with a usual extension."""
    return VocabularyFiles(_first(directory, _SENTENCEPIECE), _first(directory, _WORDPIECE), *options_in(directory))


def copy_vocabulary(files: VocabularyFiles, directory: str, name: str | None = None) -> None:
    """Copies a vocabulary to the directory of weights, and writes its options to tokenizer_config.json.

    Args:
      files: the vocabulary. If it has no options, an earlier tokenizer_config.json stays.
      name: name of the copy. None: the file's name, or spiece.model or vocab.txt if vocabulary_in would not find it.
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
    """The options that are stored beside a vocabulary: in tokenizer_config.json, or by train_vocabulary."""
    made_from: dict[str, Any] = {}
    with contextlib.suppress(ValueError):  # the manifest of something else
        manifest = manifest_of(vocabulary_file)
        made_from = read_manifest(manifest)["made_from"] if manifest else {}
    trained_with = TokenizerOptions(*map(made_from.get, CASING))
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


def settings_in(folder: str) -> Settings:
    """The settings that are stored in a folder."""
    path = os.path.join(folder, SETTINGS)
    settings = _read(path) if tf.io.gfile.exists(path) else Settings()
    if tf.io.gfile.exists(os.path.join(folder, MODULES)):
        from albert_tf.weights.hugging_face.configs import pooling_in

        pooling = pooling_in(folder)
        return settings.of_class(SentenceEncoderSettings).replaced(**pooling) if pooling else settings
    return settings


def remove_damaged_settings(folder: str) -> None:
    """Removes the config, settings and vocabularies that a power cut has left empty or zero. They are made again."""
    for name in names_in(folder):
        path = os.path.join(folder, name)
        is_json = name in (CONFIG_NAME, SETTINGS, TOKENIZER_CONFIG)
        if is_json or any(fnmatch.fnmatch(name, pattern) for pattern in VOCABULARIES):
            content = read_bytes(path)
            if not content.strip(b"\0") or is_json and b"\0" in content:
                logging.warning("%s is damaged, and is made again", path)
                write_or_remove(path, None)


def write_settings(
    settings: Settings, config: AlbertConfig, folder: str, vocabulary: VocabularyFiles = VocabularyFiles()
) -> None:
    """Writes settings and vocabulary, and removes the files of settings that the model does not have."""
    copy_vocabulary(vocabulary, folder)
    content = settings.content()
    if isinstance(settings, SentenceEncoderSettings):
        from albert_tf.weights.hugging_face.configs import write_pooling

        write_pooling(settings, config, folder)
        content = {name: value for name, value in content.items() if name not in POOLING}
    else:
        write_or_remove(os.path.join(folder, MODULES), None)  # the other files of a pooling are not read without it
    write_or_remove(os.path.join(folder, SETTINGS),
                    json.dumps(content, indent=2, ensure_ascii=False) + "\n" if content else None)


def label_difference(
    path: str, stored: Sequence[str] | None, names: Sequence[str] | None, place: str = ""
) -> str | None:
    """How the labels that are stored with weights differ from the task's; None if they do not, or none are stored."""
    if stored is None or names is not None and [*map(nfc, stored)] == [*map(nfc, names)]:
        return None
    wanted = f"those of the task are {', '.join(names)}" if names else "the task is a regression"
    return f"{path}: the model was trained with the labels {', '.join(stored)}{place}, but {wanted}"


def _read(path: str) -> Settings:
    content = read_json_object(path)
    head = check_keys({name: content[name] for name in content if name == "head"}, path, {}, {"head": str}).get("head")
    if head is not None:
        check_one_of(f"{path}: head", head, HEAD_NAMES)
    values, known = {name: value for name, value in content.items() if name != "head"}, settings_class(head)
    for name in values:
        if name not in known.names():
            raise ValueError(f"{path}: unknown key {name!r}; the known ones are {', '.join(['head', *known.names()])}")
    with errors_at(path):
        return known(**values)

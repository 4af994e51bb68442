"""The vocabulary files next to weights, and the casing that is stored with them."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import os
import reprlib

import tensorflow as tf

from albert_tf.files import write_text, written_whole
from albert_tf.interchange.error_paths import errors_naming
from albert_tf.json_files import read_json_object
from albert_tf.text.tokenization import FullTokenizer

# The names of SentencePiece models and WordPiece vocabularies: the release's, Hugging Face's, and any other.
_SENTENCEPIECE = ("30k-clean.model", "spiece.model", "*.model")
_WORDPIECE = ("vocab_chinese.txt", "vocab.txt", "*vocab*.txt")
VOCABULARIES = (*_SENTENCEPIECE, *_WORDPIECE)
# Hugging Face's file with the casing.
TOKENIZER_CONFIG = "tokenizer_config.json"


@dataclasses.dataclass(frozen=True)
class VocabularyFiles:
    """The arguments of FullTokenizer that are stored with weights.

    Args:
      spm_model_file: path of a SentencePiece model, or None.
      vocab_file: path of a WordPiece vocabulary, or None.
      do_lower_case: whether to lower-case text; None if nothing is stored.
      archive: path of the archive from which the files were unpacked, for messages; None if there is none.
    """

    spm_model_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    archive: str | None = None

    def __bool__(self):
        return bool(self.path)

    @property
    def path(self) -> str:
        """The path of the SentencePiece model or the WordPiece vocabulary; "" if there is neither."""
        return self.spm_model_file or self.vocab_file or ""

    @classmethod
    def of(cls, tokenizer: FullTokenizer) -> VocabularyFiles:
        """The file and the casing of a tokenizer."""
        path = tokenizer.vocabulary_file
        return cls(spm_model_file=path if tokenizer.sp_model else None,
                   vocab_file=None if tokenizer.sp_model else path, do_lower_case=tokenizer.do_lower_case)

    def tokenizer(self) -> FullTokenizer:
        """The tokenizer of these files. If no casing is stored, it lower-cases text, as all released models do.

        Raises:
          ValueError: there is no vocabulary, or it cannot be read.
        """
        if not self:
            raise ValueError("no vocabulary came with the weights of --init_checkpoint (albert_tiny_en has one), and "
                             "--spm_model_file or --vocab_file is missing")
        directory = os.path.dirname(self.path)
        with errors_naming(self.archive or directory, directory):
            return FullTokenizer(self.vocab_file, self.do_lower_case is not False, self.spm_model_file)


def vocabulary_in(directory: str) -> VocabularyFiles:
    """The vocabulary in a directory: a file with a usual name, or the only file with a usual extension.

    Raises:
      ValueError: tokenizer_config.json is not a JSON object.
    """
    return VocabularyFiles(_first(directory, _SENTENCEPIECE), _first(directory, _WORDPIECE), lower_case_in(directory))


def copy_vocabulary(files: VocabularyFiles, directory: str, name: str | None = None) -> None:
    """Copies a vocabulary to the directory of weights, and writes its casing to tokenizer_config.json.

    Args:
      files: the vocabulary. If it is empty, nothing is done.
      directory: the directory, which is made if it does not exist.
      name: name of the copy; None for the name of the file.
    """
    if not files:
        return
    target = os.path.join(directory, name or os.path.basename(files.path))
    with written_whole(target) as temporary:  # source and target can be the same file, or the target read-only
        tf.io.gfile.copy(files.path, temporary, overwrite=True)
    if files.do_lower_case is not None:
        write_text(os.path.join(directory, TOKENIZER_CONFIG), json.dumps(dict(do_lower_case=files.do_lower_case)))


def lower_case_in(directory: str) -> bool | None:
    """The value of do_lower_case in a directory's tokenizer_config.json; None if there is none."""
    path = os.path.join(directory, TOKENIZER_CONFIG)
    if not tf.io.gfile.exists(path):
        return None
    lower = read_json_object(path).get("do_lower_case")
    if lower is not None and not isinstance(lower, bool):
        raise ValueError(f"{path}: do_lower_case must be true or false. Received: {reprlib.repr(lower)}")
    return lower


def _first(directory: str, patterns: tuple[str, ...]) -> str | None:
    names = tf.io.gfile.listdir(directory or ".") if tf.io.gfile.isdir(directory or ".") else []
    for pattern in patterns:
        matches = fnmatch.filter(names, pattern)
        if len(matches) == 1:
            return os.path.join(directory, matches[0])
    return None

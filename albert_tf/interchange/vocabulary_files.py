"""The vocabulary that lies beside weights, whoever put it there, and the casing that it was made for."""

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

# By which names a SentencePiece model and a WordPiece vocabulary go: the release's, then Hugging Face's.
_SENTENCEPIECE = ("30k-clean.model", "spiece.model", "*.model")
_WORDPIECE = ("vocab_chinese.txt", "vocab.txt", "*vocab*.txt")
VOCABULARIES = (*_SENTENCEPIECE, *_WORDPIECE)
# Hugging Face keeps the casing here.
TOKENIZER_CONFIG = "tokenizer_config.json"


@dataclasses.dataclass(frozen=True)
class VocabularyFiles:
    """What FullTokenizer takes, as far as a source of weights has it.

    Args:
      spm_model_file: a SentencePiece model, or None.
      vocab_file: a WordPiece vocabulary, or None.
      do_lower_case: whether it is of lower-case text; None where the source does not say.
      archive: the path of the archive that the files were unpacked from, for messages; None if there is none.
    """

    spm_model_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    archive: str | None = None

    def __bool__(self):
        return bool(self.path)

    @property
    def path(self) -> str:
        """The file of the two that there is; "" where there is none."""
        return self.spm_model_file or self.vocab_file or ""

    @classmethod
    def of(cls, tokenizer: FullTokenizer) -> VocabularyFiles:
        """The file and the casing of a tokenizer."""
        path = tokenizer.vocabulary_file
        return cls(spm_model_file=path if tokenizer.sp_model else None,
                   vocab_file=None if tokenizer.sp_model else path, do_lower_case=tokenizer.do_lower_case)

    def tokenizer(self) -> FullTokenizer:
        """The tokenizer of these files; lower case, as all released models are, where nothing is said.

        Raises:
          ValueError: there is no vocabulary, or it cannot be read.
        """
        if not self:
            raise ValueError("--spm_model_file or --vocab_file is missing, and no vocabulary came with the weights")
        directory = os.path.dirname(self.path)
        with errors_naming(self.archive or directory, directory):
            return FullTokenizer(self.vocab_file, self.do_lower_case is not False, self.spm_model_file)


def vocabulary_in(directory: str) -> VocabularyFiles:
    """The vocabulary of a directory, by its usual names, or by its ending where there is only one.

    Raises:
      ValueError: tokenizer_config.json is no JSON object.
    """
    return VocabularyFiles(_first(directory, _SENTENCEPIECE), _first(directory, _WORDPIECE), lower_case_in(directory))


def copy_vocabulary(files: VocabularyFiles, directory: str, name: str | None = None) -> None:
    """Copies a vocabulary to a directory, so that the weights there carry it too, and writes its casing beside it.

    Args:
      files: which; nothing happens where there is none.
      directory: where to; made where it is missing.
      name: what to call it there; by default its own name.
    """
    if not files:
        return
    target = os.path.join(directory, name or os.path.basename(files.path))
    with written_whole(target) as temporary:  # also where source and target are the same, or the target read-only
        tf.io.gfile.copy(files.path, temporary, overwrite=True)
    if files.do_lower_case is not None:
        write_text(os.path.join(directory, TOKENIZER_CONFIG), json.dumps(dict(do_lower_case=files.do_lower_case)))


def lower_case_in(directory: str) -> bool | None:
    """What a directory's tokenizer_config.json says of the casing; None where it says nothing."""
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
        found = fnmatch.filter(names, pattern)
        if len(found) == 1:
            return os.path.join(directory, found[0])
    return None

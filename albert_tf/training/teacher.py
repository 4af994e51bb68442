"""Teachers (training/distillation.py): the model of --teacher_checkpoint, or a file with the outputs of any model.

Errors in a teacher are found before the training starts.
"""

from __future__ import annotations

import functools
import os
from typing import Mapping, Sequence, cast

import numpy as np

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import fingerprint, tokenizer_key
from albert_tf.data.rows import is_parquet, read_parquet
from albert_tf.modeling.settings import ClassifierSettings, LabelSettings
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training.config import Distillation
from albert_tf.utils.files import check_is_file
from albert_tf.utils.manifests import made_from_of
from albert_tf.utils.outputs import read_array
from albert_tf.weights.from_pretrained import build
from albert_tf.weights.heads import head_named
from albert_tf.weights.hugging_face.reading import open_safetensors
from albert_tf.weights.settings import label_difference
from albert_tf.weights.stored_model import StoredModel, open_model


class Teacher:
    """The model of --teacher_checkpoint."""

    def __init__(self, path: str, head: str, outputs: Mapping[str, float | None], temperature: float = 1.0,
                 alpha: float = 1.0):
        self.path, self.outputs, self.temperature, self.alpha = path, outputs, temperature, alpha
        self._head = head
        self.source: StoredModel = open_model(path)
        heads = self.source.heads
        if head != "sentence_encoder" and head not in heads:  # any encoder makes vectors of texts
            tasks = " or ".join(head_named(name).task for name in sorted(heads)) or "an encoder without a head"
            raise ValueError(f"--teacher_checkpoint={path} is {tasks}, and this is {head_named(head).task}: set it to "
                             "weights that were fine-tuned for the same task")

    @classmethod
    def of(cls, options: Distillation, head: str, outputs: Mapping[str, float | None]) -> Teacher:
        """The teacher of a config, which must have one."""
        return cls(str(options.teacher_checkpoint), head, outputs, options.distillation_temperature,
                   options.distillation_alpha)

    @functools.cached_property
    def config(self) -> AlbertConfig:
        """Its config."""
        return self.source.config

    @functools.cached_property
    def tokenizer(self) -> FullTokenizer:
        """Its tokenizer."""
        if not self.source.vocabulary:
            raise ValueError(f"no vocabulary comes with --teacher_checkpoint={self.path}: copy it to the same folder")
        return self.source.vocabulary.tokenizer(self.config)

    def row_length(self, max_seq_length: int) -> int:
        """Largest number of tokens of its rows, as in its training; max_seq_length if that is not stored."""
        return min(self.source.settings.max_seq_length or max_seq_length, self.config.max_position_embeddings)

    def check_labels(self, names: Sequence[str] | None, multi_label: bool = False) -> None:
        """Raises ValueError if it was trained with other labels, another order of them, or for another kind of answer.

        `names` are the labels of the task; None for a regression.
        """
        settings = self.source.settings.of_class(ClassifierSettings)
        difference = label_difference(self.path, self.source.settings.of_class(LabelSettings).label_names, names)
        number, expected = self.source.num_labels(self._head), len(names) if names else 1
        if not difference and number != expected:
            difference = f"{self.path}: the model has {number} outputs, but the task has {expected}"
        if not difference and settings.multi_label != multi_label:
            kinds = ("one label", "several labels")
            difference = (f"{self.path}: the model gives a text {kinds[settings.multi_label]}, but the task "
                          f"{kinds[multi_label]}")
        if not difference and settings.activation_fn:
            difference = f"{self.path}: the model's score is the {settings.activation_fn} of its logit"
        if difference:
            raise ValueError(f"--teacher_checkpoint: {difference}")

    def check_tokens(self, tokenizer: FullTokenizer | None, config: AlbertConfig, max_seq_length: int) -> None:
        """Checks that it can read the rows of the model to train, since its answers are compared token by token."""
        are_known = tokenizer is not None and self.source.vocabulary
        differ = are_known and tokenizer_key(self.tokenizer) != tokenizer_key(cast(FullTokenizer, tokenizer))
        if differ or self.config.vocab_size != config.vocab_size:
            raise ValueError(f"--teacher_checkpoint={self.path} has another vocabulary than the model to train, or "
                             "other casing or accents, so its answers cannot be compared token by token: set it to a "
                             "model with the same vocabulary")
        positions = self.config.max_position_embeddings
        if max_seq_length > positions:
            raise ValueError(f"--teacher_checkpoint={self.path} has {positions} positions, fewer than "
                             f"--max_seq_length={max_seq_length}")

    def model(self) -> keras.Model:
        """The model with its weights."""
        model, report = build(self.source, self._head)
        needs_pooler = self._head in ("classifier", "sentence_encoder") and model.uses_pooler
        unused = ("cls/seq_relationship/", *([] if needs_pooler else ["bert/pooler/"]))
        missing = [name for name in report.not_restored if not name.startswith(unused)]
        if missing:
            raise ValueError(f"--teacher_checkpoint={self.path} has no {', '.join(missing)}: set it to weights that "
                             "were fine-tuned for the same task")
        return model


# Where extract_embeddings (in the manifest) and users (in the metadata of safetensors) note the text of the rows.
TEXT_DIGEST = "text_sha256"


class StoredTeacher:
    """The outputs of a teacher that were computed before, one row for each example in a file of floating-point numbers.

    The file is an .npy file, a .safetensors file with one array, or a Parquet file with one column, or one of lists.
    """

    def __init__(self, option: str, path: str, outputs: Mapping[str, float | None], temperature: float = 1.0,
                 alpha: float = 1.0):
        self.outputs, self.temperature, self.alpha = outputs, temperature, alpha
        self._path, self._name = path, f"--{option}={path}"
        check_is_file(path)

    @np.errstate(over="ignore")  # of a float64 that is too large
    def rows(self, number: int, source: str, width: int | None = None) -> np.ndarray:
        """The rows, float32 [number, width]; None for any width. With 1, the file may have an array of one dimension.

        `source` is the path of the examples. If the file of vectors has a SHA-256 digest, it must be this file's.
        """
        values, digest = _array_in(self._path)
        if values.dtype.kind != "f":
            raise ValueError(f"{self._name} has numbers of the type {values.dtype}: write them as float32")
        if digest and digest != fingerprint(source):
            raise ValueError(f"{self._name} was made from another text than {source}, or from an earlier version of it "
                             f"({TEXT_DIGEST} differs): make it again")
        if len(values) != number:
            raise ValueError(f"{self._name} has {len(values):,} rows, but {source} has {number:,}: make a row for each "
                             "of them, in the same order")
        rows = values[:, None] if width == 1 and values.ndim == 1 else values
        if rows.ndim != 2 or width not in (None, rows.shape[1]):
            raise ValueError(f"{self._name} has an array of the shape {list(values.shape)}, but must have one of "
                             f"{[number, width or 'any number']}")
        rows = np.asarray(rows, np.float32)
        wrong = np.flatnonzero(~np.isfinite(rows.sum(axis=1, dtype=np.float64)))
        if len(wrong):
            raise ValueError(f"{self._name} has numbers that are not finite in float32, first in row {wrong[0] + 1:,}")
        return rows


def _array_in(path: str) -> tuple[np.ndarray, str | None]:
    """The array of a file, and the digest of the text that it was made from, if the file has one."""
    ending = os.path.splitext(path)[1]
    if ending == ".npy":
        return read_array(path), (made_from_of(path) or {}).get(TEXT_DIGEST)
    if ending == ".safetensors":
        with open_safetensors(path) as file:
            return file.get_tensor(_only(path, "array", file.keys())), (file.metadata() or {}).get(TEXT_DIGEST)
    if not is_parquet(path):
        raise ValueError(f"{path} must end in .npy, .safetensors or .parquet")
    _, first = next(read_parquet(path), (0, {}))
    columns = list(first) if len(first) == 1 else [name for name, value in first.items() if isinstance(value, list)]
    column = _only(path, "column of lists", columns)
    try:
        return np.stack([np.array(row[column], np.float32) for _, row in read_parquet(path, [column])]), None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: the rows of {column!r} are not numbers, as many in each: {error}") from error


def _only(path: str, kind: str, names: Sequence[str]) -> str:
    if len(names) != 1:
        raise ValueError(f"{path} must have one {kind}. It has {', '.join(names) or 'none'}")
    return names[0]

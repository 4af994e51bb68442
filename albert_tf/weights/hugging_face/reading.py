"""Reads a Hugging Face folder as a StoredModel, and each tensor of its model.safetensors only when it is needed.

Pickles, the format of PyTorch's other weights, are refused, since reading one can run any code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os

import ml_dtypes  # noqa: F401  gives NumPy the type bfloat16; TensorFlow brings it
import numpy as np
import tensorflow as tf
from safetensors import SafetensorError, safe_open

from albert_tf.utils import bounds
from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import local_copy
from albert_tf.weights.hugging_face import (
    INDEX,
    LENGTH,
    LENGTH_CONFIG,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    WEIGHTS,
)
from albert_tf.weights.hugging_face.configs import (
    HEAD_OF_CLASS,
    activation_fn_in,
    has_several_labels,
    pooling_in,
    read_config,
    read_label_names,
    transformer_folder,
)
from albert_tf.weights.hugging_face.names import NAMES, NameTable, is_transposed
from albert_tf.weights.settings import VocabularyFiles, settings_in, vocabulary_in
from albert_tf.weights.stored_model import StoredModel, refuse_pickle

_MAPPING = [f"bert/encoder/embedding_hidden_mapping_in/{name}" for name in ("kernel", "bias")]
# Copies of the word table and its bias, and the numbers 0, 1, 2, ..., which older files have too.
_COPIES = ("predictions.decoder.weight", "predictions.decoder.bias", "embeddings.position_ids")
# The oldest files have TensorFlow's names for a LayerNorm's weight and bias.
_OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}
_TYPES = ("F64", "F32", "F16", "BF16")
# The library maps a file into memory, and the pages that were read stay there until the file is closed.
_BYTES_AT_ONCE = 32 * 1024 * 1024
# TensorFlow uses memory that begins at a multiple of this without a copy.
_ALIGNMENT = 64


def read(folder: str) -> StoredModel:
    """The weights, config and vocabulary of a folder that transformers or sentence-transformers has written."""
    pooling = pooling_in(folder)
    if pooling:
        folder = transformer_folder(folder)
    _check_weights(folder)
    config, model_type, architecture = read_config(folder)
    tensors = _by_release_name(stored_tensors(folder), NAMES[model_type], HEAD_OF_CLASS.get(architecture))
    shapes = {name: tensor.shape[::-1] if is_transposed(name) else tensor.shape for name, tensor in tensors.items()}
    vocabulary, settings = _vocabulary(folder), settings_in(folder)
    settings = settings.replaced(
        head="sentence_encoder" if pooling else settings.head or HEAD_OF_CLASS.get(architecture),
        label_names=read_label_names(folder), multi_label=has_several_labels(folder),
        max_seq_length=_length(folder, config.max_position_embeddings),
        activation_fn=settings.activation_fn or activation_fn_in(folder), **(pooling or {}))
    return without_identity(StoredModel(
        folder, shapes, lambda name: tensors[name].read(transpose=is_transposed(name)), lambda: config, vocabulary,
        settings))


def _length(folder: str, positions: int) -> int | None:
    """The largest number of tokens of a row: that of sentence-transformers, or else of the tokenizer; None if neither.

    A number that does not fit the model is none. transformers writes a huge one for "no limit".
    """
    for name, key in ((LENGTH_CONFIG, "max_seq_length"), (TOKENIZER_CONFIG, LENGTH)):
        path = os.path.join(folder, name)
        length = read_json_object(path).get(key) if tf.io.gfile.exists(path) else None
        if type(length) is int and bounds.ROW_LENGTH.lower <= length <= positions:
            return length
    return None


def _vocabulary(folder: str) -> VocabularyFiles:
    vocabulary = vocabulary_in(folder)
    if vocabulary or not tf.io.gfile.exists(os.path.join(folder, TOKENIZER_JSON)):
        return vocabulary
    from albert_tf.weights.hugging_face.tokenizer_json import vocabulary_of_tokenizer_json

    return vocabulary_of_tokenizer_json(folder)


def _check_weights(folder: str) -> None:
    if any(tf.io.gfile.exists(os.path.join(folder, name)) for name in (WEIGHTS, INDEX)):
        return
    for name in sorted(tf.io.gfile.listdir(folder)):
        refuse_pickle(os.path.join(folder, name))
    raise ValueError(f"{folder} has no {WEIGHTS}")


def _by_release_name(
    tensors: dict[str, StoredTensor], names: NameTable, head: str | None
) -> dict[str, StoredTensor]:
    """The tensors by the release's names. A tensor without one keeps its key, and is reported as not used."""
    named = {}
    for key, tensor in tensors.items():
        full = names.prefix + key if key.startswith(("embeddings.", "encoder.", "pooler.")) else key
        stem, dot, ending = full.rpartition(".")
        full = stem + _OLD_ENDINGS.get(dot + ending, dot + ending)
        if not full.endswith(_COPIES):
            named[names.ours(full, head) or key] = tensor
    return named


def without_identity(source: StoredModel) -> StoredModel:
    """The source without the projection of the embedding, which other formats have even if E == H: the identity."""
    size = source.config.hidden_size
    if source.config.embedding_size != size:
        return source
    kernel, bias = (source.read(name).numpy() if name in source.shapes else None for name in _MAPPING)
    if kernel is not None and not np.array_equal(kernel, np.eye(size)) or bias is not None and np.any(bias):
        raise ValueError(f"{source.path}: embedding_size equals hidden_size, but embedding_hidden_mapping_in is not "
                         "the identity: the release has no such model")
    return source.renamed({name: name for name in source.shapes if name not in _MAPPING})


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A tensor in a safetensors file.

    Args:
      shape: shape in the file.
      dtype: name of the data type in the file: "F32".
    """

    path: str
    key: str
    shape: tuple[int, ...]
    dtype: str

    def read(self, transpose: bool = False) -> tf.Tensor:
        """The values as float32, without a second copy in memory."""
        if self.dtype not in _TYPES:
            raise ValueError(f"{self.path}: {self.key} has type {self.dtype}, but only {', '.join(_TYPES)} can be read")
        values = _aligned(self.shape[::-1] if transpose else self.shape)
        rows = values.T if transpose else values
        at_once = max(1, _BYTES_AT_ONCE * len(rows) // max(1, values.nbytes))
        for first in range(0, len(rows), at_once):
            part = slice(first, min(first + at_once, len(rows)))
            with _opened(self.path) as file:
                rows[part] = file.get_slice(self.key)[part]
        return tf.experimental.dlpack.from_dlpack(values.__dlpack__())  # convert_to_tensor would copy, twice


def stored_tensors(folder: str) -> dict[str, StoredTensor]:
    """The tensors of a folder, by key."""
    index = os.path.join(folder, INDEX)
    if not tf.io.gfile.exists(index):
        return _tensors_of(os.path.join(folder, WEIGHTS))
    tensors = {}
    for name in _shards(index):
        tensors.update(_tensors_of(os.path.join(folder, name)))
    return tensors


def _aligned(shape: tuple[int, ...]) -> np.ndarray:
    """An uninitialized float32 array at an aligned address."""
    size = 4 * math.prod(shape)
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(np.float32).reshape(shape)


def _shards(index: str) -> list[str]:
    weight_map = read_json_object(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise ValueError(f"{index} has no weight_map from keys to safetensors files")
    for name in weight_map.values():
        if not isinstance(name, str) or os.path.basename(name) != name or not name.endswith(".safetensors"):
            raise ValueError(f"{index} names {name!r}, but must name .safetensors files in its own folder")
    return sorted(set(weight_map.values()))


def _tensors_of(path: str) -> dict[str, StoredTensor]:
    with _opened(path) as file:
        slices = {key: file.get_slice(key) for key in file.keys()}
        return {key: StoredTensor(path, key, tuple(part.get_shape()), part.get_dtype()) for key, part in slices.items()}


@contextlib.contextmanager
def _opened(path: str):
    try:
        with safe_open(local_copy(path), framework="np") as file:
            yield file
    except (FileNotFoundError, tf.errors.NotFoundError) as error:
        raise ValueError(f"no such file: {path}") from error
    except (SafetensorError, OSError) as error:
        refuse_pickle(path)
        raise ValueError(f"{path} is not a safetensors file: {error}") from error

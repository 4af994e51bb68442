"""Reads a preset of keras-hub as a StoredModel.

    config.json, model.weights.h5    the backbone
    task.json, task.weights.h5       the head, if there is one
    assets/tokenizer/vocabulary.spm  the vocabulary

In Keras' weight files, a layer is named after its class and its number among the layers of this class, and a variable
by its number::

    layers/transformer_encoder_1/_feedforward_output_dense/vars/0

Queries, keys, values and the attention's output have a dimension for the heads: kernels [hidden, heads, size] and
[heads, size, hidden], biases [heads, size].
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import reprlib
from typing import Any, Iterator

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_scope, block_variable
from albert_tf.utils.bounds import ROW_LENGTH
from albert_tf.utils.files import errors_at, read_json_object
from albert_tf.utils.foreign_keys import check_supported
from albert_tf.utils.outputs import local_copy
from albert_tf.weights.heads import settings_class
from albert_tf.weights.hugging_face.tokenizer_options import options_in
from albert_tf.weights.stored_model import StoredModel, StoredTensor
from albert_tf.weights.transforms import without_identity
from albert_tf.weights.vocabulary import VocabularyFiles

CONFIG, TASK = "config.json", "task.json"
WEIGHTS, TASK_WEIGHTS = "model.weights.h5", "task.weights.h5"  # of the backbone, and of the head
VOCABULARY = "assets/tokenizer/vocabulary.spm"
_BACKBONE = "AlbertBackbone"
# Our fields of a config by keras-hub's.
_FIELDS = dict(vocabulary_size="vocab_size", num_layers="num_hidden_layers", num_heads="num_attention_heads",
               num_groups="num_hidden_groups", num_inner_repetitions="inner_group_num", embedding_dim="embedding_size",
               hidden_dim="hidden_size", intermediate_dim="intermediate_size",
               max_sequence_length="max_position_embeddings", num_segments="type_vocab_size")
# The name that files of Keras 2 have for "layers".
_OLD_LAYERS = "_layer_checkpoint_dependencies"
_LAYER_NORM, _DENSE = ("gamma", "beta"), ("kernel", "bias")
_OUTSIDE_BLOCKS = {
    "bert/embeddings/word_embeddings": ("reversible_embedding", ("",)),
    "bert/embeddings/position_embeddings": ("position_embedding", ("",)),
    "bert/embeddings/token_type_embeddings": ("embedding", ("",)),
    "bert/embeddings/LayerNorm": ("layer_normalization", _LAYER_NORM),
    "bert/encoder/embedding_hidden_mapping_in": ("dense", _DENSE),
    "bert/pooler/dense": ("dense_1", _DENSE),
}
_IN_BLOCKS = {
    "attention_1/self/query": ("_self_attention_layer/query_dense", _DENSE),
    "attention_1/self/key": ("_self_attention_layer/key_dense", _DENSE),
    "attention_1/self/value": ("_self_attention_layer/value_dense", _DENSE),
    "attention_1/output/dense": ("_self_attention_layer/output_dense", _DENSE),
    "LayerNorm": ("_self_attention_layer_norm", _LAYER_NORM),
    "ffn_1/intermediate/dense": ("_feedforward_intermediate_dense", _DENSE),
    "ffn_1/intermediate/output/dense": ("_feedforward_output_dense", _DENSE),
    "LayerNorm_1": ("_feedforward_layer_norm", _LAYER_NORM),
}
_HEADS: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {
    "classifier": {"": ("dense", ("output_weights", "output_bias"))},
    "pretrainer": {"cls/predictions": ("masked_lm_head", ("output_bias",)),
                   "cls/predictions/transform/dense": ("masked_lm_head/_intermediate_dense", _DENSE),
                   "cls/predictions/transform/LayerNorm": ("masked_lm_head/_intermediate_layer_norm", _LAYER_NORM)},
}
_BLOCK = "transformer_encoder"
_TRANSPOSED = "output_weights"  # the release's weights of a classifier are [labels, hidden]
# The kind of model (see from_pretrained) of keras-hub's classes. AlbertClassifier is an older name.
HEAD_OF_CLASS = dict(AlbertTextClassifier="classifier", AlbertClassifier="classifier", AlbertMaskedLM="pretrainer")


def read(folder: str) -> StoredModel:
    """The weights, config and vocabulary of a preset."""
    config, head, tensors = _config(folder), _head(folder), {}
    files = {WEIGHTS: backbone_names(config), **({TASK_WEIGHTS: _places(_HEADS[head])} if head else {})}
    for file_name, names in files.items():
        path = os.path.join(folder, file_name)
        with _opened(path) as file:
            for name, dataset_name in names.items():
                dataset_name = dataset_name if "layers" in file else dataset_name.replace("layers", _OLD_LAYERS, 1)
                shape = shape_here(name, _dataset(file, dataset_name, path).shape)
                tensors[name] = StoredTensor(shape, functools.partial(_read_value, path, dataset_name, name, shape))
    path = os.path.join(folder, VOCABULARY)
    vocabulary = VocabularyFiles(path if tf.io.gfile.exists(path) else None, None, *options_in(folder))
    settings = settings_class(head or "encoder")(max_seq_length=_length(folder, config))
    model = StoredModel(folder, tensors, config, vocabulary, settings)
    return without_identity(model) if config.embedding_size == config.hidden_size else model


def _read_value(path: str, dataset_name: str, name: str, shape: tuple[int, ...]) -> tf.Tensor:
    with _opened(path) as file:
        value = np.asarray(_dataset(file, dataset_name, path)[()], np.float32)
    return tf.constant(value.T if name == _TRANSPOSED else value.reshape(shape))


def _length(folder: str, config: AlbertConfig) -> int | None:
    """The preprocessor's number of tokens of a row; None if it is unknown, or does not fit the model."""
    _checked(folder, "tokenizer.json")
    length = _checked(folder, "preprocessor.json").get("sequence_length")
    return length if type(length) is int and ROW_LENGTH.lower <= length <= config.max_position_embeddings else None


def _checked(folder: str, name: str) -> dict[str, Any]:
    """The "config" of an object's file, after a check of its keys; {} without the file."""
    path = os.path.join(folder, name)
    values = read_json_object(path).get("config") if tf.io.gfile.exists(path) else {}
    if not isinstance(values, dict):
        raise ValueError(f"{path} is not a file of keras-hub: it has no config")
    with errors_at(path):
        check_supported(f"keras-hub's {name}", values)
    return values


def _config(folder: str) -> AlbertConfig:
    path = os.path.join(folder, CONFIG)
    stored = read_json_object(path)
    values = stored.get("config")
    if stored.get("class_name") != _BACKBONE or not isinstance(values, dict):
        raise ValueError(f"{path} is a preset of keras-hub, but not of {_BACKBONE}, the only supported one. "
                         f"Received: {reprlib.repr(stored.get('class_name'))}")
    missing = sorted(_FIELDS.keys() - values.keys())
    if missing:
        raise ValueError(f"{path}: config has no {', '.join(missing)}")
    dropout: Any = values.get("dropout", 0.0)
    with errors_at(path):
        return AlbertConfig.from_dict(dict({ours: values[theirs] for theirs, ours in _FIELDS.items()},
                                           hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout))


def _head(folder: str) -> str | None:
    """The kind of model (see from_pretrained) of the head; None if the preset has none."""
    path = os.path.join(folder, TASK)
    if not tf.io.gfile.exists(path):
        return None
    name = read_json_object(path).get("class_name")
    if not isinstance(name, str) or name not in HEAD_OF_CLASS:
        raise ValueError(f"{path}: only {', '.join(HEAD_OF_CLASS)} are supported. Received: {reprlib.repr(name)}")
    _checked(folder, TASK)
    return HEAD_OF_CLASS[name]


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    import h5py

    try:
        with h5py.File(local_copy(path), "r", locking=False) as file:
            yield file
    except (OSError, tf.errors.OpError) as error:
        reason = "there is no such file" if not tf.io.gfile.exists(path) else str(error)
        raise ValueError(f"{path} cannot be read: {reason}") from error


def _dataset(file: Any, dataset_name: str, path: str) -> Any:
    """The dataset at a path in the file. The file must have all of its values: a link could lead to any other file."""
    import h5py

    found = file
    for part in dataset_name.split("/"):
        link = found.get(part, getlink=True) if isinstance(found, h5py.Group) else None
        if link is None:
            raise ValueError(f"{path} has no {dataset_name}: it is damaged, or is of another model or version of "
                             "keras-hub")
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"{path}: {dataset_name} is a link, and not a value in this file")
        found = found[part]
    if not isinstance(found, h5py.Dataset) or found.dtype.kind != "f" or found.external or found.is_virtual:
        raise ValueError(f"{path}: {dataset_name} has no floating-point numbers in this file")
    if found.nbytes > os.path.getsize(file.filename):
        raise ValueError(f"{path}: {dataset_name} would have {found.nbytes:,} bytes, more than the file")
    return found


def backbone_names(config: AlbertConfig) -> dict[str, str]:
    """The paths of a backbone's variables in model.weights.h5, by the release's names."""
    names = _places(_OUTSIDE_BLOCKS)
    for index in range(config.num_hidden_groups * config.inner_group_num):
        scope, layer = block_scope(*divmod(index, config.inner_group_num)), f"{_BLOCK}_{index}" if index else _BLOCK
        names.update(_places({f"{scope}/{variable}": (f"{layer}/{theirs}", variables)
                              for variable, (theirs, variables) in _IN_BLOCKS.items()}))
    return names


def shape_here(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape in the release of a variable with this shape in keras-hub."""
    if name == _TRANSPOSED:
        return shape[::-1]
    block = block_variable(name)
    if not block or not re.match("attention_1/", block.name) or len(shape) < 2:
        return shape
    if len(shape) == 2:  # a bias, or the kernel of another file
        return (shape[0] * shape[1],) if name.endswith("/bias") else shape
    if block.name.startswith("attention_1/output/"):
        return (shape[0] * shape[1], *shape[2:])
    return (shape[0], shape[1] * shape[2], *shape[3:])


def _places(layers: dict[str, tuple[str, tuple[str, ...]]]) -> dict[str, str]:
    return {f"{scope}/{variable}".strip("/"): f"layers/{layer}/vars/{number}"
            for scope, (layer, variables) in layers.items() for number, variable in enumerate(variables)}

"""Reads a Hugging Face folder as a StoredModel."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.utils import bounds
from albert_tf.utils.files import read_json_object
from albert_tf.weights.hugging_face import INDEX, LENGTH, LENGTH_CONFIG, TOKENIZER_CONFIG, TOKENIZER_JSON, WEIGHTS
from albert_tf.weights.hugging_face.configs import (
    HEAD_OF_CLASS,
    activation_fn_in,
    has_several_labels,
    read_config,
    read_label_names,
)
from albert_tf.weights.hugging_face.names import NAMES, NameTable, is_transposed
from albert_tf.weights.hugging_face.tensors import StoredTensor, refuse_pickles_in, stored_tensors
from albert_tf.weights.settings import sentence_pooling_in, settings_in
from albert_tf.weights.stored_model import StoredModel
from albert_tf.weights.vocabulary_files import VocabularyFiles, vocabulary_in

_MAPPING = "bert/encoder/embedding_hidden_mapping_in"
# Copies of the word table and its bias, and the numbers 0, 1, 2, ..., which older files have too.
_COPIES = ("predictions.decoder.weight", "predictions.decoder.bias", "embeddings.position_ids")
# The oldest files have TensorFlow's names for a LayerNorm's weight and bias.
_OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}


def read(folder: str) -> StoredModel:
    """The weights, config and vocabulary of a folder that transformers or sentence-transformers has written."""
    pooling = sentence_pooling_in(folder)
    if pooling:
        from albert_tf.weights.hugging_face.sentence_transformers import transformer_folder

        folder = transformer_folder(folder)
    _check_weights(folder)
    config, model_type, architecture = read_config(folder)
    tensors = _by_release_name(stored_tensors(folder), NAMES[model_type], HEAD_OF_CLASS.get(architecture))
    if model_type == "albert" and config.embedding_size == config.hidden_size:
        leave_out_the_identity(folder, tensors, config.hidden_size)
    shapes = {name: tensor.shape[::-1] if is_transposed(name) else tensor.shape for name, tensor in tensors.items()}
    vocabulary, settings = _vocabulary(folder), settings_in(folder)
    settings = settings.replaced(
        head="sentence_encoder" if pooling else settings.head or HEAD_OF_CLASS.get(architecture),
        label_names=read_label_names(folder), multi_label=has_several_labels(folder),
        max_seq_length=_length(folder, config.max_position_embeddings),
        activation_fn=settings.activation_fn or activation_fn_in(folder), **(pooling or {}))
    return StoredModel(folder, shapes, lambda name: tensors[name].read(transpose=is_transposed(name)), lambda: config,
                  vocabulary, settings)


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
    refuse_pickles_in(folder)
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


def leave_out_the_identity(folder: str, tensors: dict[str, Any], size: int) -> None:
    """Removes the projection of the embedding, which Hugging Face has even if E == H, and the release does not."""
    kernel, bias = (tensors.pop(f"{_MAPPING}/{name}", None) for name in ("kernel", "bias"))
    is_identity = kernel is None or kernel.shape == (size, size) and np.array_equal(kernel.read(), np.eye(size))
    if not is_identity or bias and (bias.shape != (size,) or np.any(bias.read())):
        raise ValueError(f"{folder}: embedding_size equals hidden_size, but embedding_hidden_mapping_in is not the "
                         "identity: the release has no such model")

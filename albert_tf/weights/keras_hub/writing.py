"""Writes a model as a preset of keras-hub, which its from_preset loads."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping

import numpy as np
from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.layers import release_name
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.utils.writing import atomic_local_write, write_text
from albert_tf.weights.heads import head_of
from albert_tf.weights.keras_hub import CONFIG, TASK, TASK_WEIGHTS, TOKENIZER, VOCABULARY, WEIGHTS
from albert_tf.weights.keras_hub.names import CLASSES, backbone_names, head_names, is_transposed, shape_there
from albert_tf.weights.keras_hub.reading import FIELDS
from albert_tf.weights.settings import settings_of, write_input_settings
from albert_tf.weights.vocabulary_files import VocabularyFiles, copy_vocabulary

_MODULE = "keras_hub.src.models.albert"
# The version of which the files are.
_VERSIONS = dict(keras_version="3.15.1", keras_hub_version="0.32.0")


def save_keras_hub(model: keras.Model, folder: str, vocabulary: VocabularyFiles = VocabularyFiles()) -> None:
    """Writes a preset: config.json, the vocabulary, and model.weights.h5; with a head also task.json and its weights.

    Args:
      model: an encoder, a sentence encoder, a classifier, or a pretrainer, whose sentence-order head is left out.
      folder: folder of the files, which is made if it does not exist.
      vocabulary: the model's vocabulary.

    Raises:
      ValueError: keras-hub has no such model.
    """
    class_of_keras_hub(model)  # raises for other heads
    config = model.config.in_groups()
    check_config(config)
    if vocabulary.vocab_file and not vocabulary.spm_model_file:
        raise ValueError(f"keras-hub's ALBERT has a SentencePiece model, and {vocabulary.vocab_file} is a WordPiece "
                         "vocabulary")
    head, values = head_of(model).name, {release_name(variable): variable.numpy() for variable in model.weights}
    head_places = head_names(head)
    left_out = sorted(values.keys() - backbone_names(config).keys() - head_places.keys())
    if left_out:
        logging.info("keras-hub has no %s: left out", ", ".join(left_out))
    if config.embedding_size == config.hidden_size:  # the release has no mapping there
        values["bert/encoder/embedding_hidden_mapping_in/kernel"] = np.eye(config.hidden_size, dtype=np.float32)
        values["bert/encoder/embedding_hidden_mapping_in/bias"] = np.zeros(config.hidden_size, np.float32)
    write_input_settings(settings_of(model), model.config, folder)
    copy_vocabulary(vocabulary, folder, VOCABULARY, model.max_seq_length)
    for name, content in _json_files(model, bool(vocabulary)).items():
        write_text(os.path.join(folder, name), json.dumps(content, indent=4) + "\n")
    heads = config.num_attention_heads
    if head_places:
        _write_weights(os.path.join(folder, TASK_WEIGHTS), head_places, values, heads)
    _write_weights(os.path.join(folder, WEIGHTS), backbone_names(config), values, heads)


def class_of_keras_hub(model: keras.Model) -> str:
    """The class that loads what save_keras_hub writes.

    Raises:
      ValueError: keras-hub has no such model.
    """
    head = head_of(model).name
    if head in CLASSES:
        return f"keras_hub.models.{CLASSES[head][0]}"
    if head == "encoder" or isinstance(model, AlbertSentenceEncoder):
        return "keras_hub.models.AlbertBackbone"
    raise ValueError(f"keras-hub has no ALBERT with the head of {type(model).__name__}")


def check_config(config: AlbertConfig) -> None:
    """Raises ValueError if keras-hub cannot express a config."""
    if config.cross_layer_sharing != "all" or config.num_hidden_layers % config.num_hidden_groups:
        raise ValueError("keras-hub's ALBERT has layers in groups of equal sizes that share all weights. Received: "
                         f"cross_layer_sharing={config.cross_layer_sharing}, "
                         f"num_hidden_layers={config.num_hidden_layers}, num_hidden_groups={config.num_hidden_groups}")
    if config.hidden_act != "gelu":
        raise ValueError("keras-hub's ALBERT has the tanh approximation of gelu (hidden_act gelu). "
                         f"Received: {config.hidden_act}")


def _json_files(model: keras.Model, has_vocabulary: bool) -> dict[str, Any]:
    """The content of each JSON file."""
    config, head = model.config.in_groups(), head_of(model).name
    fields = {theirs: getattr(config, ours) for theirs, ours in FIELDS.items()}
    backbone = _serialized("albert_backbone", "AlbertBackbone", **fields, dropout=config.hidden_dropout_prob)
    files = {CONFIG: backbone, "metadata.json": dict(_VERSIONS, parameter_count=int(model.count_params()))}
    if has_vocabulary:
        files[TOKENIZER] = _serialized("albert_tokenizer", "AlbertTokenizer", "int32", config_file=TOKENIZER,
                                       proto=None, sequence_length=None, add_bos=False, add_eos=False)
    if head == "classifier":
        files[TASK] = _serialized("albert_text_classifier", CLASSES[head][0], None, backbone=backbone,
                                  preprocessor=None, num_classes=model.num_labels, activation="linear", dropout=0.1)
    elif head == "pretrainer":
        files[TASK] = _serialized("albert_masked_lm", CLASSES[head][0], None, backbone=backbone, preprocessor=None)
    return files


def _serialized(module: str, class_name: str, dtype: str | None = "float32", **config) -> dict[str, Any]:
    """An object as Keras serializes it."""
    common: dict[str, Any] = dict(name=module, trainable=True)
    if dtype:
        common["dtype"] = dict(module="keras", class_name="DTypePolicy", config=dict(name=dtype), registered_name=None)
    return dict(module=f"{_MODULE}.{module}", class_name=class_name, config={**common, **config},
                registered_name=f"keras_hub>{class_name}")


def _write_weights(path: str, places: Mapping[str, str], values: Mapping[str, np.ndarray], heads: int) -> None:
    import h5py

    # The temporary file is locked already.
    with atomic_local_write(path) as temporary, h5py.File(temporary, "w", locking=False) as file:
        for name, place in places.items():
            value = values[name].T if is_transposed(name) else values[name]
            file[place] = value.reshape(shape_there(name, value.shape, heads))

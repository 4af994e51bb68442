"""A model as a Hugging Face folder, which transformers loads without a missing or an unexpected key."""

from __future__ import annotations

import json
import os

import numpy as np
from safetensors.numpy import save_file

from albert_tf import keras
from albert_tf.files import write_text, written_whole
from albert_tf.interchange.hugging_face.configs import CONFIG, config_values
from albert_tf.interchange.hugging_face.names import hugging_face_name, is_transposed
from albert_tf.interchange.restoring import release_name
from albert_tf.interchange.safetensors_folder import WEIGHTS
from albert_tf.interchange.vocabulary_files import TOKENIZER_CONFIG, VocabularyFiles, copy_vocabulary
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.multiple_choice import AlbertMultipleChoice
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.span import AlbertSpan

_CLASSES = {
    AlbertModel: "AlbertModel",
    AlbertPretrainer: "AlbertForPreTraining",
    AlbertClassifier: "AlbertForSequenceClassification",
    AlbertSpan: "AlbertForQuestionAnswering",
    AlbertMultipleChoice: "AlbertForMultipleChoice",
}


def save_hugging_face(model: keras.Model, folder: str, vocabulary: VocabularyFiles = VocabularyFiles()) -> None:
    """Writes config.json, model.safetensors and the vocabulary.

    Args:
      model: any model of albert_tf.modeling but AlbertConditionalSpan.
      folder: where to; made where it is missing.
      vocabulary: the model's.

    Raises:
      ValueError: Hugging Face has no such model.
    """
    architecture = _CLASSES.get(type(model))
    if architecture is None:
        raise ValueError(f"Hugging Face has no such model as {type(model).__name__}")
    num_labels = model.classifier.kernel.shape[0] if isinstance(model, AlbertClassifier) else None
    values = config_values(model.config, architecture, num_labels)
    tensors = _tensors(model, architecture)
    write_text(os.path.join(folder, CONFIG), json.dumps(values, indent=2, sort_keys=True) + "\n")
    _save_vocabulary(vocabulary, folder)
    with written_whole(os.path.join(folder, WEIGHTS)) as temporary:
        save_file(tensors, temporary, metadata={"format": "pt"})


def _tensors(model: keras.Model, architecture: str) -> dict[str, np.ndarray]:
    tensors = {}
    for variable in model.weights:
        name = release_name(variable)
        value = variable.numpy()
        tensors[hugging_face_name(name)] = np.ascontiguousarray(value.T) if is_transposed(name) else value
    config = model.config
    if config.embedding_size == config.hidden_size:  # where Hugging Face has a mapping, and the release none
        mapping = "albert.encoder.embedding_hidden_mapping_in"
        tensors[f"{mapping}.weight"] = np.eye(config.hidden_size, dtype=np.float32)
        tensors[f"{mapping}.bias"] = np.zeros(config.hidden_size, np.float32)
    if architecture == "AlbertForQuestionAnswering":
        tensors = {key: value for key, value in tensors.items() if not key.startswith("albert.pooler.")}
    if architecture == "AlbertModel":
        tensors = {key[len("albert."):]: value for key, value in tensors.items()}
    return tensors


def _save_vocabulary(vocabulary: VocabularyFiles, folder: str) -> None:
    """The vocabulary by the name that Hugging Face's tokenizers look for, and the casing."""
    if not vocabulary:
        return
    sentencepiece = bool(vocabulary.spm_model_file)
    copy_vocabulary(vocabulary, folder, "spiece.model" if sentencepiece else "vocab.txt")
    values = dict(tokenizer_class="AlbertTokenizer" if sentencepiece else "BertTokenizer",
                  do_lower_case=vocabulary.do_lower_case is not False)
    if sentencepiece:
        values["keep_accents"] = False
    write_text(os.path.join(folder, TOKENIZER_CONFIG), json.dumps(values, indent=2, sort_keys=True) + "\n")

"""Writes a model as a Hugging Face folder, which transformers loads without a missing or an unexpected key."""

from __future__ import annotations

import json
import os
from typing import Any

import ml_dtypes  # noqa: F401 (NumPy then knows bfloat16)
import numpy as np
import tensorflow as tf
import yaml
from safetensors import SafetensorError
from safetensors.numpy import save_file

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.layers import release_name
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.settings import ClassifierSettings
from albert_tf.modeling.vectors import POOLER
from albert_tf.text.foreign_tokenizer import ForeignTokenizer
from albert_tf.text.pieces import load_vocab, vocabulary_lines
from albert_tf.utils.bounds import check_one_of
from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import output, write_or_remove, write_text
from albert_tf.weights.heads import Head, head_of
from albert_tf.weights.hugging_face import (
    CONFIG,
    DTYPES,
    LENGTH,
    MODEL_INPUTS,
    PL_BERT_CONFIG,
    PL_BERT_WEIGHTS,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    WEIGHTS,
)
from albert_tf.weights.hugging_face.configs import (
    DENSE_FOLDER,
    architecture_of,
    config_values,
    model_type_of,
)
from albert_tf.weights.hugging_face.reading import NAMES, is_transposed
from albert_tf.weights.hugging_face.tokenizer_json import special_tokens, tokenizer_json
from albert_tf.weights.hugging_face.tokenizer_options import SPECIAL_TOKENS_MAP, STRIP_ACCENTS
from albert_tf.weights.settings import write_settings
from albert_tf.weights.torch_writer import write_torch
from albert_tf.weights.vocabulary import VocabularyFiles, copy_vocabulary


def save_hugging_face(model: keras.Model, folder: str, vocabulary: VocabularyFiles = VocabularyFiles(),
                      dtype: str = "float32") -> None:
    """Writes config.json, model.safetensors and the vocabulary. The model type is BERT if the config is a BERT's.

    An AlbertSentenceEncoder is written as a folder of sentence-transformers. Values are rounded to dtype.
    """
    check_one_of("dtype", dtype, DTYPES)
    values = _config(model, dtype)
    tensors = {key: value.astype(dtype) for key, value in _tensors(
        model, head_of(model), model_type_of(model.config)).items()}
    _write_beside_weights(model, values, folder, vocabulary)
    dense = getattr(model, "dense", None)
    if isinstance(model, AlbertSentenceEncoder) and dense is not None:
        _write_tensors(os.path.join(folder, DENSE_FOLDER, WEIGHTS), {
            "linear.weight": dense.kernel.numpy().astype(dtype), "linear.bias": dense.bias.numpy().astype(dtype)})
    _write_tensors(os.path.join(folder, WEIGHTS), tensors)


def _write_tensors(path: str, tensors: dict[str, np.ndarray]) -> None:
    """Writes a file of safetensors."""
    with output(path) as temporary:
        mode = os.stat(temporary).st_mode
        try:
            save_file(tensors, temporary, metadata={"format": "pt"})
        except SafetensorError as error:  # also of a full disk
            raise OSError(f"{path}: {error}") from error
        os.chmod(temporary, mode)  # safetensors 0.8 writes files that only their owner can read


def save_pl_bert(model: keras.Model, folder: str, vocabulary: VocabularyFiles = VocabularyFiles()) -> None:
    """Writes the checkpoint and config.yml of a PL-BERT, which StyleTTS2 reads. The names are the published PL-BERT's.

    model_params has what transformers' AlbertConfig takes.
    """
    values = config_values(model.config, "", None, model.settings)
    if values["model_type"] != "albert":
        raise ValueError("a PL-BERT is an ALBERT. Received: a BERT")
    parameters = {name: value for name, value in values.items() if name not in ("model_type", "architectures")}
    net = {f"module.encoder.{key.removeprefix('albert.')}" if key.startswith("albert.") else f"module.{key}": value
           for key, value in _tensors(model, head_of(model), "albert").items()}
    # StyleTTS2 deletes this entry, so it must be there.
    net["module.encoder.embeddings.position_ids"] = np.arange(model.config.max_position_embeddings)[None]
    write_settings(model.settings, model.config, folder, vocabulary)
    write_text(os.path.join(folder, PL_BERT_CONFIG), yaml.safe_dump(dict(model_params=parameters)))
    write_torch(dict(net=net), os.path.join(folder, PL_BERT_WEIGHTS))


def save_for_onnx(model: keras.Model, folder: str, vocabulary: VocabularyFiles) -> None:
    """Writes the same as save_hugging_face without weights, for ONNX models beside it.

    It is complete for programs that read tokenizer.json alone.
    """
    _write_beside_weights(model, _config(model), folder, vocabulary, needs_tokenizer_json=True)


def _config(model: keras.Model, dtype: str = "float32") -> dict[str, Any]:
    """The content of config.json."""
    architecture = architecture_of(head_of(model), model_type_of(model.config))
    values = config_values(model.config, architecture, getattr(model, "num_labels", None), model.settings)
    if isinstance(model, AlbertSentenceEncoder) and model.settings.pooling == POOLER:
        raise ValueError("sentence-transformers has no pooling by ALBERT's pooler: choose mean, max or cls")
    return values if dtype == "float32" else dict(values, torch_dtype=dtype)


def _write_beside_weights(
    model: keras.Model, values: dict[str, Any], folder: str, vocabulary: VocabularyFiles,
    needs_tokenizer_json: bool = False,
) -> None:
    settings = model.settings
    write_settings(settings, model.config, folder)
    write_text(os.path.join(folder, CONFIG), json.dumps(values, indent=2, sort_keys=True) + "\n")
    write_tokenizer(vocabulary, folder, model.config, settings.max_seq_length, needs_tokenizer_json)


def write_tokenizer(vocabulary: VocabularyFiles, folder: str, config: AlbertConfig, max_seq_length: int | None,
                    needs_tokenizer_json: bool = False) -> None:
    """Writes the vocabulary with the name that Hugging Face's tokenizers expect, its options and the length of rows.

    Args:
      vocabulary: the vocabulary; if it is empty, only the length is written.
      max_seq_length: the largest number of tokens of a row that the weights are trained with; None if unknown.
      needs_tokenizer_json: whether the files are for programs that read only tokenizer.json and the names of special
        tokens. WordPiece vocabularies then have these, too, and other kinds raise ValueError.
    """
    sentencepiece = bool(vocabulary.spm_model_file)
    copy_vocabulary(vocabulary, folder, "spiece.model" if sentencepiece else "vocab.txt")
    path = os.path.join(folder, TOKENIZER_CONFIG)
    length = min(max_seq_length or config.max_position_embeddings, config.max_position_embeddings)
    tokenizer = vocabulary.tokenizer() if vocabulary else None
    if tokenizer is None or isinstance(tokenizer, ForeignTokenizer):
        earlier = read_json_object(path) if tf.io.gfile.exists(path) else {}
        if earlier or max_seq_length:
            write_text(path, json.dumps({**earlier, LENGTH: length}))
        if tokenizer and needs_tokenizer_json:
            write_text(os.path.join(folder, SPECIAL_TOKENS_MAP), json.dumps(tokenizer.names, indent=2) + "\n")
        return
    if not sentencepiece:
        _number_lines(os.path.join(folder, "vocab.txt"), tokenizer.vocab)
    special = special_tokens(tokenizer)
    made = tokenizer_json(tokenizer) if sentencepiece or needs_tokenizer_json else None
    if needs_tokenizer_json:
        write_text(os.path.join(folder, SPECIAL_TOKENS_MAP), json.dumps(special, indent=2) + "\n")
    content = json.dumps(made, ensure_ascii=False) + "\n" if made else None
    write_or_remove(os.path.join(folder, TOKENIZER_JSON), content)
    values: dict[str, Any] = {
        "do_lower_case": vocabulary.do_lower_case is not False,
        "model_input_names": MODEL_INPUTS,
        LENGTH: length,
    }
    if sentencepiece:
        values["keep_accents"] = bool(vocabulary.keep_accents)
    elif vocabulary.keep_accents:
        values[STRIP_ACCENTS] = False
    if made:
        values.update(special)
    values["tokenizer_class"] = "PreTrainedTokenizerFast" if sentencepiece else "BertTokenizer"
    write_text(path, json.dumps(values, indent=2, sort_keys=True) + "\n")


def _number_lines(path: str, vocab: dict[str, int]) -> None:
    """Writes a vocabulary again if the numbers of its lines, which are the ids for transformers, are not the ids."""
    if load_vocab(path, transformers_rules=True) != vocab:
        write_text(path, vocabulary_lines(vocab))


def class_of_hugging_face(model: keras.Model) -> str:
    """The class that loads what save_hugging_face writes: one of sentence-transformers or of transformers."""
    if isinstance(model, AlbertSentenceEncoder):
        return "SentenceTransformer"
    if model.settings.of_class(ClassifierSettings).activation_fn:
        return "CrossEncoder"
    return architecture_of(head_of(model), model_type_of(model.config))


def _tensors(model: keras.Model, head: Head, model_type: str) -> dict[str, np.ndarray]:
    tensors, names = {}, NAMES[model_type]
    for variable in model.weights:
        name = release_name(variable)
        if name.startswith("cls/vectors/"):  # in a separate folder
            continue
        value, key = variable.numpy(), names.theirs(name)
        if key is None:
            raise ValueError(f"Hugging Face has no name for the variable {name} of a model of type {model_type}")
        tensors[key] = np.ascontiguousarray(value.T) if is_transposed(name) else value
    config = model.config
    if model_type == "albert" and config.embedding_size == config.hidden_size:  # the release has no mapping there
        mapping = "albert.encoder.embedding_hidden_mapping_in"
        tensors[f"{mapping}.weight"] = np.eye(config.hidden_size, dtype=np.float32)
        tensors[f"{mapping}.bias"] = np.zeros(config.hidden_size, np.float32)
    if not head.has_pooler:
        tensors = {key: value for key, value in tensors.items() if not key.startswith(f"{names.prefix}pooler.")}
    # keras-hub wants ALBERT's prefix in every folder.
    if model_type != "albert" and head.architectures[0] == "Model":
        tensors = {key[len(names.prefix):]: value for key, value in tensors.items()}
    return tensors

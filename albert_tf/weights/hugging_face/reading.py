"""Reads a Hugging Face folder, or a file of PL-BERT or Kokoro, as a StoredModel, and each tensor when it is needed.

NAMES maps the release's names of variables to Hugging Face's names of tensors, and back: one table per model type.
The weights are in safetensors or, where there are none, in files of torch.save (torch_file.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
from typing import Any, Callable, Collection, Iterator, Mapping, Sequence

import ml_dtypes  # noqa: F401  gives NumPy the type bfloat16; TensorFlow brings it
import numpy as np
import tensorflow as tf
from absl import logging
from safetensors import SafetensorError, safe_open

from albert_tf.modeling.encoder import block_scope, block_variable
from albert_tf.utils import bounds
from albert_tf.utils.files import listed, names_in, read_json_object, version
from albert_tf.utils.manifests import check_model_file
from albert_tf.utils.outputs import local_copy
from albert_tf.weights.heads import DENSE, HEADS, LAYER_NORM, head_of_variables
from albert_tf.weights.hugging_face import (
    ADAPTER,
    INDEX,
    LENGTH,
    OTHERS,
    TOKENIZER_CONFIG,
    TORCH_INDEX,
    TORCH_WEIGHTS,
    WEIGHTS,
)
from albert_tf.weights.hugging_face.configs import (
    HEAD_OF_CLASS,
    dense_folder,
    pooling_in,
    read_config,
    read_transformer_config,
    transformer_folder,
)
from albert_tf.weights.settings import settings_in, settings_of
from albert_tf.weights.stored_model import StoredModel, StoredTensor, check_count
from albert_tf.weights.tf1 import LAYERS
from albert_tf.weights.torch_file import TorchTensor, read_torch
from albert_tf.weights.transforms import without_identity
from albert_tf.weights.vocabulary import VocabularyFiles, vocabulary_in

_WORDS, _OUTPUT_BIAS = "bert/embeddings/word_embeddings", "cls/predictions/output_bias"
_SEGMENTS = "bert/embeddings/token_type_embeddings"
# The second names of tied weights, which a file may have instead of the first ones, or too.
_TIED = {"predictions.decoder.weight": _WORDS, "predictions.decoder.bias": _OUTPUT_BIAS}
_WORD_TABLE = "embeddings.word_embeddings.weight"
_POSITION_IDS = "embeddings.position_ids"  # the numbers 0, 1, 2, ... in older files
# The oldest files have TensorFlow's names for a LayerNorm's weight and bias.
_OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}
# Types of weights as safetensors and NumPy call them.
_TYPES = ("F64", "F32", "F16", "BF16", "float64", "float32", "float16", "bfloat16")
_STEP = re.compile(r"step_(\d+)\.t7")  # of PL-BERT


def read(path: str) -> StoredModel:
    """The weights, config and vocabulary of a folder that transformers or sentence-transformers has written.

    `path` can also be a file of torch.save, whose config is beside it.
    """
    is_folder = tf.io.gfile.isdir(path)
    folder = path if is_folder else os.path.dirname(path)
    pooling = pooling_in(folder)
    of_dense = dense_folder(folder) if pooling and pooling.get("dense_size") else None
    if pooling:
        folder = transformer_folder(folder)
    if tf.io.gfile.exists(os.path.join(folder, ADAPTER)):
        raise ValueError(f"{folder} has an adapter of PEFT ({ADAPTER}), which is not read: in Python, load it with "
                         "AutoPeftModel...from_pretrained, call merge_and_unload() and save_pretrained(), and use that")
    files = weight_files(folder) if is_folder else [path]
    config, model_type, architecture, told = read_config(folder)
    file = os.path.join(folder, TOKENIZER_CONFIG)
    tokenizer_config = read_json_object(file) if tf.io.gfile.exists(file) else {}
    transformer_config, settings = read_transformer_config(folder), settings_in(folder)
    told["activation_fn"] = getattr(settings, "activation_fn", None) or told["activation_fn"]
    lengths = transformer_config.get("max_seq_length"), tokenizer_config.get(LENGTH)
    stored, head = _stored_tensors(files), HEAD_OF_CLASS.get(architecture)
    if head in (None, "encoder") and _classifies_tokens(stored, told["label_names"] or ()):
        head = "token_classifier"
    tensors = _by_release_name(stored, NAMES[model_type], head)
    if of_dense:
        tensors.update(_dense_tensors(of_dense))
    _tell_of_unknown_parts(path, tensors, stored.keys() & tensors.keys(), architecture, config.hidden_size)
    head = "sentence_encoder" if pooling else settings.head or head
    if head is None and any(told.values()):
        head = head_of_variables(tensors).name
    settings = settings_of(head, settings, max_seq_length=_length(lengths, config.max_position_embeddings), **told,
                           **(pooling or {}))
    inputs = tokenizer_config.get("model_input_names")
    if isinstance(inputs, list) and "token_type_ids" not in inputs and _SEGMENTS in tensors:
        table = tensors[_SEGMENTS]  # transformers gives the model zeros, so all rows become the first one
        tensors[_SEGMENTS] = StoredTensor(table.shape, lambda: tf.repeat(table.read()[:1], table.shape[0], axis=0))
    vocabulary = _vocabulary(folder, lower_cases=bool(transformer_config.get("do_lower_case")))
    model = StoredModel(folder if is_folder else path, tensors, config, vocabulary, settings)
    return without_identity(model) if config.embedding_size == config.hidden_size else model


def _length(lengths: Sequence[Any], positions: int) -> int | None:
    """The largest number of tokens of a row: the first of these lengths that the model can have; None if there is none.

    sentence-transformers' length comes before the tokenizer's. transformers writes a huge number for "no limit".
    """
    return next((length for length in lengths
                 if type(length) is int and bounds.ROW_LENGTH.lower <= length <= positions), None)


def _vocabulary(folder: str, lower_cases: bool) -> VocabularyFiles:
    """The vocabulary.

    sentence-transformers may lower-case texts before the tokenizer, which then keeps accents.
    """
    vocabulary = vocabulary_in(folder)
    if vocabulary.tokenizer_json:
        return dataclasses.replace(vocabulary, do_lower_case=lower_cases)
    if vocabulary.vocab_file:
        vocabulary = dataclasses.replace(vocabulary, transformers_rules=True)
    if lower_cases and vocabulary.do_lower_case is False:
        keeps_accents = bool(vocabulary.vocab_file or vocabulary.keep_accents)
        return dataclasses.replace(vocabulary, do_lower_case=True, keep_accents=keeps_accents)
    return vocabulary


def _dense_tensors(folder: str) -> dict[str, StoredTensor]:
    """The weights of a dense layer behind the pooling, by our names. The bias is 0 if there is none."""
    stored = _stored_tensors(weight_files(folder))
    if "linear.weight" not in stored:
        raise ValueError(f"{folder} has no tensor linear.weight")
    weights, size = stored["linear.weight"], stored["linear.weight"].shape[:1]
    bias = stored["linear.bias"].stored() if "linear.bias" in stored else StoredTensor(size, lambda: tf.zeros(size))
    return {"cls/vectors/output_weights": weights.stored(), "cls/vectors/output_bias": bias}


def _classifies_tokens(stored: Collection[str], label_names: Collection[str]) -> bool:
    """Whether the layer "classifier" of an unknown class is one of tokens: with a CRF, names of tags, or no pooler."""
    keys = [key.removeprefix("module.") for key in stored]
    return "classifier.weight" in keys and (
        any(key.startswith("crf.") for key in keys) or any(name.startswith(("B-", "I-")) for name in label_names)
        or not any("pooler." in key for key in keys))


def _tell_of_unknown_parts(path: str, tensors: dict[str, StoredTensor], unknown: Collection[str], architecture: str,
                           hidden_size: int) -> None:
    """Warns of a class that transformers does not have for this model, and of tensors that no model here has.

    Removes a layer "classifier" of such a class that reads something else than a vector of the encoder.
    """
    if architecture and architecture not in HEAD_OF_CLASS:
        for head in HEADS:
            if head.label_weights in tensors and tuple(tensors[head.label_weights].shape[1:]) != (hidden_size,):
                unknown = {*unknown, "classifier.weight", "classifier.bias"}
                for name in (head.label_weights, head.label_weights.replace("weights", "bias")):
                    tensors.pop(name, None)
        logging.warning("%s was saved from the class %s, which transformers does not have: by its tensors, it is read "
                        "as %s", path, architecture, head_of_variables(tensors).name)
    if unknown:
        logging.warning("%s: nothing here reads %s. What the program that saved them computes with them is left out",
                        path, listed(sorted(unknown), 20))


def _by_release_name(stored: Mapping[str, FileTensor], names: NameTable, head: str | None) -> dict[str, StoredTensor]:
    """The tensors by the release's names. A tensor without a name keeps its key, and is reported as not used.

    The encoder may have any prefix, such as "albert." or, in PL-BERT's checkpoints, "module.encoder.".
    """
    tensors: dict[str, StoredTensor] = {}
    tied: dict[str, FileTensor] = {}
    prefix = next((key.removesuffix(_WORD_TABLE) for key in stored if key.endswith(_WORD_TABLE)), "")
    for key, tensor in stored.items():
        full = key.removeprefix(prefix)
        if key.startswith(prefix) and full.startswith(("embeddings.", "encoder.", "pooler.")):
            full = names.prefix + full
        else:
            full = key.removeprefix("module.")
        stem, dot, ending = full.rpartition(".")
        full = stem + _OLD_ENDINGS.get(dot + ending, dot + ending)
        second_name = next((name for ending, name in _TIED.items() if full.endswith(ending)), None)
        if second_name:
            tied[second_name] = tensor
        elif not full.endswith(_POSITION_IDS):
            name = names.ours(full, head) or key
            tensors[name] = tensor.stored(is_transposed(name))
    decoder = tied.pop(_WORDS, None) if _WORDS in tensors else None
    # Of two biases that differ, transformers uses the decoder's.
    tensors.update((name, tensor.stored()) for name, tensor in tied.items())
    if decoder and _OUTPUT_BIAS in tensors:
        bias, words = tensors[_OUTPUT_BIAS], tensors[_WORDS]

        def checked() -> tf.Tensor:
            if not np.array_equal(decoder.read(), words.read()):
                raise ValueError(f"{os.path.dirname(decoder.path)}: {decoder.key} differs from the word embeddings, "
                                 "and the release has one table")
            return bias.read()

        tensors[_OUTPUT_BIAS] = StoredTensor(bias.shape, checked)
    return tensors


@dataclasses.dataclass(frozen=True)
class FileTensor:
    """A tensor in a file of weights, with its shape there and the name of its data type there ("F32")."""

    path: str
    key: str
    shape: tuple[int, ...]
    dtype: str
    values: Callable[[], np.ndarray]

    def stored(self, transpose: bool = False) -> StoredTensor:
        """The tensor, or its transpose, for a StoredModel."""
        return StoredTensor(self.shape[::-1] if transpose else self.shape, functools.partial(self.read, transpose))

    def read(self, transpose: bool = False) -> tf.Tensor:
        """The values as float32."""
        if self.dtype not in _TYPES:
            raise ValueError(f"{self.path}: {self.key} has type {self.dtype}, and weights have F64, F32, F16 or BF16")
        values = self.values()
        return tf.constant(np.asarray(values.T if transpose else values, np.float32))


def weight_files(folder: str) -> list[str]:
    """The files of weights in a folder. As in transformers, an index is not read beside weights in one file."""
    names = names_in(folder)
    for whole, index in ((WEIGHTS, INDEX), (TORCH_WEIGHTS, TORCH_INDEX)):
        if whole in names:
            return [os.path.join(folder, whole)]
        if index in names:
            return _shards(os.path.join(folder, index), os.path.splitext(whole)[1])
    steps = [match for match in map(_STEP.fullmatch, names) if match]
    others = [name for name in names if name.endswith((".t7", ".pth"))]
    if steps:  # StyleTTS2 takes the highest number
        return [os.path.join(folder, max(steps, key=lambda match: int(match[1]))[0])]
    if len(others) == 1:
        return [os.path.join(folder, others[0])]
    theirs = [f"{name}, weights of {library}" for name, library in OTHERS.items() if name in names]
    raise ValueError(f"{folder} has no {WEIGHTS}" + (
        f": choose one of {', '.join(sorted(others))}" if others
        else f", but {' and '.join(theirs)}: save them as safetensors" if theirs else ""))


def _shards(index: str, ending: str) -> list[str]:
    folder, weight_map = os.path.dirname(index), read_json_object(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise ValueError(f"{index} has no weight_map from keys to {ending} files")
    for name in weight_map.values():
        if not isinstance(name, str) or os.path.basename(name) != name or not name.endswith(ending):
            raise ValueError(f"{index} names {name!r}, but must name {ending} files in its own folder")
    return [os.path.join(folder, name) for name in sorted(set(weight_map.values()))]


def _stored_tensors(files: Sequence[str]) -> dict[str, FileTensor]:
    """The tensors in files, by key."""
    tensors: dict[str, FileTensor] = {}
    for path in files:
        tensors.update(_safe_tensors(path) if path.endswith(".safetensors") else _torch_tensors(path))
        check_count(path, len(tensors))
    return tensors


def _safe_tensors(path: str) -> dict[str, FileTensor]:
    with open_safetensors(path) as file:
        keys = file.keys()
        check_count(path, len(keys))
        slices = {key: file.get_slice(key) for key in keys}
        return {key: FileTensor(path, key, tuple(part.get_shape()), part.get_dtype(),
                                functools.partial(_safe_values, path, key)) for key, part in slices.items()}


def _safe_values(path: str, key: str) -> np.ndarray:
    _check_sum(path, "hugging_face", *version(path))
    with open_safetensors(path) as file:  # not longer, since the pages that were read stay in memory
        return file.get_tensor(key)


@functools.lru_cache(maxsize=None)
def _check_sum(path: str, kind: str, length: int, mtime_nsec: int) -> None:
    """Compares each version of a file once with the checksum that convert_checkpoint has written."""
    check_model_file(os.path.dirname(path), kind, os.path.basename(path))


@contextlib.contextmanager
def open_safetensors(path: str) -> Iterator[safe_open]:
    """The open file, for safe_open's methods. Raises ValueError if it is missing or of another format."""
    try:
        with safe_open(local_copy(path), framework="np") as file:
            yield file
    except (FileNotFoundError, tf.errors.NotFoundError) as error:
        raise ValueError(f"no such file: {path}") from error
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error


def _torch_tensors(path: str) -> dict[str, FileTensor]:
    """The tensors of a model in a file of torch.save: at its top, or in one of its dicts, as in those of trainings."""
    _check_sum(path, "pl_bert", *version(path))
    saved = read_torch(path)
    parts = [part for part in [saved, *(saved.values() if isinstance(saved, dict) else ())] if isinstance(part, dict)]
    models = [{key: value for key, value in part.items() if isinstance(key, str) and isinstance(value, TorchTensor)}
              for part in parts]
    model = next((model for model in models if any(key.endswith(_WORD_TABLE) for key in model)), *models[:1] or [{}])
    if not model:
        raise ValueError(f"{path} has no weights of an ALBERT or a BERT: no tensor is named ...{_WORD_TABLE}")
    return {key: FileTensor(path, key, tensor.shape, tensor.storage.dtype.name, tensor.read)
            for key, tensor in model.items()}


# Layers outside the blocks: the release's scope, Hugging Face's layer, the release's names of its weight and bias.
_OUTSIDE_BLOCKS = {
    "bert/embeddings/word_embeddings": ("embeddings.word_embeddings", ("", None)),
    "bert/embeddings/token_type_embeddings": ("embeddings.token_type_embeddings", ("", None)),
    "bert/embeddings/position_embeddings": ("embeddings.position_embeddings", ("", None)),
    "bert/embeddings/LayerNorm": ("embeddings.LayerNorm", LAYER_NORM),
}


class NameTable:
    """The names of one of Hugging Face's model types, with which names start in a model with a head.

    outside_blocks and in_blocks have layers as _OUTSIDE_BLOCKS has them, and `block` is the name of a block.
    """

    def __init__(self, model_type: str, outside_blocks: dict, block: str, in_blocks: dict):
        self.prefix = f"{model_type}."
        encoder = {scope: (self.prefix + layer, variables)
                   for scope, (layer, variables) in {**_OUTSIDE_BLOCKS, **outside_blocks}.items()}
        head_layers = {head.name: head.layers.get(model_type, {}) for head in HEADS}
        heads = {scope: layer for layers in head_layers.values() for scope, layer in layers.items()}
        self._outside, self._inside = _names({**encoder, **heads}), _names(in_blocks)
        # Two of Hugging Face's heads have the same name: "classifier" classifies texts or tokens. Unless the head is
        # known, the first one is used.
        self._ours_outside, self._ours_inside = map(_reversed, (self._outside, self._inside))
        self._ours_of_head = {name: _reversed(_names(layers)) for name, layers in head_layers.items()}
        self._block = self.prefix + block
        pattern = re.escape(self._block).replace(r"\{group\}", r"(?P<group>\d+)").replace(
            r"\{inner\}", r"(?P<inner>\d+)")
        self._their_block = re.compile(pattern + r"\.(?P<tensor>.+)")

    def theirs(self, name: str) -> str | None:
        """Hugging Face's name, in a model with a head, of a variable of the release; None if there is none."""
        block = block_variable(name)
        if not block:
            return self._outside.get(name)
        tensor = self._inside.get(block.name)
        return tensor and f"{self._block.format(group=block.group, inner=block.inner)}.{tensor}"

    def ours(self, key: str, head: str | None = None) -> str | None:
        """The release's name of a tensor of a Hugging Face model with a head; None if there is none."""
        block = self._their_block.fullmatch(key)
        if not block:
            return self._ours_of_head.get(head or "", {}).get(key) or self._ours_outside.get(key)
        variable = self._ours_inside.get(block["tensor"])
        inner = block.groupdict().get("inner", 0)
        return variable and f"{block_scope(int(block['group']), int(inner))}/{variable}"


def _names(layers: dict[str, tuple[str, tuple[str | None, str | None]]]) -> dict[str, str]:
    """Expands layers to their variables: Hugging Face's name by the release's name.

    A layer has two names of variables, for weight and bias: "" is a variable with the name of the scope itself, and
    None means that there is no such variable.
    """
    return {f"{scope}/{variable}".strip("/"): f"{layer}.{theirs}"
            for scope, (layer, variables) in layers.items() for variable, theirs in zip(variables, ("weight", "bias"))
            if variable is not None}


def _reversed(names: dict[str, str]) -> dict[str, str]:
    """Hugging Face's names to the release's; of several variables with the same tensor, the first one."""
    return {theirs: ours for ours, theirs in reversed(names.items())}


NAMES = {
    "albert": NameTable(
        "albert",
        {"bert/encoder/embedding_hidden_mapping_in": ("encoder.embedding_hidden_mapping_in", DENSE),
         "bert/pooler/dense": ("pooler", DENSE)},
        "encoder.albert_layer_groups.{group}.albert_layers.{inner}",
        {"attention_1/self/query": ("attention.query", DENSE),
         "attention_1/self/key": ("attention.key", DENSE),
         "attention_1/self/value": ("attention.value", DENSE),
         "attention_1/output/dense": ("attention.dense", DENSE),
         "LayerNorm": ("attention.LayerNorm", LAYER_NORM),
         "ffn_1/intermediate/dense": ("ffn", DENSE),
         "ffn_1/intermediate/output/dense": ("ffn_output", DENSE),
         "LayerNorm_1": ("full_layer_layer_norm", LAYER_NORM)}),
    # Each layer of BERT is a group of one block.
    "bert": NameTable(
        "bert",
        {"bert/pooler/dense": ("pooler.dense", DENSE)},
        "encoder.layer.{group}",
        {ours: (theirs.replace("/", "."), LAYER_NORM if ours.startswith("LayerNorm") else DENSE)
         for ours, theirs in LAYERS.items()}),
}


def is_transposed(name: str) -> bool:
    """Whether Hugging Face stores a variable's transpose: weights there are [outputs, inputs], kernels the reverse."""
    return name.endswith("/kernel")

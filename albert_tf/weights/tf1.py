"""Reads and writes the release's checkpoints, by the names of their variables, and reads our runs' checkpoints.

Checkpoints of google-research/bert and of brightmart/albert_zh have other names. BERT also has bert_config.json.
albert_zh has BERT's names of layers, in "layer_shared". It projects word embeddings [V, E] to the hidden size H before
it adds segments and positions [., H], and the release after it. So a checkpoint is read as a model with E = H. Its
word table [V, H] is the product of albert_zh's table and projection. The masked-LM head of albert_zh multiplies by the
same product. The outputs are equal, and the word table is larger than in the checkpoint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import functools
import json
import math
import os
import re
from typing import Callable, Collection, Iterator, Mapping

import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.modeling.encoder import block_scope, block_variable
from albert_tf.modeling.layers import release_name
from albert_tf.utils.files import errors_at, names_in, read_json_object
from albert_tf.utils.outputs import checkpoint_reader, output_checkpoint, write_text
from albert_tf.weights import BERT_CONFIG
from albert_tf.weights.hugging_face import SCHEME
from albert_tf.weights.runs import best_or_latest, checkpoint_of, saved_step, stored_variables
from albert_tf.weights.settings import settings_in
from albert_tf.weights.stored_model import StoredModel, StoredTensor, check_count, config_in
from albert_tf.weights.vocabulary import vocabulary_in

# The prefix of the encoder's names in checkpoints of a model that was fine-tuned on a TF-Hub module.
_MODULE = re.compile(r"^module(_\d+)?/")
# What names of variables in a checkpoint tell: written by tf.train.Checkpoint, by albert_zh, by google-research/bert.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_ALBERT_ZH = "bert/encoder/layer_shared/"
_BERT = re.compile(r"bert/encoder/layer_\d+/")
# The endings of the files of a TF1 checkpoint.
_ENDINGS = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
_LAYER = re.compile(r"bert/encoder/layer_(\d+)/(.+)/(\w+)")
# The names of a block's layers in ALBERT's release, and in BERT's release.
LAYERS = {
    "attention_1/self/query": "attention/self/query",
    "attention_1/self/key": "attention/self/key",
    "attention_1/self/value": "attention/self/value",
    "attention_1/output/dense": "attention/output/dense",
    "LayerNorm": "attention/output/LayerNorm",
    "ffn_1/intermediate/dense": "intermediate/dense",
    "ffn_1/intermediate/output/dense": "output/dense",
    "LayerNorm_1": "output/LayerNorm",
}
_OURS = {theirs: ours for ours, theirs in LAYERS.items()}
# Names of albert_zh.
_WORDS = "bert/embeddings/word_embeddings"
_PROJECTION = f"{_WORDS}_2"
_CONFIGS = "*config*.json"  # albert_config_base.json, albert_config_tiny.json, ...


def read(path: str) -> StoredModel:
    """The model of a checkpoint of TensorFlow, or of the best or the only one in a directory.

    The names of its variables tell what has written it: a run of this package, the release, albert_zh or BERT. A
    run's names are the paths of Keras objects. With the release's names, a checkpoint of one kind of model can be
    loaded into any other that shares some of its variables. Variables that only training needs are left out.
    """
    prefix = checkpoint_prefix(path)
    tensors, folder = read_checkpoint(prefix), os.path.dirname(prefix)
    model = StoredModel(prefix, tensors, None, vocabulary_in(folder), settings_in(folder))
    if any(name.startswith(_ALBERT_ZH) for name in tensors):
        return dataclasses.replace(model, tensors=_of_zh(prefix, tensors), optional_config=_zh_config(folder))
    if any(map(_BERT.match, tensors)):
        return dataclasses.replace(model, optional_config=config_in(folder, BERT_CONFIG, is_bert=True), tensors={
            release_name_of(key): tensor for key, tensor in tensors.items()})
    model = dataclasses.replace(model, optional_config=config_in(folder))
    if _OBJECTS not in tensors:
        return model
    return dataclasses.replace(model, step=saved_step(prefix), tensors={
        name: tensors[key] for key, name, slot in stored_variables(tensors) if not slot})


def read_checkpoint(prefix: str) -> dict[str, StoredTensor]:
    """The values of a checkpoint, by their names."""
    with clear_errors(prefix):
        reader = checkpoint_reader(prefix)
    shapes, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    check_count(prefix, len(shapes))
    _check_sizes(prefix, shapes, types)

    def read_value(key: str) -> tf.Tensor:
        with clear_errors(prefix):  # not with the reader, which makes a copy
            value, = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=[key], shape_and_slices=[""], dtypes=[types[key]])
            return tf.cast(value, tf.float32)

    return {_MODULE.sub("", key): StoredTensor(shape, functools.partial(read_value, key))
            for key, shape in shapes.items()}


def checkpoint_prefix(path: str) -> str:
    """The prefix of the checkpoint at a path: the path itself, or the best, the latest or the only one in a directory.

    In a directory of several runs (--num_runs) it belongs to the best run. A path may name one of a checkpoint's files.
    """
    path = _ENDINGS.sub("", path)
    if tf.io.gfile.exists(f"{path}.index"):
        return path
    files = names_in(path)
    names = sorted(name.removesuffix(".index") for name in files if name.endswith(".index"))
    # An index without data may be one of faiss.
    names = [name for name in names if any(file.startswith(f"{name}.data-") for file in files)] or names
    prefixes = [os.path.join(path, name) for name in names]
    if len(prefixes) != 1:
        chosen = best_or_latest(path) or checkpoint_of(path)
        prefixes = [chosen] if chosen else prefixes
    if not prefixes:
        from albert_tf.weights.stored_model import shipped_models

        where, published = "" if tf.io.gfile.exists(path) else ", which does not exist", path.replace("-", "_")
        if where and published in PRESETS and published.startswith("albert_"):
            where += f" (did you mean {SCHEME}albert/{published.replace('_', '-')}?)"
        raise ValueError(f"no checkpoint at {path}{where}: expected a directory with model.ckpt-*, the path of a "
                         "checkpoint, a Hugging Face folder, a TF-Hub module, a .tar.gz of one of them, "
                         f"{SCHEME}org/name on the Hugging Face Hub, "
                         f"or the name of a model that comes with the package ({', '.join(shipped_models())}). "
                         "docs/checkpoints.md says where to download weights")
    if len(prefixes) > 1:
        raise ValueError(f"several checkpoints in {path}, choose one: {', '.join(map(os.path.basename, prefixes))}")
    return prefixes[0]


def save_tf1_checkpoint(
    model: keras.Model, prefix: str, global_step: int | None = None, left_out: Collection[str] = (),
    name_of: Callable[[str], str] = str,
) -> None:
    """Writes a model as a checkpoint of the release: the variables with their names, without optimizer slots.

    `name_of` makes the name that is written from the release's.
    """
    variables = {release_name(variable): variable for variable in model.weights}
    values = {name_of(name): tf.convert_to_tensor(variable)
              for name, variable in variables.items() if name not in left_out}
    if global_step is not None:
        values["global_step"] = tf.constant(global_step, tf.int64)
    names = sorted(values)
    with output_checkpoint(prefix) as temporary:
        tf.raw_ops.SaveV2(prefix=temporary, tensor_names=names, shape_and_slices=[""] * len(names),
                          tensors=[values[name] for name in names])


def _check_sizes(prefix: str, shapes: dict[str, list[int]], types: dict[str, tf.DType]) -> None:
    """Raises ValueError if the index describes more values than the data files have, since shapes are not trusted."""
    directory, name = os.path.split(prefix)
    files = [file for file in tf.io.gfile.listdir(directory or ".") if file.startswith(f"{name}.data-")]
    stored = sum(tf.io.gfile.stat(os.path.join(directory, file)).length for file in files)
    described = sum(math.prod(shape) * types[key].size for key, shape in shapes.items() if types[key] != tf.string)
    if described > stored:
        raise ValueError(f"{prefix} cannot be read as a checkpoint: its index describes {described:,} bytes of values, "
                         f"but its data files have {stored:,}")


@contextlib.contextmanager
def clear_errors(prefix: str) -> Iterator[None]:
    """Turns TensorFlow's errors of reading a checkpoint into a ValueError."""
    try:
        yield
    except (tf.errors.OpError, ValueError, RuntimeError, LookupError) as error:
        raise ValueError(f"{prefix} cannot be read as a checkpoint: {str(error).splitlines()[0]}") from error


def write_bert_config(config: AlbertConfig, directory: str) -> None:
    """Writes bert_config.json."""
    if not config.is_bert:
        raise ValueError("only a model with cross_layer_sharing none and an embedding_size that equals hidden_size is "
                         f"a BERT. Received: cross_layer_sharing={config.cross_layer_sharing!r}, "
                         f"embedding_size={config.embedding_size}, hidden_size={config.hidden_size}")
    if config.hidden_act == "gelu_exact":  # Hugging Face's configs have it also for weights that Google trained
        logging.warning("google-research/bert computes gelu with the tanh approximation, this model with the error "
                        "function: outputs will differ slightly there")
        config = config.replace(hidden_act="gelu")
    values = config.to_bert_dict()
    write_text(os.path.join(directory, BERT_CONFIG), json.dumps(values, indent=2, sort_keys=True) + "\n")


def release_name_of(key: str) -> str:
    """The name in ALBERT's release of a variable of BERT's release. Names outside the layers are equal."""
    match = _LAYER.fullmatch(key)
    if not match or match[2] not in _OURS:
        return key
    return f"{block_scope(int(match[1]))}/{_OURS[match[2]]}/{match[3]}"


def bert_name_of(name: str) -> str:
    """The reverse of release_name_of."""
    block = block_variable(name)
    if not block or block.inner:
        return name
    layer, _, variable = block.name.rpartition("/")
    return f"bert/encoder/layer_{block.group}/{LAYERS[layer]}/{variable}"


def _of_zh(prefix: str, tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """The tensors of albert_zh by the release's names, with one word table."""
    table, projection = (list(tensors[key].shape) if key in tensors else [] for key in (_WORDS, _PROJECTION))
    if len(table) != 2 or len(projection) != 2 or table[1] != projection[0]:
        raise ValueError(f"{prefix}: {_WORDS} must be [V, E] and {_PROJECTION} [E, H]. Received shapes: "
                         f"{table} and {projection}")
    words = StoredTensor([table[0], projection[1]],
                         lambda: tf.matmul(tensors[_WORDS].read(), tensors[_PROJECTION].read()))
    named = {release_name_of(key.replace(_ALBERT_ZH, "bert/encoder/layer_0/")): tensor
             for key, tensor in tensors.items() if not key.startswith(_PROJECTION)}
    return {**named, _WORDS: words}


def _zh_config(folder: str) -> AlbertConfig | None:
    names = [name for name in fnmatch.filter(tf.io.gfile.listdir(folder or "."), _CONFIGS)
             if not name.startswith("tokenizer")]
    if not names:
        return None
    if len(names) > 1:
        raise ValueError(f"{folder or '.'} must have one config of the model ({_CONFIGS}). "
                         f"Received: {', '.join(sorted(names))}")
    path = os.path.join(folder, names[0])
    values = read_json_object(path)
    norm = values.pop("ln_type", "postln")
    if norm != "postln":
        raise ValueError(f"{path}: only LayerNorm after each block can be read. Received: ln_type={norm!r}")
    with errors_at(path):
        return AlbertConfig.from_dict(dict(values, embedding_size=values.get("hidden_size")))

"""Reads and writes the release's checkpoints, by the names of their variables, and reads those of our runs."""

from __future__ import annotations

import contextlib
import math
import os
import re
from typing import Callable, Collection

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import CONFIG_NAME, AlbertConfig
from albert_tf.modeling.layers import release_name
from albert_tf.training.checkpoints import AUXILIARY, best_or_latest, saved_step, stored_variables
from albert_tf.utils.outputs import output_checkpoint
from albert_tf.weights.settings import settings_in
from albert_tf.weights.stored_model import StoredModel, merged
from albert_tf.weights.vocabulary_files import vocabulary_in

# The prefix of the encoder's names in checkpoints of a model that was fine-tuned on a TF-Hub module.
_MODULE = re.compile(r"^module(_\d+)?/")
# What names of variables in a checkpoint tell: written by tf.train.Checkpoint, by albert_zh, by google-research/bert.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_ALBERT_ZH = "bert/encoder/layer_shared/"
_BERT = re.compile(r"bert/encoder/layer_\d+/")
# The endings of the files of a TF1 checkpoint.
_ENDINGS = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")


def read(path: str) -> StoredModel:
    """The model of a checkpoint of TensorFlow, or of the best or the only one in a directory.

    The names of its variables tell what has written it: a run of this package, the release, albert_zh or BERT.
    """
    checkpoint = read_checkpoint(checkpoint_prefix(path))
    if _OBJECTS in checkpoint.shapes:
        return our_model(checkpoint)
    if any(name.startswith(_ALBERT_ZH) for name in checkpoint.shapes):
        from albert_tf.weights.tf1.bert import zh_with_release_names

        return zh_with_release_names(checkpoint)
    if any(map(_BERT.match, checkpoint.shapes)):
        from albert_tf.weights.tf1.bert import with_release_names

        return with_release_names(checkpoint)
    return checkpoint


def read_checkpoint(prefix: str) -> StoredModel:
    """A checkpoint of the release, with the albert_config.json and the vocabulary next to it."""
    with clear_errors(prefix):
        reader = tf.compat.v1.train.NewCheckpointReader(prefix)
    shapes, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    _check_sizes(prefix, shapes, types)
    keys = {_MODULE.sub("", key): key for key in shapes}

    def read(name: str) -> tf.Tensor:
        key = keys[name]
        with clear_errors(prefix):  # not with the reader, which makes a copy
            value, = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=[key], shape_and_slices=[""], dtypes=[types[key]])
            return tf.cast(value, tf.float32)

    directory = os.path.dirname(prefix)
    return StoredModel(prefix, {name: shapes[key] for name, key in keys.items()}, read,
                  lambda: AlbertConfig.from_json_file(os.path.join(directory, CONFIG_NAME)), vocabulary_in(directory),
                  settings_in(directory))


def our_model(checkpoint: StoredModel) -> StoredModel:
    """The model in a checkpoint of a run of this package, with adapters merged, and without what is only for training.

    Its keys are the paths of Keras objects. With the release's names, a checkpoint of one kind of model can be loaded
    into any other that shares some of its variables.
    """
    keys = {name: key for key, name, slot in stored_variables(checkpoint.shapes)
            if not slot and not name.startswith(AUXILIARY)}
    return merged(checkpoint.renamed(keys, read_step=lambda: saved_step(checkpoint.path)))


def checkpoint_prefix(path: str) -> str:
    """The prefix of the checkpoint at a path: the path itself, or the best, the latest or the only one in a directory.

    In a directory of several runs (--num_runs) it is that of the best run.

    The path of one of a checkpoint's files (model.ckpt-best.index) stands for the checkpoint.
    """
    path = _ENDINGS.sub("", path)
    if tf.io.gfile.exists(f"{path}.index"):
        return path
    indexes = tf.io.gfile.glob(os.path.join(path, "*.index")) if tf.io.gfile.isdir(path) else []
    prefixes = [index[: -len(".index")] for index in sorted(indexes)]
    if len(prefixes) != 1:
        from albert_tf.training.evaluation import checkpoint_of

        chosen = best_or_latest(path) or checkpoint_of(path)
        prefixes = [chosen] if chosen else prefixes
    if not prefixes:
        from albert_tf.weights.stored_model import shipped_models

        where = "" if tf.io.gfile.exists(path) else ", which does not exist"
        raise ValueError(f"no checkpoint at {path}{where}: expected a directory with model.ckpt-*, the path of a "
                         "checkpoint, a Hugging Face folder, a TF-Hub module, a .tar.gz of one of them, "
                         "hf://org/name on the Hugging Face Hub, "
                         f"or the name of a model that comes with the package ({', '.join(shipped_models())}). "
                         "docs/weights.md says where to download weights")
    if len(prefixes) > 1:
        raise ValueError(f"several checkpoints in {path}, choose one: {', '.join(map(os.path.basename, prefixes))}")
    return prefixes[0]


def save_tf1_checkpoint(
    model: keras.Model, prefix: str, global_step: int | None = None, left_out: Collection[str] = (),
    name_of: Callable[[str], str] = str,
) -> None:
    """Writes a model as a checkpoint of the release: the variables with their names, without optimizer slots.

    Args:
      prefix: path of the checkpoint without ".index".
      name_of: function from a release name to the name that is written.
    """
    values = {release_name(variable): variable for variable in model.weights}
    values = {name_of(name): variable.read_value() for name, variable in values.items() if name not in left_out}
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
def clear_errors(prefix: str):
    """Turns TensorFlow's errors of reading a checkpoint into a ValueError."""
    try:
        yield
    except (tf.errors.OpError, ValueError, RuntimeError, LookupError) as error:
        raise ValueError(f"{prefix} cannot be read as a checkpoint: {str(error).splitlines()[0]}") from error

"""The release's checkpoints, read and written by their variables' names."""

from __future__ import annotations

import contextlib
import math
import os
import re
from typing import Callable, Collection

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import CONFIG_NAME, AlbertConfig
from albert_tf.interchange.label_names import label_names_in
from albert_tf.interchange.restoring import release_name
from albert_tf.interchange.sentence_transformers import pooling_in
from albert_tf.interchange.source import Source
from albert_tf.interchange.vocabulary_files import vocabulary_in

# What stands in front of the encoder's names where it was a TF-Hub module, in the checkpoints of fine-tuning.
_MODULE = re.compile(r"^module(_\d+)?/")

# What a checkpoint holds besides numbers: the object graph of tf.train.Checkpoint.
_STRING_BYTES = 64 << 20


def tf1_source(prefix: str) -> Source:
    """A release checkpoint, with the albert_config.json and the vocabulary beside it.

    Args:
      prefix: path without ".index".

    Raises:
      ValueError: it cannot be read; also later, from `read`.
    """
    with clear_errors(prefix):
        reader = tf.compat.v1.train.NewCheckpointReader(prefix)
    shapes, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    _check_sizes(prefix, shapes, types)
    keys = {_MODULE.sub("", key): key for key in shapes}

    def read(name: str) -> tf.Tensor:
        key = keys[name]
        with clear_errors(prefix):  # not by the reader: what it gives is a copy
            value, = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=[key], shape_and_slices=[""], dtypes=[types[key]])
            return tf.cast(value, tf.float32)

    directory = os.path.dirname(prefix)
    return Source(prefix, {name: shapes[key] for name, key in keys.items()}, read,
                  lambda: AlbertConfig.from_json_file(os.path.join(directory, CONFIG_NAME)), vocabulary_in(directory),
                  label_names_in(directory), pooling_in(directory))


def promised_bytes(prefix: str) -> int:
    """How large a checkpoint's data can be, by its index alone: strings, which have no size there, can be 64 MB.

    Raises:
      ValueError: the index cannot be read.
    """
    with clear_errors(prefix):
        reader = tf.compat.v1.train.NewCheckpointReader(prefix)
    types = reader.get_variable_to_dtype_map()
    sizes = [math.prod(shape) * types[key].size
             for key, shape in reader.get_variable_to_shape_map().items() if types[key] != tf.string]
    return sum(sizes) + _STRING_BYTES


def save_tf1_checkpoint(
    model: keras.Model, prefix: str, global_step: int | None = None, left_out: Collection[str] = (),
    name_of: Callable[[str], str] = str,
) -> None:
    """Writes a model as the release would: a checkpoint of its variables' names, without slots.

    Args:
      model: any model of albert_tf.modeling.
      prefix: path without ".index".
      global_step: written too where it is given.
      left_out: release names of variables that are not written.
      name_of: from a release name to the name that is written.
    """
    values = {release_name(variable): variable for variable in model.weights}
    values = {name_of(name): variable.read_value() for name, variable in values.items() if name not in left_out}
    if global_step is not None:
        values["global_step"] = tf.constant(global_step, tf.int64)
    if os.path.dirname(prefix):
        tf.io.gfile.makedirs(os.path.dirname(prefix))
    if tf.io.gfile.exists(f"{prefix}.index"):
        tf.io.gfile.remove(f"{prefix}.index")  # written last: old index and new data would look whole
    names = sorted(values)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=[values[name] for name in names])


def _check_sizes(prefix: str, shapes: dict[str, list[int]], types: dict[str, tf.DType]) -> None:
    """Raises ValueError where the index describes more values than the data files hold: no shape is to be believed."""
    directory, name = os.path.split(prefix)
    files = [file for file in tf.io.gfile.listdir(directory or ".") if file.startswith(f"{name}.data-")]
    stored = sum(tf.io.gfile.stat(os.path.join(directory, file)).length for file in files)
    described = sum(math.prod(shape) * types[key].size for key, shape in shapes.items() if types[key] != tf.string)
    if described > stored:
        raise ValueError(f"{prefix} cannot be read as a checkpoint: its index describes {described:,} bytes of values, "
                         f"and its data files have {stored:,}")


@contextlib.contextmanager
def clear_errors(prefix: str):
    """Whatever TensorFlow raises where a checkpoint cannot be read becomes a ValueError."""
    try:
        yield
    except (tf.errors.OpError, ValueError, RuntimeError, LookupError) as error:
        raise ValueError(f"{prefix} cannot be read as a checkpoint: {str(error).splitlines()[0]}") from error

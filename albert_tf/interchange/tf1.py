"""The release's checkpoints, read and written by their variables' names."""

from __future__ import annotations

import contextlib
import os

import numpy as np
import tensorflow as tf

from albert_tf.config import CONFIG_NAME
from albert_tf.interchange.restoring import release_name
from albert_tf.interchange.source import Source


def tf1_source(prefix: str) -> Source:
    """A release checkpoint, with the albert_config.json beside it.

    Args:
      prefix: path without ".index".

    Raises:
      ValueError: it cannot be read; also later, from `read`.
    """
    with _clear_errors(prefix):
        reader = tf.train.load_checkpoint(prefix)

    def read(name: str) -> np.ndarray:
        with _clear_errors(prefix):
            return reader.get_tensor(name)

    return Source(prefix, os.path.join(os.path.dirname(prefix), CONFIG_NAME), reader.get_variable_to_shape_map(), read)


def save_tf1_checkpoint(model: tf.keras.Model, prefix: str, global_step: int | None = None) -> None:
    """Writes a model as the release would: a checkpoint of its variables' names, without slots.

    Args:
      model: any model of albert_tf.modeling.
      prefix: path without ".index".
      global_step: written too where it is given.
    """
    values = {release_name(variable): variable.read_value() for variable in model.weights}
    if global_step is not None:
        values["global_step"] = tf.constant(global_step, tf.int64)
    if os.path.dirname(prefix):
        tf.io.gfile.makedirs(os.path.dirname(prefix))
    if tf.io.gfile.exists(f"{prefix}.index"):
        tf.io.gfile.remove(f"{prefix}.index")  # written last: old index and new data would look whole
    names = sorted(values)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=[values[name] for name in names])


@contextlib.contextmanager
def _clear_errors(prefix: str):
    try:
        yield
    except (tf.errors.OpError, ValueError, RuntimeError, LookupError) as error:
        raise ValueError(f"{prefix} cannot be read as a checkpoint: {str(error).splitlines()[0]}") from error

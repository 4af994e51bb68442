"""The release's checkpoints, read and written by their variables' names."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.interchange.restoring import RestoreReport, release_name, restore


def load_tf1_checkpoint(model: tf.keras.Model, prefix: str, init_from_group0: bool = False) -> RestoreReport:
    """Puts the values of a release checkpoint into a model. Optimizer slots and global_step are left aside.

    Args:
      model: any model of albert_tf.modeling.
      prefix: path without ".index".
      init_from_group0: whether every group starts from group 0 of the checkpoint.

    Raises:
      ValueError: it cannot be read, a shape differs, or nothing fits.
    """
    reader = open_checkpoint(prefix)
    return restore(model, reader.get_variable_to_shape_map(), reader.get_tensor, prefix, init_from_group0)


def save_tf1_checkpoint(model: tf.keras.Model, prefix: str, global_step: int | None = None) -> None:
    """Writes a model as the release would: a checkpoint of its variables' names, without slots.

    Args:
      model: any model of albert_tf.modeling.
      prefix: path without ".index".
      global_step: written too where it is given.
    """
    values = {release_name(variable): variable for variable in model.weights}
    if global_step is not None:
        values["global_step"] = tf.constant(global_step, tf.int64)
    names = sorted(values)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=[tf.convert_to_tensor(values[name]) for name in names])


def open_checkpoint(prefix: str):
    """A reader of a checkpoint of either kind.

    Raises:
      ValueError: there is none, or it is not whole.
    """
    if not tf.io.gfile.exists(prefix + ".index"):
        raise ValueError(f"no such checkpoint: {prefix}")
    try:
        return tf.train.load_checkpoint(prefix)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise ValueError(f"{prefix} cannot be read as a checkpoint: {str(error).splitlines()[0]}") from error

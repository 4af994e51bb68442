"""BatchedModel: computes some outputs of a served model for a few rows at a time."""

from __future__ import annotations

from typing import Mapping

import tensorflow as tf

from albert_tf import keras


class BatchedModel(tf.Module):
    """A model for export_model whose memory does not grow with the number of rows.

    Args:
      model: a model that is called with a dict of inputs [rows, seq].
      outputs: names and data types of the outputs to return, [rows, ...] each.
      batch_size: the largest number of rows of a batch.
    """

    def __init__(self, model: keras.Model, outputs: Mapping[str, tf.DType], batch_size: int):
        super().__init__()
        self._model, self._outputs, self._batch_size = model, outputs, batch_size

    def __call__(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The model's outputs for all rows, computed batch by batch."""
        num_rows = tf.shape(next(iter(inputs.values())))[0]
        # Batches have nearly equal sizes, so that the padding has fewer rows than there are batches.
        num_batches = tf.maximum(-(-num_rows // self._batch_size), 1)
        size = -(-num_rows // num_batches)

        def in_batches(values: tf.Tensor) -> tf.Tensor:
            filled = tf.pad(values, [[0, num_batches * size - num_rows], [0, 0]])
            return tf.reshape(filled, [num_batches, size, tf.shape(values)[1]])

        def in_rows(values: tf.Tensor) -> tf.Tensor:
            shape = tf.concat([[num_batches * size], tf.shape(values)[2:]], axis=0)
            return tf.ensure_shape(tf.reshape(values, shape)[:num_rows], [None, *values.shape[2:]])

        outputs = tf.map_fn(self._of_batch, {name: in_batches(values) for name, values in inputs.items()},
                            fn_output_signature=dict(self._outputs), parallel_iterations=1)
        return {name: in_rows(values) for name, values in outputs.items()}

    def _of_batch(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        outputs = self._model(inputs)
        return {name: outputs[name] for name in self._outputs}

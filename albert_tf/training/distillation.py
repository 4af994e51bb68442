"""Distillation: a model, the student, learns from the outputs of a trained one, the teacher (Hinton et al., 2015).

The teacher reads the training examples once, before training. Its outputs are further columns of the features::

    outputs = teacher_outputs(teacher, objective.TEACHER_OUTPUTS, teacher_table, ...)
    table = with_teacher_outputs(table, outputs, objective.TEACHER_OUTPUTS)
    objective = DistilledObjective(objective, temperature=2.0, alpha=0.5)

The outputs are cached in an .npy file each. Its name has a hash of the weights, examples and precision of its manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Collection, Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.data.batching import bucket_lengths, table_to_evaluate
from albert_tf.data.feature_table import FeatureTable, digest
from albert_tf.training.objective import Batch, Objective, Tensors
from albert_tf.training.prediction import Predictor
from albert_tf.training.strategy import is_chief, values_of_all
from albert_tf.utils.manifests import made_from_of, output_set
from albert_tf.utils.outputs import locked, read_array, write_array
from albert_tf.utils.progress import count_of

# What the names of the teacher's outputs begin with in a batch.
PREFIX = "teacher_"


class DistilledObjective(Objective):
    """An objective with the loss (1 - alpha) * objective's loss + alpha * its teacher_loss at a temperature.

    Batches have the teacher's outputs. With alpha 0 it is the objective itself.
    """

    def __init__(self, objective: Objective, temperature: float = 1.0, alpha: float = 0.5):
        super().__init__(objective.model)
        self._objective, self._temperature, self._alpha = objective, temperature, alpha
        self.compared_output, self.compares_batch = objective.compared_output, objective.compares_batch

    def loss_denominators(self, batch: Batch) -> Tensors:
        """The objective's denominators."""
        return self._objective.loss_denominators(batch)

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the weighted sum. Among its terms is distillation_loss, without its weight."""
        if not self._alpha:
            return self._objective.loss(outputs, batch, denominators)
        teacher = {name: batch[PREFIX + name] for name in self._objective.TEACHER_OUTPUTS}
        distance = self._objective.teacher_loss(outputs, teacher, batch, denominators, self._temperature)
        if self._alpha == 1:
            return distance, dict(distillation_loss=distance)
        loss, parts = self._objective.loss(outputs, batch, denominators)
        return (1 - self._alpha) * loss + self._alpha * distance, dict(parts, distillation_loss=distance)

    def predictions(self, outputs: Tensors, batch: Batch) -> Tensors:
        """The objective's predictions."""
        return self._objective.predictions(outputs, batch)


def divergence(teacher_logits: tf.Tensor, logits: tf.Tensor, temperature: float) -> tf.Tensor:
    """temperature^2 * KL(teacher || student) of the softened distributions: [..., classes] to float32 [...].

    The factor keeps the size of the gradients at any temperature (Hinton et al., 2015, section 2). A teacher's logit of
    -1e30 stands for probability 0.
    """
    teacher_log_probs = tf.nn.log_softmax(teacher_logits / temperature)
    differences = teacher_log_probs - tf.nn.log_softmax(logits / temperature)
    return temperature**2 * tf.reduce_sum(tf.exp(teacher_log_probs) * differences, axis=-1)


def binary_divergence(teacher_logits: tf.Tensor, logits: tf.Tensor, temperature: float) -> tf.Tensor:
    """`divergence` of distributions with the probabilities sigmoid(logit) and 1 - sigmoid(logit): float32 [...]."""
    teacher, student = (tf.stack([each, tf.zeros_like(each)], axis=-1) for each in (teacher_logits, logits))
    return divergence(teacher, student, temperature)


# Increase this number when a change of the code makes other outputs from the same model and table.
_VERSION = 1


def with_teacher_outputs(
    table: FeatureTable, outputs: Mapping[str, np.ndarray], paddings: Mapping[str, float | None]
) -> FeatureTable:
    """A table of features with the teacher's outputs, for DistilledObjective."""
    for name, padding in paddings.items():
        expected = len(table) if padding is None else int(table.sequences["input_ids"].flat_values.shape[0])
        if len(outputs[name]) != expected:
            raise ValueError(f"the teacher has answered {len(outputs[name]):,} times with {name}, but {expected:,} "
                             "answers are needed: it has read other examples than the training")
    return table.with_columns({PREFIX + name: values for name, values in outputs.items()},
                              {PREFIX + name: padding for name, padding in paddings.items() if padding is not None})


def teacher_outputs(
    teacher: keras.Model, paddings: Mapping[str, float | None], table: FeatureTable, directory: str,
    strategy: tf.distribute.Strategy, batch_size: int, parts: int = 1
) -> dict[str, np.ndarray]:
    """The teacher's outputs for all examples of a table. They are computed if the cache does not have them.

    `paddings` are Objective.TEACHER_OUTPUTS, and `directory` is the folder of the cache. The outputs are float32 by
    name: [examples, ...] or, for outputs with a value per token, [tokens of all examples, ...].
    """
    made_from = _made_from(teacher, table)
    key = digest(json.dumps(made_from, sort_keys=True).encode())[:12]
    paths = {name: os.path.join(directory, f"teacher_{name}_{key}.npy") for name in paddings}
    are_cached = _are_current(paths.values(), made_from)
    if all(values_of_all(strategy, int(are_cached))):  # reading the examples takes all workers
        logging.info("the teacher's answers are read from %s", ", ".join(paths.values()))
        return {name: read_array(path) for name, path in paths.items()}
    logging.info("the teacher reads %s", count_of(len(table), "example"))
    predictor = Predictor(teacher, lambda values, _: {name: tf.cast(values[name], tf.float32) for name in paddings},
                          strategy, parts=parts)
    values, buckets = {}, bucket_lengths(table.schema.max_seq_length)
    for name, each in predictor(table_to_evaluate(table, batch_size, buckets)).items():
        values[name] = np.stack(each) if paddings[name] is None else np.concatenate(
            [value[:length] for value, length in zip(each, table.lengths)])  # without padding
    if is_chief(strategy):
        with locked(os.path.join(directory, f"teacher_{key}"), wait=True), output_set(
                {path: [path] for path in paths.values()}) as written:
            for name, path in paths.items():
                write_array(written.temporary[path], values[name])
            written.made_from = made_from
    return values


def _made_from(teacher: keras.Model, table: FeatureTable) -> dict[str, Any]:
    """Everything that the outputs depend on, as JSON values."""
    weights = hashlib.sha256()
    for variable in teacher.weights:
        weights.update(variable.name.encode() + variable.numpy().tobytes())
    return dict(version=_VERSION, teacher=type(teacher).__name__, weights=weights.hexdigest(),
                config=teacher.config.to_json_string(), arguments=json.loads(json.dumps(teacher.arguments())),
                examples=table.digest(), precision=keras.mixed_precision.global_policy().name)


def _are_current(paths: Collection[str], made_from: dict) -> bool:
    """Whether the files are complete and were made from `made_from`."""
    try:
        return all(made_from_of(path) == made_from for path in paths)
    except ValueError:
        return False

"""Trainer: one Keras train_step under all tasks.

A step splits its batch into micro-batches, adds up their gradients, adds those of all replicas, clips them to a global
norm of 1 and updates once. Losses are divided by what the whole batch holds, so neither the number of micro-batches
nor that of replicas changes them.
"""

from __future__ import annotations

from typing import Callable, cast

import tensorflow as tf

from albert_tf import keras
from albert_tf.tasks.task import EvaluatedTask, Task

CLIP_NORM = 1.0
# A run whose gradients are not finite this often in a row will not recover.
MOST_SKIPPED_IN_A_ROW = 100


class Trainer(keras.Model):
    """Trains and evaluates a task's model by Keras' own loop.

    Args:
      task: the model and its loss; evaluate wants an EvaluatedTask.
      random_seed: dropout comes from it, the step, the micro-batch and the replica.
      gradient_accumulation_steps: micro-batches of a step.
      jit_compile: whether what computes gradients is compiled by XLA.
      loss_scaling: whether losses are scaled against float16's underflow.
      shapes_vary: whether batches come in several lengths: each gets a step of its own, of static shapes.

    Example:
      trainer = Trainer(PretrainingTask(AlbertPretrainer(config)))
      trainer.compile(optimizer=create_optimizer("lamb"))
      trainer.fit(batches)
    """

    train_function: Callable | None  # Keras' own

    def __init__(self, task: Task, random_seed: int = 0, gradient_accumulation_steps: int = 1,
                 jit_compile: bool = False, loss_scaling: bool = False, shapes_vary: bool = False):
        # Under mixed_float16 Keras would wrap the optimizer in a loss scale of its own: hence float32.
        super().__init__(dtype="float32")
        self.task = task
        self.model = task.model
        self._seed = random_seed
        self.gradient_accumulation_steps = gradient_accumulation_steps
        # AutoGraph would read sources again, edited ones too, at each new shape.
        self._gradients = tf.function(self._gradients_of_micro_batch, autograph=False, jit_compile=jit_compile or None)
        self._shapes_vary = shapes_vary
        self.loss_scale = LossScale() if loss_scaling else None
        self.distribute_reduction_method = "first"  # train_step's results are of the whole batch on each replica
        self.skipped_in_a_row = _counter("skipped_in_a_row")
        self.skipped_steps = _counter("skipped_steps")

    def compile(self, optimizer, **arguments):
        """Keras' own; the optimizer's slots are made at once."""
        super().compile(optimizer=optimizer, **arguments)
        # Now, and not within the first step: a checkpoint is restored before it.
        optimizer.build(self.model.trainable_variables)

    def make_train_function(self, force=False):
        """Keras' own; where shapes vary, one that fetches the batch first: within a step its shape would be unknown."""
        if not self._shapes_vary:
            return super().make_train_function(force)
        if self.train_function is None or force:
            step = tf.function(self._step_on_replicas, autograph=False)
            self.train_function = lambda iterator: step(next(iterator))
        return self.train_function

    @property
    def metrics(self):
        """The task's metrics."""
        return self.task.metrics

    def evaluate(self, batches, steps: int, **arguments):
        """Keras' own, on exactly so many batches.

        Raises:
          ValueError: the data ended before.
        """
        counter = _BatchCounter()
        results = super().evaluate(batches, steps=steps, callbacks=[counter], **arguments)
        if counter.count < steps:  # Keras takes whatever raises an OutOfRangeError for the end of the data
            raise ValueError(f"evaluation ended after {counter.count} of {steps} batches: the data changed meanwhile")
        return results

    def train_step(self, batch):
        """Updates the weights once from a batch; gives the losses by name."""
        replica = tf.distribute.get_replica_context()
        normalizers = self.task.normalizers(batch)
        # The model's own parameters, by position: LAMB's slots are made in this order.
        variables = self.model.trainable_variables
        normalizers = replica.all_reduce(tf.distribute.ReduceOp.SUM, normalizers)
        gradients, losses = self._accumulated(batch, normalizers, _replica_id(replica))
        gradients, losses = replica.all_reduce(tf.distribute.ReduceOp.SUM, (gradients, losses))
        norm = tf.linalg.global_norm(gradients)
        learning_rate = self._learning_rate()  # of this step: the update below adds 1 to the optimizer's step
        skipped_steps = self._update(gradients, norm, variables)
        return dict(losses, learning_rate=learning_rate, gradient_norm=norm, skipped_steps=skipped_steps)

    def _step_on_replicas(self, batch):
        strategy = self.distribute_strategy
        logs = strategy.run(self.train_step, (batch,))
        self._train_counter.assign_add(1)
        return {name: strategy.experimental_local_results(value)[0] for name, value in logs.items()}

    def test_step(self, batch):
        """Adds a batch to the task's metrics."""
        cast(EvaluatedTask, self.task).update_metrics(batch, self.model(batch, training=False))
        return {}

    def _accumulated(self, batch, normalizers, replica_id):
        """Gradients and losses, summed over the micro-batches."""
        count, step = self.gradient_accumulation_steps, self.optimizer.iterations
        if count == 1:
            return self._gradients(batch, normalizers, _dropout_seed(self._seed, step, replica_id))
        parts = {name: _split(name, tensor, count) for name, tensor in batch.items()}

        def of_part(i):
            seed = _dropout_seed(self._seed, step, replica_id * count + i)
            return self._gradients({name: part[i] for name, part in parts.items()}, normalizers, seed)

        def add(i, gradients, losses):
            more_gradients, more_losses = of_part(i)
            return (i + 1, [a + b for a, b in zip(gradients, more_gradients)],
                    {name: losses[name] + more_losses[name] for name in losses})

        _, gradients, losses = tf.while_loop(lambda i, *_: i < count, add, (1, *of_part(0)), parallel_iterations=1)
        return gradients, losses

    def _gradients_of_micro_batch(self, batch, normalizers, seed):
        with tf.GradientTape() as tape:
            outputs = self.model(dict(batch, dropout_seed=seed), training=True)
            total, losses = self.task.loss(outputs, batch, normalizers)
            scaled = total if self.loss_scale is None else total * self.loss_scale.value
        variables = self.model.trainable_variables
        gradients = tape.gradient(scaled, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]  # the word table's are sparse in part
        if self.loss_scale is not None:
            gradients = [gradient / self.loss_scale.value for gradient in gradients]
        return gradients, dict(losses, loss=total)

    def _update(self, gradients, norm, variables):
        """One update, or none where the gradients are not finite. Returns how many were left out so far."""
        finite = tf.math.is_finite(norm)
        clipped, _ = tf.clip_by_global_norm(gradients, CLIP_NORM, use_norm=norm)
        self.optimizer.apply(clipped, variables, skip=~finite)
        skipped = tf.cast(~finite, tf.int64)
        self.skipped_steps.assign_add(skipped)
        self.skipped_in_a_row.assign((self.skipped_in_a_row + 1) * skipped)
        if self.loss_scale is not None:
            self.loss_scale.update(finite)
        return self.skipped_steps.read_value()

    def _learning_rate(self):
        return self.optimizer.learning_rate(self.optimizer.iterations)


class _BatchCounter(keras.callbacks.Callback):
    """Counts the batches of an evaluation."""

    count = 0

    def on_test_batch_end(self, batch, logs=None):
        self.count = batch + 1


class LossScale(tf.Module):
    """The factor that keeps float16 gradients from vanishing.

    Halved as they overflow, doubled after 2,000 good steps.
    """

    _GOOD_STEPS = 2000

    def __init__(self, initial: float = 2.0**15):
        super().__init__()
        self.value = _state("loss_scale", initial, tf.float32)
        self.good_steps = _counter("good_steps")

    def update(self, finite: tf.Tensor) -> None:
        """Takes in whether the gradients of a step were finite."""
        good = (self.good_steps + 1) * tf.cast(finite, tf.int64)
        grows = good >= self._GOOD_STEPS
        factor = tf.where(finite, tf.where(grows, 2.0, 1.0), 0.5)
        self.value.assign(tf.maximum(self.value * factor, 1.0))
        self.good_steps.assign(tf.where(grows, tf.zeros_like(good), good))


def _counter(name: str) -> tf.Variable:
    return _state(name, 0, tf.int64)


def _state(name: str, initial, dtype: tf.DType) -> tf.Variable:
    """A variable to which all replicas assign the same."""
    return tf.Variable(initial, trainable=False, dtype=dtype, name=name,
                       aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)


def _dropout_seed(random_seed: int, step: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
    """int32 [2], a function of the step and of the part of its batch.

    Dropouts adds small numbers to the seed, and folding in alone would leave it a small number: hence the last split.
    """
    seed = tf.random.experimental.stateless_fold_in([random_seed, 0], tf.cast(step, tf.int32))
    seed = tf.random.experimental.stateless_fold_in(seed, part)
    return tf.random.experimental.stateless_split(seed, 1)[0]


def _replica_id(replica) -> tf.Tensor:
    return tf.convert_to_tensor(replica.replica_id_in_sync_group)


def _split(name: str, tensor: tf.Tensor, parts: int) -> tf.Tensor:
    """[batch, ...] -> [parts, batch / parts, ...]"""
    size = tensor.shape[0]
    if size is None or size % parts:
        raise ValueError("gradient_accumulation_steps must divide the batch of a replica. "
                         f"Received: {parts} for {name} of {size} rows")
    return tf.reshape(tensor, [parts, size // parts, *tensor.shape[1:]])

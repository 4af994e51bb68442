"""Trainer: one training step for all objectives, and the loop over the batches.

A step splits its batch into micro-batches, sums their gradients, sums these over all replicas, clips the result to a
global norm of 1 and updates the weights once. Losses are divided by the counts of the whole batch, so they do not
depend on the number of micro-batches or replicas.

On a CPU a micro-batch is split again, into parts that are computed at the same time. TensorFlow would divide each
operation among the cores instead, for which operations of small models are too short (docs/results/speed.md). If a loss
compares the rows of a micro-batch, it gets the rows of all replicas, and there are no parts.
"""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf import devices, keras
from albert_tf.training.config import MOST_PARTS, Devices
from albert_tf.training.objective import Batch, Objective, Tensors
from albert_tf.training.optimizer import ReleaseOptimizer
from albert_tf.training.strategy import resolve_strategy


def parts_of_cpu() -> int:
    """The number of parts for the cores that this process may use; 1 if there is a GPU."""
    return min(_cores(), MOST_PARTS) if devices.is_cpu_alone() else 1


def parts_of(config: Devices) -> int:
    """The largest number of parts of a batch that a CPU computes at the same time."""
    if config.cpu_parts:
        return config.cpu_parts
    is_whole = config.jit_compile or config.runtime == "jax" or resolve_strategy(config.strategy) != "one_device"
    return 1 if is_whole else parts_of_cpu()


def divide_threads(parts: int) -> None:
    """Divides the cores among parts: operations get as many threads as there are cores for a part."""
    with contextlib.suppress(RuntimeError):  # TensorFlow has made its threads, for instance in a notebook
        tf.config.threading.set_intra_op_parallelism_threads(-(-_cores() // parts))


def equal_parts(batch: Mapping[str, tf.Tensor], most: int) -> list[dict[str, tf.Tensor]]:
    """Splits tensors [rows, ...] into as many equal parts as possible; one if the number of rows is not static."""
    rows = next(iter(batch.values())).shape[0]
    count = number_of_parts(rows, most) if rows else 1
    if count == 1:
        return [dict(batch)]
    split = {name: tf.split(tensor, count) for name, tensor in batch.items()}
    return [{name: tensors[part] for name, tensors in split.items()} for part in range(count)]


def number_of_parts(rows: int, most: int) -> int:
    """The largest divisor of a number of rows that is not larger than `most`."""
    return max(count for count in range(1, most + 1) if rows % count == 0)


def in_parts(
    function: Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]], batch: Mapping[str, tf.Tensor], most: int
) -> dict[str, tf.Tensor]:
    """The outputs, [rows, ...], of a tf.function of a batch that is applied to each of its parts."""
    outputs = [function(part) for part in equal_parts(batch, most)]
    if len(outputs) == 1:
        return outputs[0]
    return {name: tf.concat([output[name] for output in outputs], axis=0) for name in outputs[0]}


def _cores() -> int:
    """The number of cores of this process, or of TF_NUM_INTRAOP_THREADS, with which users limit TensorFlow."""
    limit = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    if limit.isdecimal() and int(limit):
        return int(limit)
    return devices.available_cores()


def on_batches(
    function: Callable[[Any], Any], strategy: tf.distribute.Strategy, jit_compile: bool
) -> Callable[[Iterator], Any]:
    """Compiles a function of a batch into a function of an iterator, which takes the iterator's next batch.

    One graph serves all lengths, which takes a third of the time of separate graphs. TPU and XLA (jit_compile) need
    static shapes, so there each length has a separate graph.
    """
    if devices.is_jax(strategy):
        return strategy.on_batches(function)
    # AutoGraph would read source files again for each graph, and so fail or differ if they were edited meanwhile.
    if jit_compile or devices.is_tpu(strategy):
        function_of_batch = tf.function(function, autograph=False)
        function_of_batch._omit_frequent_tracing_warning = True  # packed rows have up to 32 shapes
        return lambda iterator: function_of_batch(next(iterator))
    return tf.function(lambda iterator: function(next(iterator)), autograph=False)


CLIP_NORM = 1.0
MOST_SKIPPED_IN_A_ROW = 100  # after so many steps with gradients that are not finite, a run does not recover
GradientsAndLosses = tuple[list[tf.Tensor], Tensors]
# In a micro-batch, if the loss compares all rows of the batch: its gradient with respect to what it compares.
_OUTPUT_GRADIENT = "output_gradient"


class Callback:
    """What a loop of training calls. Its attribute `trainer` is set before the first call."""

    trainer: Trainer

    def on_begin(self) -> None:
        """Called before the first step."""

    def on_step(self, step: int, logs: Tensors) -> None:
        """Called with the number of steps that the run has taken, and with what the last one returned."""

    def on_end(self) -> None:
        """Called after the last step."""


class Trainer:
    """Trains an objective's model.

    The loop is not Keras' fit, which differs from Keras to Keras, and takes errors for the end of the data.

    Args:
      random_seed: seed of dropout. Its masks also depend on step, micro-batch and replica.
      gradient_accumulation_steps: number of micro-batches of a step.
      jit_compile: whether to compile the computation of gradients with XLA.
      loss_scaling: whether to scale losses, so that small float16 gradients do not become 0.
      rows_vary: whether batches have several numbers of rows: then each shape has a separate graph.
      parts: the largest number of parts of a micro-batch that are computed at the same time.
      steps_per_execution: the number of steps between two returns to the host, for batches of one shape.

    Example::

      trainer = Trainer(PretrainingObjective(AlbertPretrainer(config)), create_optimizer("lamb"))
      trainer.fit(batches)
    """

    def __init__(self, objective: Objective, optimizer: ReleaseOptimizer, random_seed: int = 0,
                 gradient_accumulation_steps: int = 1, jit_compile: bool = False, loss_scaling: bool = False,
                 parts: int = 1, rows_vary: bool = False, steps_per_execution: int = 1):
        self.objective, self.optimizer = objective, optimizer
        self.model = objective.model
        self.strategy = tf.distribute.get_strategy()
        self._seed = random_seed
        self.gradient_accumulation_steps = gradient_accumulation_steps
        if objective.compared_output:
            parts = 1
        # AutoGraph would read source files again at each new shape, and so fail or differ if they were edited
        # meanwhile.
        self._gradients = tf.function(
            self._gradients_of_part, autograph=False, jit_compile=jit_compile or None,
            # TensorFlow optimizes one graph for all parts. This takes 1.4 of 9 seconds off the first step.
            experimental_attributes={"_noinline": True} if parts > 1 else None)
        self._compared = tf.function(self._compared_output, autograph=False, jit_compile=jit_compile or None)
        self._parts, self._steps_per_execution = parts, steps_per_execution
        self.loss_scale = LossScale() if loss_scaling else None
        self.skipped_in_a_row = _state("skipped_in_a_row")
        self.skipped_steps = _state("skipped_steps")
        # Slots are made here and not in the first step, since a checkpoint is restored before that.
        optimizer.build(self._variables())
        self.step: Any = on_batches(self._step_on_replicas, self.strategy, jit_compile or rows_vary)

    def fit(self, batches: Iterable, steps: int | None = None, callbacks: Sequence[Callback] = (),
            first_step: int = 0) -> None:
        """Takes so many steps, or one for each batch. It ends early if the data does.

        `first_step` is the number of steps that the run has taken before.
        """
        for callback in callbacks:
            callback.trainer = self
            callback.on_begin()
        with self.strategy.scope():
            iterator, done = iter(batches), 0
            while steps is None or done < steps:
                count = self._steps_per_execution if steps is None else min(self._steps_per_execution, steps - done)
                try:
                    logs = self.step(iterator) if count == 1 else self._several_steps(iterator, tf.constant(count))
                except (StopIteration, tf.errors.OutOfRangeError):
                    break
                done += count
                for callback in callbacks:
                    callback.on_step(first_step + done, logs)
        for callback in callbacks:
            callback.on_end()

    @functools.partial(tf.function, autograph=False)
    def _several_steps(self, iterator: Iterator, count: tf.Tensor) -> Tensors:
        first = self._step_on_replicas(next(iterator))
        return tf.while_loop(lambda i, _: i < count, lambda i, _: (i + 1, self._step_on_replicas(next(iterator))),
                             (1, first))[1]

    def snapshot(self) -> Callable[[], None]:
        """A function that copies the present variables from jax to TensorFlow; steps can run meanwhile."""
        return self.step.snapshot() if devices.is_jax(self.strategy) else lambda: None

    def value_of(self, variable: tf.Variable) -> tf.Variable | np.ndarray:
        """The current value of a variable that steps change."""
        return self.step.value_of(variable) if devices.is_jax(self.strategy) else variable

    def train_step(self, batch: Batch) -> Tensors:
        """Updates the weights once. Returns the losses, learning rate, gradient norm and number of skipped steps."""
        replica = tf.distribute.get_replica_context()
        denominators = self.objective.loss_denominators(batch)
        denominators = _summed(replica, denominators)
        gradients, losses = self._accumulated(batch, denominators, tf.convert_to_tensor(
            replica.replica_id_in_sync_group))
        gradients, losses = _summed(replica, (gradients, losses))
        norm = tf.linalg.global_norm(gradients)
        learning_rate = self.optimizer.learning_rate  # before the update increments the step
        skipped_steps = self._update(gradients, norm)
        return dict(losses, learning_rate=learning_rate, gradient_norm=norm, skipped_steps=skipped_steps)

    def _step_on_replicas(self, batch: Batch) -> Tensors:
        logs = self.strategy.run(self.train_step, (batch,))
        # Each replica returns the results of the whole batch.
        return {name: self.strategy.experimental_local_results(value)[0] for name, value in logs.items()}

    def _variables(self) -> list[tf.Variable]:
        """The variables that are trained."""
        return [keras.tf_variable(variable) for variable in self.model.trainable_variables]

    def _accumulated(self, batch: Batch, denominators: Tensors, replica_id: tf.Tensor) -> GradientsAndLosses:
        """The gradients and losses, summed over the micro-batches."""
        count, step = self.gradient_accumulation_steps, self.optimizer.iterations
        if self.objective.compares_batch and count > 1 and _OUTPUT_GRADIENT not in batch:
            gradient, losses = self._output_gradient(batch, denominators, replica_id)
            return self._accumulated(dict(batch, **{_OUTPUT_GRADIENT: gradient}), denominators, replica_id)[0], losses
        if count == 1:
            return self._sums_over_parts(batch, denominators, _dropout_seed(self._seed, step, replica_id))
        micro_batches = {name: _split(name, tensor, count) for name, tensor in batch.items()}

        def add(i: tf.Tensor | int, sums: GradientsAndLosses | None = None) -> GradientsAndLosses:
            micro_batch = {name: tensor[:, i] for name, tensor in micro_batches.items()}
            terms = self._sums_over_parts(micro_batch, denominators,
                                          _dropout_seed(self._seed, step, replica_id * count + i))
            return terms if sums is None else tf.nest.map_structure(tf.add, sums, terms)

        sums = add(0)
        if self._needs_other_replicas(batch):  # in a loop of TensorFlow, replicas cannot wait for each other
            for i in range(1, count):
                with tf.control_dependencies(tf.nest.flatten(sums)):
                    sums = add(i, sums)
            return sums
        return tf.while_loop(lambda i, _: i < count, lambda i, sums: (i + 1, add(i, sums)), (1, sums),
                             parallel_iterations=1)[1]

    def _needs_other_replicas(self, batch: Batch) -> bool:
        """Whether the loss of a micro-batch compares its rows with rows of other replicas."""
        return (bool(self.objective.compared_output) and _OUTPUT_GRADIENT not in batch
                and tf.distribute.get_strategy().num_replicas_in_sync > 1)

    def _output_gradient(
        self, batch: Batch, denominators: Tensors, replica_id: tf.Tensor
    ) -> tuple[tf.Tensor, Tensors]:
        """The gradient with respect to the output that the loss compares, [rows, ...], and the losses (GradCache).

        The output of the whole batch is computed in micro-batches without the activations that gradients need. Computed
        again with the same dropout, they multiply this gradient by that of their outputs (Gao et al., 2021).
        """
        step, count = self.optimizer.iterations, self.gradient_accumulation_steps
        micro_batches = {key: _split(key, tensor, count) for key, tensor in batch.items()}
        output = tf.map_fn(
            lambda i: self._compared({key: tensor[:, i] for key, tensor in micro_batches.items()},
                                     _dropout_seed(self._seed, step, replica_id * count + i), tf.constant(0)),
            tf.range(count), fn_output_signature=tf.float32, parallel_iterations=1)  # [count, rows / count, ...]
        rows = next(iter(batch.values())).shape[0]  # static, so that the gradient can be split like the batch
        output = tf.reshape(tf.experimental.numpy.swapaxes(output, 0, 1), [rows or -1, *output.shape[2:]])
        with tf.GradientTape() as tape:
            tape.watch(output)
            total, losses = self._compared_loss(output, batch, denominators)
        return tape.gradient(total, output), dict(losses, loss=total)

    def _compared_output(self, batch: Batch, seed: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
        outputs = self.model(dict(batch, dropout_seed=seed, dropout_part=part), training=True)
        return outputs[self.objective.compared_output]

    def _compared_loss(self, output: tf.Tensor, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """This replica's share of the loss of the rows of all replicas, which each of them computes, and its terms."""
        replica = tf.distribute.get_replica_context()
        count = replica.num_replicas_in_sync

        def of_all(rows: tf.Tensor) -> tf.Tensor:
            # One tensor at a time: TensorFlow's gradient takes several only if their shapes are equal.
            size, *others = rows.shape
            whole = replica.all_gather(tf.cast(rows, tf.float32) if rows.dtype.is_floating else rows, axis=0)
            return tf.cast(tf.ensure_shape(whole, [size and size * count, *others]), rows.dtype)

        if count > 1:
            output, batch = tf.nest.map_structure(of_all, (output, dict(batch)))
        losses = self.objective.loss({self.objective.compared_output: output}, batch, denominators)
        return tf.nest.map_structure(lambda loss: loss / count, losses)

    def _sums_over_parts(self, micro_batch: Batch, denominators: Tensors, seed: tf.Tensor) -> GradientsAndLosses:
        """The gradients and losses, summed over the parts of a micro-batch, which are computed at the same time."""
        if self._needs_other_replicas(micro_batch):
            return self._gradients_of_part(micro_batch, denominators, seed, tf.constant(0))
        gradients, losses = zip(*(self._gradients(part, denominators, seed, tf.constant(number))
                                  for number, part in enumerate(equal_parts(micro_batch, self._parts))))
        return ([tf.add_n(terms) for terms in zip(*gradients)],
                {name: tf.add_n([terms[name] for terms in losses]) for name in losses[0]})

    def _gradients_of_part(
        self, batch: Batch, denominators: Tensors, seed: tf.Tensor, part: tf.Tensor
    ) -> GradientsAndLosses:
        with tf.GradientTape() as tape:
            if self._needs_other_replicas(batch):
                total, losses = self._compared_loss(self._compared(batch, seed, part), batch, denominators)
            elif _OUTPUT_GRADIENT in batch:
                output = self._compared_output(batch, seed, part)
                total, losses = tf.reduce_sum(output * batch[_OUTPUT_GRADIENT]), {}
            else:
                outputs = self.model(dict(batch, dropout_seed=seed, dropout_part=part), training=True)
                total, losses = self.objective.loss(outputs, batch, denominators)
            scaled = total if self.loss_scale is None else total * self.loss_scale.value
        gradients = tape.gradient(scaled, self._variables(), unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]  # the word table's gradient is sparse
        if self.loss_scale is not None:
            gradients = [gradient / self.loss_scale.value for gradient in gradients]
        return gradients, dict(losses, loss=total)

    def _update(self, gradients: list[tf.Tensor], norm: tf.Tensor) -> tf.Tensor:
        """Updates the weights, or skips the step if a gradient is not finite. Returns the number of skipped steps."""
        finite = tf.math.is_finite(norm)
        self.optimizer.update(gradients, self._variables(), skip=~finite,
                              scale=CLIP_NORM / tf.maximum(norm, CLIP_NORM))
        skipped = tf.cast(~finite, tf.int64)
        self.skipped_steps.assign_add(skipped)
        self.skipped_in_a_row.assign((self.skipped_in_a_row + 1) * skipped)
        if self.loss_scale is not None:
            self.loss_scale.update(finite)
        return self.skipped_steps.read_value()


class LossScale(tf.Module):
    """The factor that keeps small float16 gradients from becoming 0.

    It is halved when gradients overflow, and doubled after 2,000 consecutive steps with finite gradients.
    """

    def __init__(self, initial: float = 2.0**15):
        super().__init__()
        self.value = _state("loss_scale", initial, tf.float32)
        self.good_steps = _state("good_steps")

    def update(self, finite: tf.Tensor) -> None:
        """Updates the factor after a step, depending on whether the step's gradients were finite."""
        good = (self.good_steps + 1) * tf.cast(finite, tf.int64)
        grows = good >= 2000
        factor = tf.where(finite, tf.where(grows, 2.0, 1.0), 0.5)
        self.value.assign(tf.maximum(self.value * factor, 1.0))
        self.good_steps.assign(tf.where(grows, tf.zeros_like(good), good))


def _summed(replica: tf.distribute.ReplicaContext, values: Any) -> Any:
    """The sums over all replicas. A single replica gets its values back, without an operation for each."""
    return values if replica.num_replicas_in_sync == 1 else replica.all_reduce(tf.distribute.ReduceOp.SUM, values)


def _state(name: str, initial: float = 0, dtype: tf.DType = tf.int64) -> tf.Variable:
    """A variable to which all replicas assign the same value."""
    return tf.Variable(initial, trainable=False, dtype=dtype, name=name,
                       aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)


def _dropout_seed(random_seed: int, step: tf.Tensor, micro_batch: tf.Tensor) -> tf.Tensor:
    """The seed, int32 [2], of dropout in a micro-batch of a step.

    stateless_fold_in alone returns small numbers, and Dropouts adds small numbers to the seed, hence the split. The
    algorithm is named, since TensorFlow's default is another one where XLA compiles the step.
    """
    fold_in = functools.partial(tf.random.experimental.stateless_fold_in, alg="philox")
    seed = fold_in(fold_in([random_seed, 0], tf.cast(step, tf.int32)), micro_batch)
    return tf.random.experimental.stateless_split(seed, 1, alg="philox")[0]


def _split(name: str, tensor: tf.Tensor, count: int) -> tf.Tensor:
    """Micro-batches, [batch / count, count, ...]: number i has every count-th row, the same on any devices."""
    size = tensor.shape[0]
    if size is None or size % count:
        raise ValueError("gradient_accumulation_steps must divide the batch of a replica. "
                         f"Received: {count} for {name} of {size} rows")
    return tf.reshape(tensor, tf.concat([[size // count, count], tf.shape(tensor)[1:]], axis=0))

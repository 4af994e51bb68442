"""The learning rate over the steps, and LAMB and AdamW, by default without bias correction.

All follow the release (optimization.py, lamb_optimizer.py).
"""

from __future__ import annotations

import collections
import functools
import re
from typing import Any, Iterable, Sequence

import tensorflow as tf

from albert_tf import keras
from albert_tf.training.config import OPTIMIZERS
from albert_tf.utils.bounds import check_finite, check_one_of


@keras.utils.register_keras_serializable(package="albert_tf")
class WarmupThenDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then polynomial decay to 0. The decay starts at step 0, not at the end of the warm-up.

    So the rate drops at the end of the warm-up. Before start_warmup_step it is negative. Both are as in the release.
    """

    def __init__(self, learning_rate: float, num_train_steps: int, num_warmup_steps: int, start_warmup_step: int = 0,
                 poly_power: float = 1.0):
        self._arguments = dict(learning_rate=learning_rate, num_train_steps=num_train_steps,
                               num_warmup_steps=num_warmup_steps, start_warmup_step=start_warmup_step,
                               poly_power=poly_power)

    def __call__(self, step: tf.Tensor | tf.Variable | int) -> tf.Tensor:
        """The learning rate at a step, float32."""
        step = tf.cast(step, tf.float32)
        rate, total, warmup, start, power = (tf.constant(float(value)) for value in self._arguments.values())
        decayed = rate * tf.pow(1.0 - tf.minimum(step, total) / total, power)
        if not self._arguments["num_warmup_steps"]:
            return decayed
        since_start = step - start
        return tf.where(since_start < warmup, rate * (since_start / warmup), decayed)

    def get_config(self) -> dict[str, float]:
        """The arguments of the constructor, for Keras."""
        return dict(self._arguments)


def learning_rate_schedule(
    learning_rate: float, num_train_steps: int, num_warmup_steps: int, start_warmup_step: int = 0,
    poly_power: float = 1.0,
) -> WarmupThenDecay:
    """The release's schedule: a function of the step (from 0) that returns the learning rate, float32.

    Args:
      learning_rate: the peak learning rate.
      num_train_steps: the step at which the rate has decayed to 0.
      num_warmup_steps: number of steps of linear warm-up; 0 for no warm-up.
      start_warmup_step: the step at which the warm-up begins.
      poly_power: power of the decay; 1 for linear decay.

    Raises:
      ValueError: num_train_steps is not positive, num_warmup_steps is negative, or learning_rate or poly_power is
        negative or not finite.
    """
    check_finite("learning_rate", learning_rate, 0.0)
    check_finite("poly_power", poly_power, 0.0)
    if num_train_steps < 1:
        raise ValueError(f"num_train_steps must be at least 1. Received: {num_train_steps}")
    if num_warmup_steps < 0:
        raise ValueError(f"num_warmup_steps must be at least 0. Received: {num_warmup_steps}")
    return WarmupThenDecay(learning_rate, num_train_steps, num_warmup_steps, start_warmup_step, poly_power)


SLOTS = ("m", "v")  # the names of the two moments in checkpoints
# Regular expressions that are searched in a variable's name; "bias" also matches output_bias.
NOT_DECAYED = ["LayerNorm", "layer_norm", "bias"]


@keras.utils.register_keras_serializable(package="albert_tf")
class ReleaseOptimizer(keras.optimizers.Optimizer):
    """Adam with decoupled weight decay and LAMB's layer adaptation (You et al., 2020).

        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient ** 2
        update = m / (sqrt(v) + epsilon) + weight_decay * variable
        variable -= learning_rate * norm(variable) / norm(update) * update

    With bias correction, update t (from 1; skipped steps do not count) uses m / (1 - beta_1 ** t) and
    v / (1 - beta_2 ** t) instead of m and v (Kingma and Ba, 2015). Without it, early updates are larger: three times
    after 100 steps.

    The exclude_ arguments are regular expressions. Variables with a name that matches have no weight decay, or a ratio
    of norms of 1: [".*"] makes the optimizer AdamW.
    """

    def __init__(
        self, learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 0.001, beta_1: float = 0.9,
        beta_2: float = 0.999, epsilon: float = 1e-6, weight_decay: float = 0.01,
        exclude_from_weight_decay: Sequence[str] = (), exclude_from_layer_adaptation: Sequence[str] = (),
        bias_correction: bool = False, name: str = "lamb",
    ):
        is_schedule = isinstance(learning_rate, keras.optimizers.schedules.LearningRateSchedule)
        if keras.is_keras_3():
            super().__init__(learning_rate=learning_rate, name=name)
        else:
            super().__init__(name=name)
            # For a schedule, _build_learning_rate would make a variable that earlier checkpoints do not have.
            self._learning_rate = learning_rate if is_schedule else self._build_learning_rate(learning_rate)
        self._schedule: Any = learning_rate if is_schedule else None
        self.beta_1, self.beta_2, self.epsilon, self.weight_decay = beta_1, beta_2, epsilon, weight_decay
        self.exclude_from_weight_decay = tuple(exclude_from_weight_decay)
        self.exclude_from_layer_adaptation = tuple(exclude_from_layer_adaptation)
        self.bias_correction = bias_correction
        # Of each variable's id, the variable and its slots. A plain dict would become a part of checkpoints.
        self._slots: dict[int, tuple[tf.Variable, dict[str, tf.Variable]]] = collections.defaultdict()
        self.skipped: tf.Variable | None = None  # the number of skipped steps, for bias correction

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Creates the slots of these variables, so that a checkpoint that is restored later can fill them."""
        strategy = tf.distribute.get_strategy()
        with tf.init_scope():
            for variable in map(keras.tf_variable, variables):
                if id(variable) not in self._slots:
                    with strategy.extended.colocate_vars_with(variable):
                        self._slots[id(variable)] = variable, {slot: _zeros(variable, slot) for slot in SLOTS}
            if self.bias_correction and self.skipped is None:
                self.skipped = tf.Variable(0, trainable=False, dtype=tf.int64, name="skipped",
                                           aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
        self.built = True

    @property
    def variables(self) -> list[tf.Variable]:
        """The number of steps, and the slots."""
        slots = [slot for _, slots in self._slots.values() for slot in slots.values()]
        return [self.iterations, *slots, *([] if self.skipped is None else [self.skipped])]

    @property
    def learning_rate(self) -> tf.Tensor | tf.Variable:
        """The learning rate of the next update; a variable if there is no schedule."""
        return super().learning_rate if self._schedule is None else self._schedule(keras.tf_variable(self.iterations))

    @learning_rate.setter
    def learning_rate(self, learning_rate: float) -> None:
        keras.optimizers.Optimizer.learning_rate.fset(self, learning_rate)

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, tf.Variable]], skip_gradients_aggregation: bool = False, **_: Any
    ) -> Any:
        """The same as in Keras: updates variables with the sums of the gradients of all replicas."""
        pairs = [(tf.convert_to_tensor(gradient), variable) for gradient, variable in grads_and_vars
                 if gradient is not None]
        gradients, variables = map(list, zip(*pairs))
        replica = tf.distribute.get_replica_context()
        if replica is not None and replica.num_replicas_in_sync > 1 and not skip_gradients_aggregation:
            gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        self.update(gradients, variables)
        return self.iterations

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[tf.Variable]) -> None:
        """The same as in Keras 3."""
        self.apply_gradients(zip(grads, trainable_variables))

    def update(
        self, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable], skip: tf.Tensor | None = None,
        scale: tf.Tensor | float = 1.0
    ) -> None:
        """Updates the variables with gradients that are already summed over the replicas.

        If `skip`, a scalar bool, is true, variables and slots do not change, but `iterations` is incremented; the
        gradients need not be finite. `scale`, a float32 scalar beside `skip`, is the factor that clips all gradients.
        """
        self.build(variables)
        coefficients = self._coefficients()
        if skip is not None:
            # multiply_no_nan: NaN and infinity times 0 are 0.
            kept = tf.where(skip, 0.0, scale)
            gradients = [tf.math.multiply_no_nan(each, tf.cast(kept, each.dtype)) for each in gradients]
            # With these coefficients an update changes nothing: slot * 1 + 0, variable - 0.
            still = dict(rate=0.0, beta_1=1.0, one_minus_beta_1=0.0, beta_2=1.0, one_minus_beta_2=0.0)
            coefficients.update({name: tf.where(skip, value, coefficients[name]) for name, value in still.items()})
            if self.skipped is not None:
                self.skipped.assign_add(tf.cast(skip, tf.int64))
        tf.__internal__.distribute.interim.maybe_merge_call(
            functools.partial(self._update_all, list(map(keras.tf_variable, variables))),
            tf.distribute.get_strategy(), list(gradients), coefficients)
        with tf.control_dependencies(gradients):  # otherwise it would count a step whose batch does not exist
            keras.tf_variable(self.iterations).assign_add(1)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, for Keras."""
        schedule = self._schedule
        rate = float(self.learning_rate) if schedule is None else keras.optimizers.schedules.serialize(schedule)
        return dict(
            name=self.name, learning_rate=rate, beta_1=self.beta_1, beta_2=self.beta_2, epsilon=self.epsilon,
            weight_decay=self.weight_decay, bias_correction=self.bias_correction,
            exclude_from_weight_decay=list(self.exclude_from_weight_decay),
            exclude_from_layer_adaptation=list(self.exclude_from_layer_adaptation))

    def get_slot_names(self) -> list[str]:
        """The names of the slots, for tf.train.Checkpoint."""
        return list(SLOTS)

    def get_slot(self, variable: tf.Variable, slot_name: str) -> tf.Variable:
        """A slot of a variable. Raises KeyError if there is none."""
        return self._slots[id(keras.tf_variable(variable))][1][slot_name]

    def _create_or_restore_slot_variable(self, slot_variable_position: Any, slot_name: str,
                                         variable: tf.Variable) -> None:
        """Reads a slot of a checkpoint, for tf.train.Checkpoint."""
        self.build([variable])
        slot_variable_position.restore(self.get_slot(variable, slot_name))

    def _coefficients(self) -> dict[str, tf.Tensor]:
        """The numbers of an update, float32, by name."""
        # The differences are computed in float64, since in float32 1 - 0.999 has a relative error of 5e-5.
        values = dict(beta_1=self.beta_1, one_minus_beta_1=1 - self.beta_1, beta_2=self.beta_2,
                      one_minus_beta_2=1 - self.beta_2, epsilon=self.epsilon, weight_decay=self.weight_decay)
        coefficients = {name: tf.constant(value, tf.float32) for name, value in values.items()}
        if self.bias_correction:
            step = tf.cast(keras.tf_variable(self.iterations) + 1 - (0 if self.skipped is None else self.skipped),
                           tf.float64)
            coefficients.update(m_correction=tf.cast(1 / (1 - self.beta_1**step), tf.float32),
                                v_correction=tf.cast(1 / (1 - self.beta_2**step), tf.float32))
        return dict(coefficients, rate=tf.cast(self.learning_rate, tf.float32))

    def _update_all(self, variables: list[tf.Variable], strategy: tf.distribute.Strategy, gradients: list[tf.Tensor],
                    coefficients: dict[str, tf.Tensor]) -> None:
        for variable, gradient in zip(variables, gradients):
            update = functools.partial(_update, decays=not _matches(self.exclude_from_weight_decay, variable.name),
                                       adapts=not _matches(self.exclude_from_layer_adaptation, variable.name))
            slots = self._slots[id(variable)][1]
            strategy.extended.update(variable, update, args=(slots["m"], slots["v"], gradient, coefficients),
                                     group=False)


def _zeros(variable: tf.Variable, slot: str) -> tf.Variable:
    return tf.Variable(lambda: tf.zeros(variable.shape, variable.dtype), trainable=False,
                       name=f"{variable.name.split(':')[0]}/{slot}")


def _update(
    variable: tf.Variable, m: tf.Variable, v: tf.Variable, gradient: tf.Tensor, coefficients: dict[str, tf.Tensor],
    decays: bool, adapts: bool
) -> None:
    """Updates a variable and its two moments.

    Operations have the order and grouping of tensorflow_addons' LAMB, so that results are equal bit for bit.
    """
    coefficients = {name: tf.cast(value, variable.dtype) for name, value in coefficients.items()}
    new_values = _updated(variable, m, v, gradient, coefficients, decays, adapts)
    for each, value in zip((variable, m, v), new_values):
        each.assign(value, read_value=False)


def _updated(
    variable: tf.Variable, m: tf.Variable, v: tf.Variable, gradient: tf.Tensor, coefficients: dict[str, tf.Tensor],
    decays: bool, adapts: bool
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    variable, m, v = map(tf.convert_to_tensor, (variable, m, v))  # each is read once
    m = m * coefficients["beta_1"] + gradient * coefficients["one_minus_beta_1"]
    v = v * coefficients["beta_2"] + (gradient * gradient) * coefficients["one_minus_beta_2"]
    corrected_m, corrected_v = m, v
    if "m_correction" in coefficients:
        corrected_m, corrected_v = m * coefficients["m_correction"], v * coefficients["v_correction"]
    update = corrected_m / (tf.sqrt(corrected_v) + coefficients["epsilon"])
    if decays:
        update += coefficients["weight_decay"] * variable
    rate = coefficients["rate"]
    if adapts:
        norm, of_update = tf.norm(variable, ord=2), tf.norm(update, ord=2)
        rate = tf.where((norm > 0) & (of_update > 0), norm / of_update, 1.0) * rate
    return variable - rate * update, m, v


def _matches(expressions: Sequence[str], name: str) -> bool:
    return any(re.search(expression, name) for expression in expressions)


def create_optimizer(
    name: str = "lamb",
    learning_rate: float = 0.00176,
    num_train_steps: int = 125000,
    num_warmup_steps: int = 3125,
    start_warmup_step: int = 0,
    poly_power: float = 1.0,
    weight_decay_rate: float = 0.01,
    bias_correction: bool = False,
) -> ReleaseOptimizer:
    """The release's optimizer with its schedule. It does not clip gradients; the trainer does (global norm 1).

    Args:
      name: "lamb" (You et al., 2020; pre-training) or "adamw" (fine-tuning).
      learning_rate, num_train_steps, num_warmup_steps, start_warmup_step, poly_power: see learning_rate_schedule.
      weight_decay_rate: rate of the weight decay of all variables except biases and LayerNorms.
      bias_correction: see ReleaseOptimizer. The release has none.

    Raises:
      ValueError: name is unknown, an argument of the schedule is wrong, or weight_decay_rate is negative or not finite.
    """
    check_one_of("optimizer", name, OPTIMIZERS)
    check_finite("weight_decay_rate", weight_decay_rate, 0.0)
    schedule = learning_rate_schedule(learning_rate, num_train_steps, num_warmup_steps, start_warmup_step, poly_power)
    return ReleaseOptimizer(
        learning_rate=schedule, weight_decay=weight_decay_rate, name=name, exclude_from_weight_decay=NOT_DECAYED,
        exclude_from_layer_adaptation=NOT_DECAYED if name == "lamb" else [".*"], bias_correction=bias_correction)

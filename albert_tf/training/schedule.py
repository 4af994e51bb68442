"""The learning rate over the steps (release: optimization.create_optimizer)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf import keras
from albert_tf.utils.bounds import check_finite


@keras.utils.register_keras_serializable(package="albert_tf")
class WarmupThenDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then polynomial decay to 0. The decay starts at step 0, not at the end of the warm-up.

    So the rate drops at the end of the warm-up. Before start_warmup_step it is negative. Both are as in the release.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps, start_warmup_step=0, poly_power=1.0):
        self._arguments = dict(learning_rate=learning_rate, num_train_steps=num_train_steps,
                               num_warmup_steps=num_warmup_steps, start_warmup_step=start_warmup_step,
                               poly_power=poly_power)

    def __call__(self, step):
        """The learning rate at a step, float32."""
        step = tf.cast(step, tf.float32)
        rate, total, warmup, start, power = (tf.constant(float(value)) for value in self._arguments.values())
        decayed = rate * tf.pow(1.0 - tf.minimum(step, total) / total, power)
        if not self._arguments["num_warmup_steps"]:
            return decayed
        since_start = step - start
        return tf.where(since_start < warmup, rate * (since_start / warmup), decayed)

    def get_config(self):
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

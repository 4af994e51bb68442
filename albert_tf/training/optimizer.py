"""LAMB and AdamW as the release has them: without bias correction (release: lamb_optimizer.py, optimization.py).

Both are tensorflow_addons' LAMB with its beta powers held at 0; AdamW is LAMB without layer adaptation. This is the
only file that knows tensorflow_addons.
"""

from __future__ import annotations

import contextlib
import io
import warnings

import tensorflow as tf

from albert_tf import keras
from albert_tf.finite import check_finite
from albert_tf.training.schedule import learning_rate_schedule

with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
    warnings.simplefilter("ignore")  # its notice of the end of its life is for us, not for users
    from tensorflow_addons.optimizers import LAMB

OPTIMIZERS = ("lamb", "adamw")
BETA_1, BETA_2 = 0.9, 0.999
# Regular expressions, searched in a variable's name; "bias" also finds output_bias.
NOT_DECAYED = ["LayerNorm", "layer_norm", "bias"]


class ReleaseOptimizer(LAMB):
    """LAMB without bias correction, which can let a step pass without a change.

    Attributes:
      updates: a bool tensor, or None for true. Where it is false, apply_gradients leaves variables and slots as they
        are, bit for bit, provided that the gradients are finite; only `iterations` goes on.
    """

    updates = None

    def _prepare_local(self, var_device, var_dtype, apply_state):
        super()._prepare_local(var_device, var_dtype, apply_state)
        state = apply_state[var_device, var_dtype]
        # In float32, 1 - 0.999 would be 5e-5 off.
        state.update(beta_1_power=0.0, beta_2_power=0.0, one_minus_beta_1_t=1 - BETA_1, one_minus_beta_2_t=1 - BETA_2)
        if self.updates is not None:
            # A variable minus 0, and a slot times 1 plus 0, are what they were.
            still = dict(lr_t=0.0, beta_1_t=1.0, beta_2_t=1.0, one_minus_beta_1_t=0.0, one_minus_beta_2_t=0.0)
            state.update({name: tf.where(self.updates, state[name], value) for name, value in still.items()})


def create_optimizer(
    name: str = "lamb",
    learning_rate: float = 0.00176,
    num_train_steps: int = 125000,
    num_warmup_steps: int = 3125,
    start_warmup_step: int = 0,
    poly_power: float = 1.0,
    weight_decay_rate: float = 0.01,
) -> keras.optimizers.legacy.Optimizer:
    """The release's optimizer with its schedule. It does not clip: the trainer clips to a global norm of 1 before.

    Args:
      name: "lamb" (You et al., 2020; pre-training) or "adamw" (fine-tuning).
      learning_rate, num_train_steps, num_warmup_steps, start_warmup_step, poly_power: see learning_rate_schedule.
      weight_decay_rate: added to the update of all variables but LayerNorms' and biases.

    Raises:
      ValueError: there is no optimizer of that name, the schedule's arguments are wrong, or weight_decay_rate is
        negative or not finite.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}. Received: {name!r}")
    check_finite("weight_decay_rate", weight_decay_rate, 0.0)
    schedule = learning_rate_schedule(learning_rate, num_train_steps, num_warmup_steps, start_warmup_step, poly_power)
    return ReleaseOptimizer(
        learning_rate=schedule, beta_1=BETA_1, beta_2=BETA_2, epsilon=1e-6, weight_decay=weight_decay_rate, name=name,
        exclude_from_weight_decay=NOT_DECAYED, exclude_from_layer_adaptation=NOT_DECAYED if name == "lamb" else [".*"])

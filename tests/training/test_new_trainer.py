"""new_trainer warns of options that are probably a mistake."""

import pytest
import tensorflow as tf
from slope import Task

from albert_tf.training.run import RunOptions, TrainerOptions, new_trainer


@pytest.mark.parametrize("num_warmup_steps, start_warmup_step, warns", [
    (0, 0, False), (0, 100, False), (99, 0, False), (100, 0, True), (200, 0, True), (50, 49, False), (50, 50, True)])
def test_a_warm_up_that_does_not_end_before_the_run_is_warned_of(caplog, num_warmup_steps, start_warmup_step, warns):
    options = TrainerOptions("adamw", 3e-5, num_warmup_steps, start_warmup_step)
    new_trainer(Task(), tf.distribute.get_strategy(), options, RunOptions("run", 100, 8))
    assert ("the learning rate stays below its peak of 3e-05" in caplog.text) == warns

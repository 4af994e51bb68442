"""Makes a compiled trainer from its options, for all scripts."""

from __future__ import annotations

import dataclasses

import tensorflow as tf
from absl import logging

from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.run import RunOptions, steps_per_execution
from albert_tf.training.task import Task
from albert_tf.training.trainer import Trainer


@dataclasses.dataclass(frozen=True)
class TrainerOptions:
    """How a task is trained.

    Args:
      optimizer: "lamb" or "adamw".
      learning_rate, num_warmup_steps, start_warmup_step, poly_power: see learning_rate_schedule.
      bias_correction: see ReleaseOptimizer.
      random_seed, gradient_accumulation_steps, jit_compile, loss_scaling, shapes_vary, parts: see Trainer.
      gradient_checkpointing: whether to recompute a layer's activations for its gradients, which saves memory.
    """

    optimizer: str
    learning_rate: float
    num_warmup_steps: int = 0
    start_warmup_step: int = 0
    poly_power: float = 1.0
    bias_correction: bool = False
    random_seed: int = 0
    gradient_accumulation_steps: int = 1
    gradient_checkpointing: bool = False
    jit_compile: bool = False
    loss_scaling: bool = False
    shapes_vary: bool = False
    parts: int = 1


def new_trainer(task: Task, strategy: tf.distribute.Strategy, options: TrainerOptions, run: RunOptions) -> Trainer:
    """Makes a compiled trainer. Warns if the warm-up of the learning rate does not end before the run.

    Args:
      task: the task. Its model and metrics must have been made in the strategy's scope.
      strategy: the distribution strategy.
      options: see TrainerOptions.
      run: see RunOptions.

    Raises:
      ValueError: gradient_checkpointing with a TF-Hub module as the encoder.
    """
    end_of_warmup = options.start_warmup_step + options.num_warmup_steps
    if options.num_warmup_steps and end_of_warmup >= run.num_train_steps:
        logging.warning("the run ends at step %d, and the learning rate's warm-up at step %d: the learning rate stays "
                        "below its peak of %g", run.num_train_steps, end_of_warmup, options.learning_rate)
    if options.gradient_checkpointing:
        if not isinstance(task.model.albert, AlbertModel):
            raise ValueError("--gradient_checkpointing does not work with a TF-Hub module, whose layers cannot be "
                             "recomputed")
        task.model.albert.gradient_checkpointing = True
    with strategy.scope():
        trainer = Trainer(task, options.random_seed, options.gradient_accumulation_steps, options.jit_compile,
                          options.loss_scaling, options.shapes_vary, options.parts)
        optimizer = create_optimizer(options.optimizer, options.learning_rate, run.num_train_steps,
                                     options.num_warmup_steps, options.start_warmup_step, options.poly_power,
                                     bias_correction=options.bias_correction)
        trainer.compile(optimizer, steps_per_execution=1 if options.shapes_vary else steps_per_execution(run, strategy))
    return trainer

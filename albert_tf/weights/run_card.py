"""The model card of a training run."""

from __future__ import annotations

import os
from typing import Mapping

import tensorflow as tf

from albert_tf import keras
from albert_tf.training.checkpoints import saved_step
from albert_tf.training.evaluation import logged_names
from albert_tf.training.new_trainer import TrainerOptions
from albert_tf.training.run import RunOptions
from albert_tf.weights.heads import head_of
from albert_tf.weights.model_card import CARD, ModelCard, write_model_card


def write_run_card(
    model: keras.Model, run: RunOptions, trainer: TrainerOptions, command: str, init_checkpoint: str | None = None,
    datasets: Mapping[str, dict] | None = None, scores: Mapping[str, float] | None = None, recipe: str | None = None,
    trained: bool = True,
) -> None:
    """Writes the model card of a run to its directory.

    Args:
      model: the trained model.
      run, trainer: options of the run.
      command: the command that started the run.
      init_checkpoint: initial weights; None if they were random.
      datasets: see ModelCard.
      scores: the scores of the run's best checkpoint; None if it was not evaluated.
      recipe: name of the recipe of hyper-parameters; None if there was none.
      trained: whether the command took steps. If not, a card that exists is kept: it has the command of the training.
    """
    if not trained and tf.io.gfile.exists(os.path.join(run.output_dir, CARD)):
        return
    facts = {
        "labels": ", ".join(getattr(model, "label_names", None) or ()),
        "initial weights": None if init_checkpoint else "random", "recipe": recipe, "seed": trainer.random_seed,
        "step of the weights": saved_step(run.output_dir), "training steps": run.num_train_steps,
        "warm-up steps": trainer.num_warmup_steps, "batch size": run.train_batch_size,
        "optimizer": trainer.optimizer, "learning rate": trainer.learning_rate,
        "precision": keras.mixed_precision.global_policy().name,
    }
    scores = scores or {}
    shown = {name: scores[name] for name in (*logged_names(scores), "global_step") if name in scores}
    write_model_card(run.output_dir, ModelCard(
        head_of(model), model.config, init_checkpoint, facts=facts, datasets=datasets or {}, command=command,
        scores=shown))

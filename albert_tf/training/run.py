"""A training run: its steps, which continue from the latest checkpoint, and the weights that it trains.

Weights that a fine-tuning run does not train (--trainable) have no gradients and no slots in the optimizer.
"""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import Callable, Mapping

import tensorflow as tf
from absl import logging

from albert_tf import devices, keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_variable
from albert_tf.modeling.layers import layers_in, release_name
from albert_tf.modeling.settings import ClassifierSettings, LabelSettings
from albert_tf.training.config import ALL, HEAD, LAST, Devices, FineTuningTraining, Schedule, Training
from albert_tf.training.evaluation import logged_names
from albert_tf.training.objective import Objective
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.strategy import create_strategy, jax_strategy
from albert_tf.training.trainer import Trainer, divide_threads, parts_of
from albert_tf.utils import imports
from albert_tf.utils.progress import count_of
from albert_tf.weights.model_card import CARD, write_model_card
from albert_tf.weights.runs import saved_step


def set_up(
    config: Devices, random_seed: int, batch_sizes: Mapping[str, int], gradient_accumulation_steps: int = 1
) -> tf.distribute.Strategy:
    """Sets seed and precision, and returns the distribution strategy. Call it before anything is built.

    `batch_sizes` are by the names of their options. Raises ValueError if the devices cannot be used, or a batch size is
    no multiple of their number.
    """
    parts, uses_jax = parts_of(config), config.runtime == "jax"
    micro_batches_of = {name: gradient_accumulation_steps if name == "train_batch_size" else 1 for name in batch_sizes}
    if all(size % (parts * micro_batches_of[name]) == 0 for name, size in batch_sizes.items()):
        divide_threads(parts)  # all batches have that many parts
    strategy = jax_strategy(config) if uses_jax else create_strategy(config)
    count = devices.count(strategy)
    device_count = count_of(count, "device" if uses_jax else "replica")
    for name, size in batch_sizes.items():
        micro_batches = micro_batches_of[name]
        if size % (count * micro_batches):
            accumulation = f" times {micro_batches} --gradient_accumulation_steps" if micro_batches > 1 else ""
            raise ValueError(f"--{name} must be a multiple of {device_count}{accumulation}. "
                             f"Received: {size}")
    if not devices.is_tpu(strategy):  # TensorFlow issue 58934: it fails on a TPU VM
        imports.start_xla()
    if config.precision == "mixed_bfloat16" and not (
            uses_jax or devices.is_tpu(strategy) or devices.has_bfloat16()):
        logging.warning("this CPU has no instructions for bfloat16: float32, the default of --precision, is faster")
    keras.utils.set_random_seed(random_seed)
    keras.mixed_precision.set_global_policy(config.precision)
    return strategy


def new_trainer(
    objective: Objective, strategy: tf.distribute.Strategy, training: Training, config: Devices, schedule: Schedule,
    shapes_vary: bool = False, rows_vary: bool = False
) -> Trainer:
    """Makes a compiled trainer, and logs the sizes of the model and the number of parameters that train.

    The objective's model must have been made in the strategy's scope. shapes_vary: whether batches have several shapes.
    rows_vary: see Trainer.
    """
    end_of_warmup = schedule.start_warmup_step + schedule.num_warmup_steps
    if schedule.num_warmup_steps and end_of_warmup >= schedule.num_train_steps:
        logging.warning("the run ends at step %d, and the learning rate's warm-up at step %d: the learning rate stays "
                        "below its peak of %g", schedule.num_train_steps, end_of_warmup, training.learning_rate)
    if training.gradient_checkpointing:
        objective.model.albert.gradient_checkpointing = True
    with strategy.scope():
        if isinstance(training, FineTuningTraining):
            restrict_training(objective.model, training)
        trained, total = (sum(variable.shape.num_elements() for variable in variables)
                          for variables in (objective.model.trainable_weights, objective.model.weights))
        logging.info("training %s of %s: %s", f"{trained:,}", count_of(total, "parameter"), objective.model.config)
        optimizer = create_optimizer(training.optimizer, training.learning_rate, schedule.num_train_steps,
                                     schedule.num_warmup_steps, schedule.start_warmup_step, schedule.poly_power,
                                     bias_correction=training.bias_correction)
        return Trainer(
            objective, optimizer, training.random_seed, training.gradient_accumulation_steps, config.jit_compile,
            config.precision == "mixed_float16", parts_of(config), rows_vary,
            1 if shapes_vary else steps_per_execution(training.iterations_per_loop, schedule.save_checkpoints_steps,
                                                      strategy))


def steps_per_execution(
    iterations_per_loop: int, save_checkpoints_steps: int, strategy: tf.distribute.Strategy
) -> int:
    """The number of steps between two returns to the host: more than 1 on TPU without jax, where returning takes time.

    It is a divisor of save_checkpoints_steps, because checkpoints are saved after a return.
    """
    if not devices.is_tpu(strategy) or devices.is_jax(strategy):
        return 1
    most = min(iterations_per_loop, save_checkpoints_steps)
    return next(steps for steps in range(most, 0, -1) if save_checkpoints_steps % steps == 0)


def restrict_training(model: keras.Model, training: FineTuningTraining) -> None:
    """Freezes the weights that a run does not train. It is called before the optimizer makes its slots."""
    if training.trainable == ALL:
        return
    is_trained = _selection(model, training.trainable)
    for layer in layers_in(model):
        if not any(map(is_trained, map(release_name, layer.weights))):  # Keras takes no weights within a frozen layer
            layer.trainable = False
    if not model.trainable_weights:
        raise ValueError(f"--trainable={training.trainable} leaves nothing to train: a {type(model).__name__} has no "
                         "weights besides its encoder's. Set --trainable=last_K")


def _selection(model: keras.Model, trainable: str) -> Callable[[str], bool]:
    """Whether the variable with a name is trained."""
    match = LAST.fullmatch(trainable)
    attention, ffn = _last_blocks(model.config, int(match[1])) if match else (set(), set())

    def is_trained(name: str) -> bool:
        if not name.startswith("bert/"):
            return True
        if name.startswith("bert/pooler/"):
            return model.uses_pooler
        block = block_variable(name)
        if block is None:
            return False
        blocks = attention if block.is_of_attention else ffn
        return block.group * model.config.inner_group_num + block.inner in blocks

    return is_trained


def _last_blocks(config: AlbertConfig, count: int) -> tuple[set[int], set[int]]:
    """The indices of the attention and of the feed-forward blocks of the last layers."""
    possible = [k for k in range(1, config.num_hidden_layers + 1)  # no earlier layer uses a block of the last k ones
                if all(_blocks(layers[-k:]).isdisjoint(_blocks(layers[:-k]))
                       for layers in (config.attention_blocks, config.ffn_blocks))]
    if count in possible:
        return _blocks(config.attention_blocks[-count:]), _blocks(config.ffn_blocks[-count:])
    if count > config.num_hidden_layers:
        reason = f"the model has {count_of(config.num_hidden_layers, 'layer')}"
    else:
        reason = ("layers of this model share their weights, so that the last ones cannot be trained without earlier "
                  "ones: this needs groups of layers, or --unshare_layers")
    raise ValueError(f"--trainable=last_{count}: {reason}. Possible here: "
                     f"{', '.join(f'last_{k}' for k in possible)}, {HEAD}, {ALL}")


def _blocks(layers: tuple[tuple[int, ...], ...]) -> set[int]:
    return {block for layer in layers for block in layer}


def write_run_card(
    model: keras.Model, directory: str, schedule: Schedule, training: Training, command: str,
    init_checkpoint: str | None = None, datasets: Mapping[str, dict] = MappingProxyType({}),
    scores: Mapping[str, float] | None = None, evaluated_on: str = "", recipe: str | None = None, trained: bool = True,
) -> None:
    """Writes the model card of a run to its directory. The other arguments are those of write_model_card.

    Args:
      scores: the scores of the run's best checkpoint; None if it was not evaluated.
      trained: whether the command took steps. If not, a card that exists is kept: it has the command of the training.
    """
    if not trained and tf.io.gfile.exists(os.path.join(directory, CARD)):
        return
    tuning = training if isinstance(training, FineTuningTraining) else None
    rows = {
        "labels": ", ".join(model.settings.of_class(LabelSettings).label_names or ()),
        "labels of a text": "any number" if model.settings.of_class(ClassifierSettings).multi_label else None,
        "initial weights": None if init_checkpoint else "random", "recipe": recipe, "seed": training.random_seed,
        "step of the weights": saved_step(directory), "training steps": schedule.num_train_steps,
        "warm-up steps": schedule.num_warmup_steps, "batch size": training.train_batch_size,
        "trained weights": tuning and tuning.trainable,
        "optimizer": training.optimizer, "learning rate": training.learning_rate,
        "precision": keras.mixed_precision.global_policy().name,
    }
    shown = {name: scores[name] for name in (*logged_names(scores), "global_step") if name in scores} if scores else {}
    write_model_card(directory, model, init_checkpoint, rows=rows, datasets=datasets, command=command, scores=shown,
                     evaluated_on=evaluated_on)

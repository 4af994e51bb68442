"""A training run: its steps, which continue from the latest checkpoint, and the weights that it trains.

Weights that a fine-tuning run does not train (--trainable) have no gradients and no slots in the optimizer.
"""

from __future__ import annotations

import contextlib
import errno
import os
from types import MappingProxyType
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import tensorflow as tf
from absl import logging

from albert_tf import devices, keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_variable
from albert_tf.modeling.layers import ReleaseLayer, release_name
from albert_tf.modeling.settings import ClassifierSettings, LabelSettings
from albert_tf.training.callbacks import Curves, EndOnSignal, Progress, Saving, SkippedSteps
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.config import ALL, HEAD, LAST, Devices, FineTuningTraining, Schedule, Training
from albert_tf.training.evaluation import Evaluator, logged_names
from albert_tf.training.objective import Objective
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.strategy import create_strategy, distributed, is_chief, jax_strategy, values_of_all
from albert_tf.training.trainer import Trainer, divide_threads, parts_of
from albert_tf.utils import imports
from albert_tf.utils.files import is_remote, make_directory
from albert_tf.utils.outputs import used_alone
from albert_tf.utils.processes import announcing
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
    places = count_of(count, "device" if uses_jax else "replica")
    for name, size in batch_sizes.items():
        micro_batches = micro_batches_of[name]
        if size % (count * micro_batches):
            accumulation = f" times {micro_batches} --gradient_accumulation_steps" if micro_batches > 1 else ""
            raise ValueError(f"--{name} must be a multiple of {places}{accumulation}. "
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

    The objective's model and metrics must have been made in the strategy's scope. shapes_vary, rows_vary: see Trainer.
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
        trainer = Trainer(objective, training.random_seed, training.gradient_accumulation_steps, config.jit_compile,
                          config.precision == "mixed_float16", shapes_vary, parts_of(config), rows_vary)
        optimizer = create_optimizer(training.optimizer, training.learning_rate, schedule.num_train_steps,
                                     schedule.num_warmup_steps, schedule.start_warmup_step, schedule.poly_power,
                                     bias_correction=training.bias_correction)
        trainer.compile(optimizer, steps_per_execution=1 if shapes_vary else steps_per_execution(
            training.iterations_per_loop, schedule.save_checkpoints_steps, strategy))
    return trainer


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


@contextlib.contextmanager
def training_in(directories: Iterable[str], strategy: tf.distribute.Strategy, do_train: bool) -> Iterator[None]:
    """A block in which no other process may train in these directories; evaluations may run beside it.

    Raises ValueError, before a file is written, if another training uses a directory.
    """
    with contextlib.ExitStack() as stack:
        for directory in directories if do_train and is_chief(strategy) else ():
            stack.enter_context(used_alone(directory, "training"))
        yield


def train(
    trainer: Trainer,
    checkpoints: Checkpoints,
    batches_from: Callable[[int], Callable],
    training: Training,
    schedule: Schedule,
    strategy: tf.distribute.Strategy,
    evaluator: Evaluator | None = None,
    before_steps: Callable[[], None] = lambda: None,
    evaluates_first: bool = False,
    lengths: Sequence[int] = (),
) -> bool:
    """Trains to num_train_steps from the latest checkpoint in the directory of `checkpoints`. False if all was done.

    Args:
      batches_from: function of the first step. It returns a function of an InputContext, which returns the batches.
      evaluator: called with the step after each save.
      before_steps: writes files that describe the run. The chief calls it, if there are steps to take.
      evaluates_first: whether the initial weights can do the task: they are evaluated as step 0.
      lengths: the length of each step's batch, [num_train_steps]; empty if all have one.
    """
    first_step = _restored_step(checkpoints, strategy)
    if first_step and evaluator is not None and not evaluator.has_evaluated(first_step):
        evaluator(first_step)  # the run ended after saving and before the evaluation
    finished = _why_finished(first_step, schedule.num_train_steps)
    if finished:
        logging.info("nothing to train: %s in %s; to train with other flags or data, use another --output_dir",
                     finished, checkpoints.directory)
    else:
        writes = is_chief(strategy)
        if writes:
            before_steps()
        if evaluates_first and not first_step and evaluator is not None and not evaluator.has_evaluated(0):
            evaluator(0)
        batches = distributed(strategy, batches_from(first_step))
        _take_steps(trainer, batches, checkpoints, training.train_batch_size, schedule, evaluator, first_step, writes,
                    lengths)
    if evaluator is not None:
        evaluator.log_best()
    return not finished


def _restored_step(checkpoints: Checkpoints, strategy: tf.distribute.Strategy) -> int:
    """Restores the latest checkpoint. Returns its step, 0 for none."""
    first_step = checkpoints.restore_latest()
    first_steps = sorted(set(values_of_all(strategy, first_step)))
    if len(first_steps) > 1:
        raise ValueError(f"the latest checkpoint in {checkpoints.directory} has step {first_steps[0]} on one worker "
                         f"and step {first_steps[-1]} on another: all workers must share --output_dir")
    return first_step


def _why_finished(step: int, last_step: int) -> str | None:
    """The reason why a run ends at a step; None if it continues."""
    if step > last_step:
        return f"step {step} is done, after the last requested step {last_step},"
    return f"step {step} of {last_step} is done" if step == last_step else None


def _take_steps(trainer: Trainer, batches: Iterable, checkpoints: Checkpoints, batch_size: int, schedule: Schedule,
                evaluator: Evaluator | None, first_step: int, writes: bool, lengths: Sequence[int]) -> None:
    """Trains to the last step, with the callbacks of a run."""
    last_step, output_dir = schedule.num_train_steps, checkpoints.directory
    if writes:
        make_directory(output_dir)

    def write(step: int) -> None:
        if writes and not is_remote(output_dir) and not os.path.isdir(output_dir):
            raise FileNotFoundError(errno.ENOENT, "the folder was removed during the training", output_dir)
        checkpoints.save(step)

    def evaluate(step: int) -> None:
        assert evaluator is not None
        with end_on_signal.saved(step):
            evaluator(step)

    saving = Saving(first_step, last_step, schedule.save_checkpoints_steps, write, evaluate if evaluator else None)
    strategy: Any = trainer.distribute_strategy
    agree = devices.is_jax(strategy) and strategy.has_several_processes
    end_on_signal = EndOnSignal(first_step, saving.save, writes, strategy.largest_of_all if agree else None)
    callbacks = [SkippedSteps(first_step), saving, end_on_signal]
    if writes:
        callbacks += [Progress(first_step, last_step, batch_size, saving, lengths),
                      Curves(first_step, last_step, os.path.join(output_dir, "train"))]
    with announcing("the run ends after this step, which is saved"), end_on_signal, saving:
        logging.info("training from step %d to %d%s; saved%s every %s; the first step of each length is slow: it "
                     "is compiled", first_step, last_step,
                     f", continuing {output_dir} and not other weights" if first_step else "",
                     " and evaluated" if evaluator else "", count_of(schedule.save_checkpoints_steps, "step"))
        trainer.fit(batches, steps_per_epoch=last_step - first_step, verbose=0, callbacks=callbacks)
    step = int(tf.convert_to_tensor(trainer.optimizer.iterations))
    # Keras' fit interprets every OutOfRangeError as the end of the data, and returns.
    if step < last_step and not trainer.stop_training:
        raise ValueError(f"training ended at step {step} of {last_step}, since its data ended unexpectedly. Start the "
                         "run again: it continues from its latest checkpoint")


def restrict_training(model: keras.Model, training: FineTuningTraining) -> None:
    """Freezes the weights that a run does not train. It is called before the optimizer makes its slots."""
    if training.trainable == ALL:
        return
    is_trained = _selection(model, training.trainable)
    for layer in model.submodules:
        # Only the innermost layers are frozen: Keras takes no weights of a layer that is within a frozen one.
        if isinstance(layer, ReleaseLayer) and not any(map(is_trained, map(release_name, layer.weights))):
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

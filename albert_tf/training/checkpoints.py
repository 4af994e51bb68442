"""Writes and restores the checkpoints of a run: the latest few model.ckpt-STEP, and model.ckpt-best.

Other processes may evaluate the checkpoints of a directory while it is written. What a killed process has left
is removed by the next process that writes to the directory.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
from typing import TYPE_CHECKING

import tensorflow as tf
from absl import logging

from albert_tf.config import CONFIG_NAME, AlbertConfig, described
from albert_tf.modeling.layers import release_name
from albert_tf.training.optimizer import SLOTS
from albert_tf.utils.files import check_no_wildcard, names_in
from albert_tf.utils.outputs import checkpoint_reader, output_checkpoint, write_text
from albert_tf.weights.runs import (
    BEST,
    NAME,
    VALUE,
    best_or_latest,
    numbered,
    step_in,
    stored_variables,
    unreadable_errors,
)
from albert_tf.weights.stored_model import check_finite_weights

if TYPE_CHECKING:
    from albert_tf.training.trainer import Trainer

# No run starts in the folder of a model in another format, since it would replace its config and settings.
_OTHER_MODELS = ("model.safetensors", "pytorch_model.bin", "model.weights.h5", "bert_model.ckpt.index",
                 "saved_model.pb", "*.onnx", "step_*.t7")
_LOSS_SCALE = f"loss_scale/value{VALUE}"
_UNREADABLE = unreadable_errors()


class DamagedCheckpoint(ValueError):
    """A checkpoint with files that are truncated, changed or missing, or with values that are not finite."""


class Checkpoints:
    """The checkpoints and the config of a run of a compiled trainer in its output directory.

    `keep` is the number of model.ckpt-STEP to keep. `writes`: whether this process writes files.
    """

    def __init__(self, directory: str, trainer: Trainer, config: AlbertConfig, keep: int = 5, writes: bool = True):
        check_no_wildcard(directory)
        self.directory, self._config, self._keep, self._writes = directory, config, keep, writes
        self._saved_step: int | None = None
        state = dict(model=trainer.model, optimizer=trainer.optimizer, step=trainer.optimizer.iterations,
                     skipped_steps=trainer.skipped_steps, skipped_in_a_row=trainer.skipped_in_a_row)
        self._without_loss_scale = tf.train.Checkpoint(**state)
        if trainer.loss_scale is not None:
            state["loss_scale"] = trainer.loss_scale
        self._checkpoint = tf.train.Checkpoint(**state)

    def save(self, step: int) -> None:
        """Writes model.ckpt-STEP, and removes the oldest checkpoints if there are more than `keep`."""
        if not self._writes or step == self._saved_step:
            return
        self._write(f"{NAME}-{step}")
        self._saved_step = step
        # Checkpoints of later steps are damaged: the run has continued from one before them.
        saved = [prefix for other, prefix in numbered(self.directory).items() if other <= step]
        self._write_latest(step)
        for old in saved[:-self._keep]:
            _remove(self.directory, f"{os.path.basename(old)}.")
        for name in _names(self.directory, f"{NAME}-"):  # of a process that was killed while it removed a checkpoint
            index = re.sub(r"\.data-[^.]*$", ".index", name)
            if re.fullmatch(rf"{re.escape(NAME)}-\d+\.index", index) and index not in names_in(self.directory):
                _remove(self.directory, name)

    def _write_latest(self, step: int) -> None:
        """Writes the latest step in TensorFlow's format."""
        if self._writes:
            write_text(os.path.join(self.directory, "checkpoint"), f'model_checkpoint_path: "{NAME}-{step}"\n')

    def save_best(self) -> None:
        """Writes model.ckpt-best. It raises what `save` raises."""
        if self._writes:
            self._write(BEST)

    def restore(self, prefix: str) -> int:
        """Restores model, optimizer, step and counters from a checkpoint. Returns its step.

        The checkpoint must have all variables of the model and the optimizer, and no others: otherwise ValueError. The
        loss scale is not changed if the checkpoint has none, because the run had another precision.
        """
        try:
            reader = checkpoint_reader(prefix)
            self._check_variables(reader)
            checkpoint = self._checkpoint if reader.has_tensor(_LOSS_SCALE) else self._without_loss_scale
            # Partial: an earlier precision's loss scale is not read. _check_variables has compared all others.
            checkpoint.read(prefix).assert_existing_objects_matched().expect_partial()
        except _UNREADABLE as error:
            raise DamagedCheckpoint(f"{prefix} is truncated or changed: {_first_line(error)}") from error
        except (AssertionError, ValueError) as error:
            reason = _first_line(error)
            raise ValueError(f"{prefix} is not a checkpoint of this model and optimizer: {reason}") from error
        try:
            for variable in (*self._checkpoint.model.weights, *self._checkpoint.optimizer.variables):
                check_finite_weights(variable.name, variable, prefix)
        except ValueError as error:
            raise DamagedCheckpoint(str(error)) from error
        return int(tf.convert_to_tensor(self._checkpoint.step))

    def restore_latest(self) -> int:
        """Restores the latest model.ckpt-STEP that is not damaged. Returns its step, or 0 if there are no checkpoints.

        Raises:
          ValueError: all are damaged, the latest is of another model or optimizer, albert_config.json is of another
            model, model.ckpt-best exists but was not saved by a run, or there are no checkpoints but a model in another
            format.
        """
        self._check_config()
        best = os.path.join(self.directory, BEST)
        try:
            if tf.io.gfile.exists(f"{best}.index") and step_in(best) is None:
                raise ValueError(f"{best} was not saved by a run, and the best checkpoint of this run would replace "
                                 "it: choose another --output_dir")
        except _UNREADABLE as error:
            logging.warning("%s is truncated or changed: %s; the run continues without it", best, _first_line(error))
        saved = numbered(self.directory)
        for prefix in reversed(saved.values()):
            try:
                step = self.restore(prefix)
                self._write_latest(step)  # the run may have been killed before it did
                return step
            except DamagedCheckpoint as error:
                logging.warning("%s; trying the one before it", error)
        if saved:
            raise ValueError(f"no checkpoint in {self.directory} can be read: remove them to start again")
        other = next((name for name in names_in(self.directory)
                      if any(fnmatch.fnmatch(name, pattern) for pattern in _OTHER_MODELS)), None)
        if other:
            raise ValueError(f"{os.path.join(self.directory, other)} is of another model, and this run would replace "
                             "its config and settings: choose another --output_dir")
        return 0

    def _check_config(self) -> None:
        """Raises ValueError if the run in the directory has a config with which the weights have another meaning."""
        path = os.path.join(self.directory, CONFIG_NAME)
        if not (tf.io.gfile.exists(path) and best_or_latest(self.directory)):
            return
        differences = AlbertConfig.from_json_file(path).differences(self._config)
        if differences:
            raise ValueError(f"the run in {self.directory} is that of another model: "
                             f"{described(differences, path, 'this model')}. Choose another --output_dir, or use the "
                             "model of the run")

    def _check_variables(self, reader: tf.train.CheckpointReader) -> None:
        """Raises ValueError if a checkpoint lacks a variable of the model or a slot, or has others that trained."""
        model = self._checkpoint.model
        stored = {(name, slot) for _, name, slot in stored_variables(reader.get_variable_to_shape_map())}
        needed = {*((release_name(variable), None) for variable in model.weights),
                  *((release_name(variable), slot) for variable in model.trainable_weights for slot in SLOTS)}
        unknown, problem = {(name, slot) for name, slot in stored - needed if slot}, ""
        for text, variables in (("it lacks", needed - stored), ("it has other variables:", unknown)):
            names = sorted(f"{name} ({slot})" if slot else name for name, slot in variables)
            others = f" and {len(names) - 3} others" if len(names) > 3 else ""
            problem += f"{text} {', '.join(names[:3])}{others}; " if names else ""
        if problem:
            raise ValueError(f"{problem}continue a run with its own model and --trainable")

    def _write(self, name: str) -> None:
        write_text(os.path.join(self.directory, CONFIG_NAME), self._config.to_json_string())
        with output_checkpoint(os.path.join(self.directory, name)) as temporary:
            self._checkpoint.write(temporary)


def copy_as_best(prefix: str) -> None:
    """Makes model.ckpt-best in the directory of a checkpoint a copy of this checkpoint, with all of its variables.

    Raises FileNotFoundError or tf.errors.NotFoundError if a training of the same run has removed the checkpoint.
    """
    directory, name = os.path.split(prefix)
    with output_checkpoint(os.path.join(directory, BEST)) as temporary:
        parts = _names(directory, f"{name}.")  # data, index
        if f"{name}.index" not in parts:
            raise FileNotFoundError(errno.ENOENT, "the checkpoint was removed", prefix)
        for part in parts:
            tf.io.gfile.copy(prefix + part[len(name):], temporary + part[len(name):], overwrite=True)


def _names(directory: str, start: str) -> list[str]:
    """The names in a directory that begin with `start`."""
    return [name for name in names_in(directory) if name.startswith(start)]


def _remove(directory: str, start: str) -> None:
    """Removes the files and folders of a directory that begin with `start`, an index before its data."""
    for name in sorted(_names(directory, start), reverse=True):
        path = os.path.join(directory, name)
        tf.io.gfile.rmtree(path) if tf.io.gfile.isdir(path) else tf.io.gfile.remove(path)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)

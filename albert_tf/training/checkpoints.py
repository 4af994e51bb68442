"""Checkpoints: model.ckpt-STEP of a run, the latest few, and model.ckpt-best.

A checkpoint is written under another name, and its index is renamed last: one that has an index is whole, and what a
kill left behind is not looked at.
"""

from __future__ import annotations

import glob
import os
import re

import tensorflow as tf
from absl import logging

from albert_tf.config import CONFIG_NAME, AlbertConfig
from albert_tf.files import write_text
from albert_tf.modeling.finite_weights import check_finite_weights

NAME = "model.ckpt"
BEST = f"{NAME}-best"
_WRITING = ".writing."


class DamagedCheckpoint(ValueError):
    """A checkpoint whose files are cut, changed or missing, or whose values are not finite."""


class Checkpoints:
    """The checkpoints of a run in its output directory, and the config beside them.

    Args:
      directory: where they are. What a killed run was writing there is removed.
      trainer: a compiled Trainer; model, optimizer, step and counters are saved.
      config: written to albert_config.json with each checkpoint.
      keep: how many of model.ckpt-STEP to keep.
      writes: whether this process writes: one of several does.

    Raises:
      ValueError: the directory's name has a character that TensorFlow takes for a pattern when it reads.
    """

    def __init__(self, directory: str, trainer, config: AlbertConfig, keep: int = 5, writes: bool = True):
        if glob.has_magic(directory):
            raise ValueError("output_dir must have none of * ? [ in its name: what is saved there could not be read. "
                             f"Received: {directory}")
        self._directory, self._config, self._keep, self._writes = directory, config, keep, writes
        self._saved_step: int | None = None
        state = dict(model=trainer.model, optimizer=trainer.optimizer, step=trainer.optimizer.iterations,
                     skipped_steps=trainer.skipped_steps, skipped_in_a_row=trainer.skipped_in_a_row)
        if trainer.loss_scale is not None:
            state["loss_scale"] = trainer.loss_scale
        self._checkpoint = tf.train.Checkpoint(**state)
        if writes:
            _remove(directory, _WRITING + NAME)

    def save(self, step: int) -> None:
        """Writes model.ckpt-STEP, and removes the oldest that are too many."""
        if not self._writes or step == self._saved_step:
            return
        self._write(f"{NAME}-{step}")
        self._saved_step = step
        saved = numbered(self._directory)
        latest = os.path.basename(saved[-1])
        write_text(os.path.join(self._directory, "checkpoint"),
                   f'model_checkpoint_path: "{latest}"\n')  # as TensorFlow's
        for old in saved[:-self._keep]:
            _remove(self._directory, f"{os.path.basename(old)}.")

    def save_best(self) -> None:
        """Writes model.ckpt-best."""
        if self._writes:
            self._write(BEST)

    def restore(self, prefix: str) -> int:
        """Takes over everything that a checkpoint of such a run holds. Returns its step.

        Raises:
          DamagedCheckpoint: it cannot be read to its end, or a value is not finite.
          ValueError: it is of another model or optimizer.
        """
        try:
            self._checkpoint.read(prefix).assert_existing_objects_matched().expect_partial()
        except (tf.errors.OpError, IndexError, RuntimeError) as error:  # IndexError: the reader met the end of a file
            raise DamagedCheckpoint(f"{prefix} is cut or changed: {_first_line(error)}") from error
        except (AssertionError, ValueError) as error:
            reason = _first_line(error)
            raise ValueError(f"{prefix} is not a checkpoint of this model and optimizer: {reason}") from error
        try:
            for variable in (*self._checkpoint.model.weights, *self._checkpoint.optimizer.variables()):
                check_finite_weights(variable.name, variable, prefix)
        except ValueError as error:
            raise DamagedCheckpoint(str(error)) from error
        return int(tf.convert_to_tensor(self._checkpoint.step))

    def restore_latest(self) -> int:
        """Goes on from the latest model.ckpt-STEP that is not damaged. Returns its step, 0 where there is none.

        Raises:
          ValueError: all are damaged, it is of another model or optimizer, or model.ckpt-best was not saved by a run.
        """
        best = os.path.join(self._directory, BEST)
        if tf.io.gfile.exists(f"{best}.index") and _step_in(best) is None:
            raise ValueError(f"{best} was not saved by a run, and the best of this run would replace it: name another "
                             "--output_dir")
        saved = numbered(self._directory)
        for prefix in reversed(saved):
            try:
                return self.restore(prefix)
            except DamagedCheckpoint as error:
                logging.warning("%s; trying the one before it", error)
        if saved:
            raise ValueError(f"no checkpoint in {self._directory} can be read: remove them to start anew")
        return 0

    def _write(self, name: str) -> None:
        fresh = _WRITING + name
        write_text(os.path.join(self._directory, CONFIG_NAME), self._config.to_json_string())
        try:
            self._checkpoint.write(os.path.join(self._directory, fresh))
            # A checkpoint that is replaced is none from here on, until all of the new one is in place.
            _remove(self._directory, f"{name}.index")
            for part in sorted(_names(self._directory, f"{fresh}.")):  # data, index
                source, target = (os.path.join(self._directory, file) for file in (part, name + part[len(fresh):]))
                tf.io.gfile.rename(source, target, overwrite=True)
        except BaseException:
            _remove(self._directory, fresh)
            raise


def numbered(directory: str) -> list[str]:
    """The prefixes of all whole model.ckpt-STEP of a directory, by step."""
    return list(numbered_by_step(directory).values())


def numbered_by_step(directory: str) -> dict[int, str]:
    """The steps of all whole model.ckpt-STEP of a directory, in their order, and their prefixes."""
    matches = (re.fullmatch(rf"({re.escape(NAME)}-(\d+))\.index", name) for name in _names(directory, f"{NAME}-"))
    prefixes = {int(match[2]): os.path.join(directory, match[1]) for match in matches if match}
    return dict(sorted(prefixes.items()))


def saved_step(path: str) -> int:
    """The step that a checkpoint of ours is of, by its prefix or directory; 0 for weights from elsewhere."""
    prefix = best_or_latest(path) or path
    return (_step_in(prefix) or 0) if tf.io.gfile.exists(f"{prefix}.index") else 0


def best_or_latest(directory: str) -> str | None:
    """model.ckpt-best, else the latest model.ckpt-STEP; None where there is neither."""
    best = os.path.join(directory, BEST)
    if tf.io.gfile.exists(best + ".index"):
        return best
    whole = numbered(directory)
    return whole[-1] if whole else None


def _step_in(prefix: str) -> int | None:
    """The step that a checkpoint holds; None for weights that no run saved."""
    reader, name = tf.compat.v1.train.NewCheckpointReader(prefix), "step/.ATTRIBUTES/VARIABLE_VALUE"
    return int(reader.get_tensor(name)) if reader.has_tensor(name) else None


def _names(directory: str, start: str) -> list[str]:
    """Names in a directory, by their start."""
    names = tf.io.gfile.listdir(directory) if tf.io.gfile.isdir(directory) else []
    return [name for name in names if name.startswith(start)]


def _remove(directory: str, start: str) -> None:
    """Removes the files and directories of a directory whose names start so; an index goes first."""
    for name in sorted(_names(directory, start), reverse=True):
        path = os.path.join(directory, name)
        tf.io.gfile.rmtree(path) if tf.io.gfile.isdir(path) else tf.io.gfile.remove(path)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)

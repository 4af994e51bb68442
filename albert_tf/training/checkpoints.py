"""Checkpoints: model.ckpt-STEP of a run, the latest few, and model.ckpt-best.

TensorFlow writes a checkpoint's index last and under a temporary name, so a checkpoint with an index is whole; what a
kill left behind has none, and is not looked at.
"""

from __future__ import annotations

import os
import re

import tensorflow as tf

NAME = "model.ckpt"
BEST = f"{NAME}-best"


class Checkpoints:
    """The checkpoints of a run in its output directory.

    Args:
      directory: where they are.
      trainer: a compiled Trainer; model, optimizer, step and counters are saved.
      keep: how many of model.ckpt-STEP to keep.
      writes: whether this process writes: one of several does.
    """

    def __init__(self, directory: str, trainer, keep: int = 5, writes: bool = True):
        self.directory, self._keep, self._writes = directory, keep, writes
        state = dict(model=trainer.model, optimizer=trainer.optimizer, step=trainer.optimizer.iterations,
                     skipped_steps=trainer.skipped_steps, skipped_in_a_row=trainer.skipped_in_a_row)
        if trainer.loss_scale is not None:
            state["loss_scale"] = trainer.loss_scale
        self._checkpoint = tf.train.Checkpoint(**state)

    def save(self, step: int) -> None:
        """Writes model.ckpt-STEP, and removes the oldest that are too many."""
        self._write(f"{NAME}-{step}")
        for old in numbered(self.directory)[: -self._keep] if self._writes else []:
            _remove(old)

    def save_best(self) -> None:
        """Writes model.ckpt-best."""
        self._write(BEST)

    def restore(self, prefix: str) -> None:
        """Takes over everything that a checkpoint of such a run holds.

        Raises:
          ValueError: it is of another model or optimizer, or cannot be read.
        """
        try:
            status = self._checkpoint.read(prefix)
            status.assert_existing_objects_matched().expect_partial()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            raise ValueError(f"{prefix} is not a checkpoint of this model and optimizer: {str(error).splitlines()[0]}") from error

    def restore_latest(self) -> int:
        """Goes on from the latest model.ckpt-STEP. Returns its step, 0 where there is none."""
        whole = numbered(self.directory)
        if not whole:
            return 0
        self.restore(whole[-1])
        return step_of(whole[-1])

    def _write(self, name: str) -> None:
        if not self._writes:
            return
        prefix = os.path.join(self.directory, name)
        fresh = os.path.join(self.directory, f".writing.{name}")
        self._checkpoint.write(fresh)
        # A best checkpoint replaces one: without its index it is none, until all of the new one is in place.
        if tf.io.gfile.exists(prefix + ".index"):
            tf.io.gfile.remove(prefix + ".index")
        parts = sorted(tf.io.gfile.glob(f"{fresh}.data-*")) + [f"{fresh}.index"]
        for part in parts:
            tf.io.gfile.rename(part, prefix + part[len(fresh):], overwrite=True)


def numbered(directory: str) -> list[str]:
    """The prefixes of all whole model.ckpt-STEP of a directory, by step."""
    found = [path[: -len(".index")] for path in tf.io.gfile.glob(os.path.join(directory, f"{NAME}-*.index"))]
    return sorted((prefix for prefix in found if step_of(prefix) is not None), key=step_of)


def step_of(prefix: str) -> int | None:
    """The step in a prefix's name; None for model.ckpt-best."""
    match = re.fullmatch(rf"{re.escape(NAME)}-(\d+)", os.path.basename(prefix))
    return int(match.group(1)) if match else None


def best_or_latest(directory: str) -> str | None:
    """model.ckpt-best, else the latest model.ckpt-STEP; None where there is neither."""
    best = os.path.join(directory, BEST)
    if tf.io.gfile.exists(best + ".index"):
        return best
    whole = numbered(directory)
    return whole[-1] if whole else None


def remove_leftovers(directory: str) -> None:
    """Removes what a killed run was writing."""
    for path in tf.io.gfile.glob(os.path.join(directory, f".writing.{NAME}*")):
        tf.io.gfile.rmtree(path) if tf.io.gfile.isdir(path) else tf.io.gfile.remove(path)


def _remove(prefix: str) -> None:
    for path in [f"{prefix}.index", *tf.io.gfile.glob(f"{prefix}.data-*")]:
        tf.io.gfile.remove(path)

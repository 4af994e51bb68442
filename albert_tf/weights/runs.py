"""The runs in a directory, and their checkpoints: which there are, at which step, and which of them is meant.

A run writes model.ckpt-STEP, the latest few, and model.ckpt-best to its directory. Several runs (--num_runs) are in
folders seed_N of one directory.
"""

from __future__ import annotations

import math
import os
import re
import reprlib
from typing import Iterable, Iterator

from albert_tf.data.rows import read_json_lines
from albert_tf.utils.files import names_in
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.outputs import checkpoint_reader

NAME, BEST, HISTORY = "model.ckpt", "model.ckpt-best", "eval_history.jsonl"
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_STEP = f"step{VALUE}"
_KEY = re.compile(rf"model/(?:.*?/)??([^/]+)(?:/\.OPTIMIZER_SLOT/(?:\w+/)+(\w+))?{re.escape(VALUE)}")


def checkpoint_of(directory: str) -> str | None:
    """The best, or latest, checkpoint of the run with the highest best value in a directory; None without one."""
    runs = saved_runs(directory)
    return best_or_latest(runs[0] if len(runs) == 1 else max(runs, key=best_value)) if runs else None


def saved_runs(directory: str) -> list[str]:
    """The runs in a directory that have a checkpoint: the directory itself, then its folders seed_N by number."""
    matches = (re.fullmatch(r"seed_(\d+)/?", name) for name in names_in(directory))
    seeds = sorted(int(match[1]) for match in matches if match)
    return [run for run in (directory, *(run_directory(directory, seed) for seed in seeds)) if best_or_latest(run)]


def run_directory(directory: str, seed: int) -> str:
    """The directory of a seed's run, if there are several runs in a directory."""
    return os.path.join(directory, f"seed_{seed}")


def best_or_latest(directory: str) -> str | None:
    """The prefix of model.ckpt-best, or of the latest model.ckpt-STEP; None if there is neither."""
    best = os.path.join(directory, BEST)
    if tf.io.gfile.exists(best + ".index"):
        return best
    return next(reversed(numbered(directory).values()), None)


def best_value(directory: str) -> float:
    """The best value of a run that was evaluated; minus infinity if it is NaN or the run was not evaluated."""
    values = [-math.inf]
    for best_metric, row in stored_history(directory):
        if best_metric not in row:
            raise ValueError(f"{os.path.join(directory, HISTORY)}: 'best_metric' must be the name of a result. "
                             f"Received: {best_metric!r}")
        values.append(or_lowest(row[best_metric]))
    return max(values)


def stored_history(directory: str) -> list[tuple[str, dict]]:
    """The rows of eval_history.jsonl, each with the name of the result that decides which is the best."""
    path, history = os.path.join(directory, HISTORY), []
    for line, row in read_json_lines(path) if tf.io.gfile.exists(path) else ():
        best_metric = row.pop("best_metric", None)
        for name, value in row.items():
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                raise ValueError(f"{path} line {line}: {name!r} must be a number. Received: {reprlib.repr(value)}")
        if not isinstance(row.get("global_step"), int):
            raise ValueError(f"{path} line {line}: 'global_step' must be a whole number. "
                             f"Received: {row.get('global_step')!r}")
        history.append((best_metric, row))
    return history


def or_lowest(value: float) -> float:
    """The value; minus infinity for NaN, which is worse than any other value."""
    return -math.inf if math.isnan(value) else value


def numbered(directory: str) -> dict[int, str]:
    """The prefix of each complete model.ckpt-STEP of a directory by its step, in ascending order."""
    matches = (re.fullmatch(rf"({re.escape(NAME)}-(\d+))\.index", name) for name in names_in(directory))
    prefixes = {int(match[2]): os.path.join(directory, match[1]) for match in matches if match}
    return dict(sorted(prefixes.items()))


def saved_by_step(directory: str) -> dict[int, str]:
    """The prefix of each complete checkpoint of a directory by its step, in order; model.ckpt-best if it is alone."""
    best = os.path.join(directory, BEST)
    prefixes = {saved_step(best): best} if tf.io.gfile.exists(f"{best}.index") else {}
    return dict(sorted({**prefixes, **numbered(directory)}.items()))


def saved_step(path: str) -> int:
    """The step of a checkpoint (prefix or directory); 0 if no run of this package saved it or it cannot be read."""
    try:
        return step_in(best_or_latest(path) or path) or 0
    except unreadable_errors():
        return 0


def unreadable_errors() -> tuple[type[Exception], ...]:
    """What TensorFlow raises for a checkpoint with files that are truncated or changed."""
    return tf.errors.OpError, IndexError, RuntimeError  # IndexError: a file ended too early


def step_in(prefix: str) -> int | None:
    """The step in a checkpoint; None for weights that were not saved by a run."""
    reader = checkpoint_reader(prefix)
    return int(reader.get_tensor(_STEP)) if reader.has_tensor(_STEP) else None


def check_no_run(directory: str) -> None:
    """Raises ValueError if a run saved checkpoints in a directory to which another model is to be written."""
    if numbered(directory) or any(saved_by_step(directory)):  # a converted model.ckpt-best is of step 0
        raise ValueError(f"{directory} has the checkpoints of a training run, which needs its own settings there: "
                         "choose another directory")


def stored_variables(keys: Iterable[str]) -> Iterator[tuple[str, str, str | None]]:
    """The keys of a run's checkpoint that are variables of the model or slots: key, variable, slot (or None)."""
    for key in keys:
        match = _KEY.fullmatch(key)
        if match:  # slashes are written as ".S"
            yield key, match[1].replace(".S", "/"), match[2]

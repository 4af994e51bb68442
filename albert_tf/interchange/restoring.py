"""Putting values from elsewhere into a model's variables, by release name, and saying what came of it."""

from __future__ import annotations

import dataclasses
import re
from typing import Callable, Mapping

import tensorflow as tf
from absl import logging

_GROUP = re.compile(r"/group_\d+/")


@dataclasses.dataclass(frozen=True)
class RestoreReport:
    """What was restored, by release name.

    Args:
      restored: variables that got a value.
      not_restored: variables of the model that the source does not have; they keep their initial values.
      not_used: what the source has besides, optimizer slots and global_step left out.
    """

    restored: list[str]
    not_restored: list[str]
    not_used: list[str]

    def log(self, source: str) -> None:
        logging.info("%s: %d variables restored%s%s", source, len(self.restored),
                     f"; not restored: {', '.join(self.not_restored)}" if self.not_restored else "",
                     f"; not used: {', '.join(self.not_used)}" if self.not_used else "")


def release_name(variable: tf.Variable) -> str:
    """The name of a variable in the release's checkpoints, which is its own name."""
    return variable.name.split(":")[0]


def is_slot_or_step(name: str) -> bool:
    """Whether a name in a release checkpoint is the optimizer's and not the model's."""
    return name.endswith(("/adam_m", "/adam_v")) or name == "global_step"


def restore(
    model: tf.keras.Model, shapes: Mapping[str, list[int]], read: Callable, source: str, init_from_group0: bool = False
) -> RestoreReport:
    """Assigns to each variable of a model the value of its name, one after the other.

    Args:
      model: the model.
      shapes: the shape of every value that the source has, by release name.
      read: gives the value of a name.
      source: what to call the source in messages.
      init_from_group0: whether every group starts from group 0 of the source.

    Raises:
      ValueError: a value has another shape than its variable, or no name fits at all.
    """
    restored, not_restored, used = [], [], set()
    for variable in model.weights:
        name = release_name(variable)
        wanted = _GROUP.sub("/group_0/", name) if init_from_group0 else name
        if wanted not in shapes:
            not_restored.append(name)
            continue
        if list(shapes[wanted]) != variable.shape.as_list():
            raise ValueError(f"{source} is of another model: {wanted} has shape {list(shapes[wanted])}, "
                             f"and {variable.shape.as_list()} is wanted")
        variable.assign(read(wanted))
        used.add(wanted)
        restored.append(name)
    if not restored:
        raise ValueError(f"{source} has no variable of this model: nothing was restored")
    not_used = sorted(name for name in shapes if name not in used and not is_slot_or_step(name))
    report = RestoreReport(restored, not_restored, not_used)
    report.log(source)
    return report

"""Putting values from elsewhere into a model's variables, by release name, and saying what came of it."""

from __future__ import annotations

import dataclasses
import re

import tensorflow as tf
from absl import logging

from albert_tf.interchange.source import Source

_GROUP = re.compile(r"/group_\d+/")
# The classifier's variables: their shape depends on the number of labels, and not on the model's size alone.
_OF_THE_LABELS = ("output_weights", "output_bias")


@dataclasses.dataclass(frozen=True)
class RestoreReport:
    """What was restored, by release name.

    Args:
      restored: variables that got a value.
      not_restored: the others, which keep their initial values, each with the reason.
      not_used: what the source has besides.
      optimizer_state: slots and global_step of the source, which are never taken over here.
    """

    restored: list[str]
    not_restored: dict[str, str]
    not_used: list[str]
    optimizer_state: list[str]

    def __str__(self):
        parts = [f"{len(self.restored)} variables restored"]
        if self.not_restored:
            parts.append("not restored: " + ", ".join(f"{name} ({why})" for name, why in self.not_restored.items()))
        if self.not_used:
            parts.append("not used: " + ", ".join(self.not_used))
        if self.optimizer_state:
            parts.append(f"{len(self.optimizer_state)} of the optimizer's left aside")
        return "; ".join(parts)


def release_name(variable: tf.Variable) -> str:
    """The name of a variable in the release's checkpoints: it is made with that name, see modeling/layers.py."""
    return variable.name.split(":")[0]


def restore(model: tf.keras.Model, source: Source, init_from_group0: bool = False) -> RestoreReport:
    """Assigns to each variable of a model the value of its name, one after the other; the report is logged.

    Args:
      model: any model of albert_tf.modeling.
      source: the values.
      init_from_group0: whether every group starts from group 0 of the source.

    Raises:
      ValueError: a value has another shape than its variable, or no name fits at all: nothing is assigned then; or a
        value cannot be read. A classifier for another number of labels is no error: it is not restored (the paper
        starts RTE from MNLI).
    """
    chosen, not_restored = [], {}
    for variable in model.weights:
        name = release_name(variable)
        wanted = _GROUP.sub("/group_0/", name) if init_from_group0 else name
        theirs, ours = source.shapes.get(wanted), variable.shape.as_list()
        if theirs is None:
            not_restored[name] = "missing"
        elif list(theirs) == ours:
            chosen.append((variable, wanted))
        elif name in _OF_THE_LABELS and list(theirs[1:]) == ours[1:]:
            not_restored[name] = f"shape {list(theirs)}, not {ours}"
        else:
            raise ValueError(f"{source.path} is of another model: {wanted} has shape {list(theirs)}, and {ours} is wanted")
    if not chosen:
        raise ValueError(f"{source.path} has no variable of this model: nothing was restored")
    for variable, wanted in chosen:
        variable.assign(source.read(wanted))
    unused = sorted(set(source.shapes) - {wanted for _, wanted in chosen} - set(not_restored))
    report = RestoreReport([release_name(variable) for variable, _ in chosen], not_restored,
                           [name for name in unused if not _is_optimizer_state(name)],
                           [name for name in unused if _is_optimizer_state(name)])
    logging.info("%s: %s", source.path, report)
    return report


def _is_optimizer_state(name: str) -> bool:
    return name.endswith(("/adam_m", "/adam_v")) or name == "global_step"

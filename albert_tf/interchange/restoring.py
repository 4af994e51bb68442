"""Putting values from elsewhere into a model's variables, by release name, and saying what came of it."""

from __future__ import annotations

import dataclasses
import re
from typing import Callable, TypeVar

import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.interchange.source import Source

Made = TypeVar("Made")
_GROUP = re.compile(r"/group_\d+/")
# The release's, and the one that SavedModels of tf.train.Checkpoint have.
_COUNTERS = ("global_step", "save_counter")
# The classifier's variables: their shape depends on the number of labels, and not on the model's size alone.
_OF_THE_LABELS = ("output_weights", "output_bias", "cls/tokens/output_weights", "cls/tokens/output_bias")


@dataclasses.dataclass(frozen=True)
class RestoreReport:
    """What was restored, by release name.

    Args:
      restored: variables that got a value.
      not_restored: the others, which keep their initial values, each with the reason.
      not_used: what the source has besides.
      optimizer_state: slots and counters of the source, which are never taken over here.
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


def restore(model: keras.Model, source: Source) -> RestoreReport:
    """Assigns to each variable of a model the value of its name, one after the other; the report is logged.

    Args:
      model: any model of albert_tf.modeling.
      source: the values.

    Raises:
      ValueError: a value has another shape than its variable, or no name of the encoder fits: nothing is assigned
        then; or a value cannot be read, or is not finite. A classifier for another number of labels is no error: it is
        not restored (the paper starts RTE from MNLI).
    """
    matching = _Matching(source)
    found = [(variable, matching.find(release_name(variable), variable.shape)) for variable in model.weights]
    report = matching.report()
    for variable, name in found:
        if name is not None:
            variable.assign(source.value(name))
    logging.info("%s: %s", source.path, report)
    return report


def build_restored(
    make: Callable[[], Made], source: Source, init_from_group0: bool = False
) -> tuple[Made, RestoreReport]:
    """Makes a model whose variables hold the values of a source from the first; the report is logged.

    So no random values are drawn for them, and there is never more in memory than the model and one value.

    Args:
      make: makes the model, or what has one; under a strategy or not.
      source: the values.
      init_from_group0: whether every group starts from group 0 of the source.

    Raises:
      ValueError: as restore.
    """
    matching = _Matching(source, init_from_group0)

    def create(next_creator, **variable):
        # What is not trained is a metric, or a counter of Keras.
        name = variable["trainable"] and matching.find(variable["name"], variable["shape"])
        if name:
            variable["initial_value"] = lambda: source.value(name)
        return next_creator(**variable)

    with tf.variable_creator_scope(create):
        made = make()
    report = matching.report()
    logging.info("%s: %s", source.path, report)
    return made, report


class _Matching:
    """Which variable gets which value of a source."""

    def __init__(self, source: Source, init_from_group0: bool = False):
        self._source, self._init_from_group0 = source, init_from_group0
        self._restored: list[str] = []
        self._used: set[str] = set()
        self._not_restored: dict[str, str] = {}  # by name, why

    def find(self, name: str, shape) -> str | None:
        """The source's name of a variable's value; None where it has none.

        Raises:
          ValueError: the value has another shape.
        """
        wanted = _GROUP.sub("/group_0/", name) if self._init_from_group0 else name
        theirs, ours = self._source.shapes.get(wanted), list(shape)
        if theirs is None:
            self._not_restored[name] = "missing"
        elif list(theirs) == ours:
            self._restored.append(name)
            self._used.add(wanted)
            return wanted
        elif name in _OF_THE_LABELS and list(theirs[1:]) == ours[1:]:
            self._not_restored[name] = f"shape {list(theirs)}, not {ours}"
        else:
            raise ValueError(f"{self._source.path} is of another model: {wanted} has shape {list(theirs)}, and {ours} "
                             "is wanted")
        return None

    def report(self) -> RestoreReport:
        """Raises: ValueError: nothing was found for any variable, or nothing for the encoder."""
        if not self._restored:
            raise ValueError(f"{self._source.path} has no variable of this model: nothing was restored")
        if any(map(_is_of_the_encoder, self._not_restored)) and not any(map(_is_of_the_encoder, self._restored)):
            raise ValueError(f"{self._source.path} has a head and no encoder: if it was trained on a TF-Hub module, "
                             "that is wanted too (--albert_hub_module_handle)")
        unused = sorted(set(self._source.shapes) - self._used - set(self._not_restored))
        return RestoreReport(self._restored, self._not_restored,
                             [name for name in unused if not _is_optimizer_state(name)],
                             [name for name in unused if _is_optimizer_state(name)])


def _is_of_the_encoder(name: str) -> bool:
    return name.startswith("bert/")


def _is_optimizer_state(name: str) -> bool:
    return name.endswith(("/adam_m", "/adam_v")) or name in _COUNTERS

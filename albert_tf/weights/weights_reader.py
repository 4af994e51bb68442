"""WeightsReader: reads weights into tasks, with the user's settings."""

from __future__ import annotations

import dataclasses
from typing import Callable, TypeVar

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.training.task import Task
from albert_tf.weights.from_pretrained import load_checkpoint, load_source, make_with_weights
from albert_tf.weights.open_source import open_source
from albert_tf.weights.restoring import RestoreReport
from albert_tf.weights.source import Source, config_of
from albert_tf.weights.unsharing import unshared

AnyTask = TypeVar("AnyTask", bound=Task)


@dataclasses.dataclass(frozen=True)
class WeightsReader:
    """Reads weights as the flags of weights say.

    Args:
      trusted_module: the path that the user has set as a TF-Hub module. A TF2 module there may run its own graph.
      init_from_group0: whether to initialize every group from group 0.
      unshared_path: the path of weights that layers share, and of which each layer gets its own copy; None for none.
    """

    trusted_module: str | None = None
    init_from_group0: bool = False
    unshared_path: str | None = None

    def make(self, new_task: Callable[[], AnyTask], path: str | None) -> tuple[AnyTask, RestoreReport | None]:
        """A task with the weights at a path (random weights if it is None), and a report of what was restored.

        A trusted TF2 module is always the model's encoder, since checkpoints of a run on it have the values of its
        variables, but not its graph.

        Raises:
          ValueError: see make_with_weights.
        """
        if self.trusted_module and self.trusted_module != path:
            source = open_source(self.trusted_module, trust_module=True)
            if source.module:
                task, _ = make_with_weights(new_task, source)
                return task, load_checkpoint(task.model, path) if path else None
        if path is None:
            return new_task(), None
        return make_with_weights(new_task, self.open(path), self.init_from_group0)

    def load(self, model: keras.Model, path: str) -> RestoreReport:
        """Loads the weights at a path into an existing model.

        Raises:
          ValueError: see load_checkpoint.
        """
        return load_source(model, self.open(path))

    def step(self, path: str) -> int:
        """The step at which a run of this package saved the weights at a path; 0 for other weights.

        Raises:
          ValueError: see open_source.
        """
        return open_source(path, path == self.trusted_module).read_step()

    def open(self, path: str) -> Source:
        """The source at a path, unshared if it is unshared_path.

        Raises:
          ValueError: as open_source and unshared.
        """
        source = open_source(path, path == self.trusted_module)
        return unshared(source) if path == self.unshared_path else source

    def config(self, path: str) -> AlbertConfig | None:
        """The config of the weights at a path; None if they have none, or are a TF2 module with its own graph.

        Raises:
          ValueError: see open_source.
        """
        source = self.open(path)
        return None if source.module else config_of(source)

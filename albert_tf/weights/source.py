"""Source: a stored model in any format: weights with the release's names, config, vocabulary."""

from __future__ import annotations

import dataclasses
from typing import Callable, Mapping, Sequence

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.layers import check_finite_weights
from albert_tf.weights.settings import Settings
from albert_tf.weights.vocabulary_files import VocabularyFiles


@dataclasses.dataclass(frozen=True)
class Source:
    """A stored model, in the same form for every file format. Values are read only when they are needed.

    Args:
      path: path of the model, for messages.
      shapes: the shape of each value, by the release's name.
      read: function that returns the value with a release name.
      read_config: function that returns the model's config.
      vocabulary: the vocabulary that comes with the weights; empty if there is none.
      settings: how the model is used, as stored with the weights.
      model: which model of from_pretrained it is, if the source names it.
      module: the directory of a TF2 SavedModel whose variables have other names than the release's; `shapes` is empty
        then. It is used as an encoder. Reading its config and using it runs its graph.
      read_step: function that returns the step at which a run of this package saved the weights; 0 for other weights.
    """

    path: str
    shapes: Mapping[str, Sequence[int]]
    read: Callable[[str], tf.Tensor]
    read_config: Callable[[], AlbertConfig]
    vocabulary: VocabularyFiles = VocabularyFiles()
    settings: Settings = Settings()
    model: str | None = None
    module: str | None = None
    read_step: Callable[[], int] = lambda: 0

    def value(self, name: str) -> tf.Tensor:
        """The value with a release name.

        Raises:
          ValueError: it cannot be read, or is not finite.
        """
        value = self.read(name)
        check_finite_weights(name, value, self.path)
        return value

    def num_labels(self, kernel: str = "output_weights") -> int | None:
        """The number of labels of the classifier; None if there is no classifier.

        Args:
          kernel: the release name of the classifier's weights.

        Raises:
          ValueError: the classifier's weights are not a matrix.
        """
        shape = self.shapes.get(kernel)
        if shape is not None and len(shape) != 2:
            raise ValueError(f"{self.path}: {kernel} must be [labels, hidden_size]. "
                             f"Received shape: {list(shape)}")
        return None if shape is None else shape[0]

    @property
    def config(self) -> AlbertConfig:
        """The model's config.

        Raises:
          ValueError: the source has none, or it is wrong.
        """
        return self.read_config()


def config_of(source: Source) -> AlbertConfig | None:
    """The config of a source; None if it has none, or it is wrong."""
    try:
        return source.config
    except ValueError:
        return None

"""SQuAD 1.1 and 2.0: files -> examples -> features -> records."""

from albert_tf.tasks.squad.feature_block import SquadFeature
from albert_tf.tasks.squad.features import convert_examples_to_features
from albert_tf.tasks.squad.reading import SquadExample, read_squad_examples

__all__ = ["SquadExample", "SquadFeature", "convert_examples_to_features", "read_squad_examples"]

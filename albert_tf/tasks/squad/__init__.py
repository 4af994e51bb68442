"""SQuAD 1.1 and 2.0. The public names are loaded when first used."""

from albert_tf.utils.imports import loader_of

_MODULE_OF = {
    "SquadExample": "reading",
    "SquadFeature": "features",
    "read_squad_examples": "reading",
    "convert_examples_to_features": "features",
    "evaluate_v1": "metrics",
    "evaluate_v2": "metrics",
}
__all__ = sorted(_MODULE_OF)
__getattr__ = loader_of(__name__, _MODULE_OF)

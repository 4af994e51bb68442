"""Classification and regression of texts: GLUE, and tasks of one's own. The public names are loaded when first used."""

from albert_tf.utils.imports import loader_of

_MODULE_OF = {
    "read_examples": "data",
    "convert_examples_to_features": "data",
}
__all__ = sorted(_MODULE_OF)
__getattr__ = loader_of(__name__, _MODULE_OF)

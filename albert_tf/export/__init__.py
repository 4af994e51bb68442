"""Writes models for other programs: SavedModel, ONNX, TensorFlow Lite, TF-Hub modules; converts between formats.

The modules are loaded when first used.
"""

from albert_tf.utils.imports import loader_of

__getattr__ = loader_of(__name__)

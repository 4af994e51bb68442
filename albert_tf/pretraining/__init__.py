"""Pre-training data: converts texts to records, and records to batches. The modules are loaded when first used."""

from albert_tf.utils.imports import loader_of

__getattr__ = loader_of(__name__)

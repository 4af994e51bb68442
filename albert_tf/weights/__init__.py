"""Reads and writes weights in other formats. The modules are loaded when first used."""

from albert_tf.utils.imports import loader_of

BERT_PREFIX = "bert_model.ckpt"  # of the checkpoints of google-research/bert

__getattr__ = loader_of(__name__)

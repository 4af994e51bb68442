"""Reads and writes weights in other formats. The modules are loaded when first used."""

from albert_tf.utils.imports import loader_of

BERT_PREFIX, BERT_CONFIG = "bert_model.ckpt", "bert_config.json"  # of the checkpoints of google-research/bert

__getattr__ = loader_of(__name__)

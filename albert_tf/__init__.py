"""albert_tf: ALBERT (Lan et al., 2020) for TensorFlow 2 and Keras, as google-research/albert released it.

The public names are loaded when first used, so that importing the package costs nothing.
"""

import importlib

_HOME_OF = {
    "AlbertConfig": "albert_tf.config",
    "FullTokenizer": "albert_tf.text.tokenization",
    "preprocess_text": "albert_tf.text.normalization",
    "encode_pieces": "albert_tf.text.tokenization",
    "encode_ids": "albert_tf.text.tokenization",
    "AlbertModel": "albert_tf.modeling.albert_model",
    "AlbertPretrainer": "albert_tf.modeling.pretrainer",
    "create_optimizer": "albert_tf.training.optimizer",
    "learning_rate_schedule": "albert_tf.training.schedule",
    "from_pretrained": "albert_tf.interchange.from_pretrained",
}
_ROOMS = ("text", "data", "modeling", "tasks", "training", "interchange")

__all__ = [*_HOME_OF, *_ROOMS]


def __getattr__(name):
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"albert_tf.{name}")
    raise AttributeError(f"module 'albert_tf' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)

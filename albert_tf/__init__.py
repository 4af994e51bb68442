"""albert_tf: ALBERT (Lan et al., 2020) for TensorFlow 2 and Keras, as google-research/albert released it.

The public names are loaded when first used, so that importing the package takes no time. The import hides the log
messages of TensorFlow's C++ code, unless the environment variable TF_CPP_MIN_LOG_LEVEL is set, and turns oneDNN's
operations on for CPUs with AVX2, unless TF_ENABLE_ONEDNN_OPTS is set.
"""

import importlib
from typing import Any

from albert_tf import devices
from albert_tf.utils import imports

__version__ = "0.4.0"

_MODULE_OF = {
    "AlbertConfig": "albert_tf.config",
    "FullTokenizer": "albert_tf.text.tokenization",
    "phoneme_ids": "albert_tf.text.phonemes",
    "preprocess_text": "albert_tf.text.pieces",
    "encode_pieces": "albert_tf.text.pieces",
    "encode_ids": "albert_tf.text.pieces",
    "AlbertModel": "albert_tf.modeling.albert_model",
    "AlbertPretrainer": "albert_tf.modeling.pretrainer",
    "AlbertClassifier": "albert_tf.modeling.classifier",
    "AlbertSentenceEncoder": "albert_tf.modeling.sentence_encoder",
    "AlbertTokenClassifier": "albert_tf.modeling.classifier",
    "AlbertSpan": "albert_tf.modeling.span",
    "AlbertConditionalSpan": "albert_tf.modeling.span",
    "AlbertMultipleChoice": "albert_tf.modeling.classifier",
    "create_optimizer": "albert_tf.training.optimizer",
    "learning_rate_schedule": "albert_tf.training.optimizer",
    "from_pretrained": "albert_tf.weights.from_pretrained",
    "tokenizer_from_pretrained": "albert_tf.weights.from_pretrained",
    "save_pretrained": "albert_tf.export.conversion",
    "fill_masks": "albert_tf.tasks.masked_lm",
    "classify_texts": "albert_tf.tasks.classification.answers",
    "answer_questions": "albert_tf.tasks.squad.answers",
    "text_vectors": "albert_tf.tasks.sentence_vectors.vectors",
    "from_onnx": "albert_tf.export.onnx.session",
}
_PACKAGES = ("text", "data", "modeling", "training", "weights", "export", "pretraining", "tasks")

__all__ = ["__version__", *_MODULE_OF, *_PACKAGES]

imports.hide_messages_of_cpp()
devices.use_onednn()


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        try:
            with imports.quietly():
                return getattr(importlib.import_module(_MODULE_OF[name]), name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(imports.missing_package(f"albert_tf.{name}", error), name=error.name) from None
    if name in _PACKAGES:
        return importlib.import_module(f"albert_tf.{name}")
    raise AttributeError(f"module 'albert_tf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

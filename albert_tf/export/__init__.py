"""Writes models for other programs: SavedModel, ONNX, TensorFlow Lite, TF-Hub modules; converts between formats.

The modules are loaded when first used. Here are choices that flags have too, before TensorFlow is imported.
"""

from typing import NamedTuple

from albert_tf.utils.imports import loader_of
from albert_tf.weights import BERT_PREFIX
from albert_tf.weights.hugging_face import PL_BERT_WEIGHTS, WEIGHTS
from albert_tf.weights.runs import BEST


class Format(NamedTuple):
    """A format of models. `last_file` is written last."""

    last_file: str
    description: str


FORMATS = {
    "tf1": Format(f"{BEST}.index", "the release's checkpoint"),
    "tf1_bert": Format(f"{BERT_PREFIX}.index", "google-research/bert's checkpoint"),
    "ours": Format(f"{BEST}.index", "a checkpoint of this package"),
    "hugging_face": Format(WEIGHTS, "a folder of Hugging Face"),
    "pl_bert": Format(PL_BERT_WEIGHTS, "a checkpoint of PL-BERT for StyleTTS2"),
    "tf_hub": Format("saved_model.pb", "a TF-Hub module of TensorFlow 2"),
}
# Weights in files for ONNX and TensorFlow Lite. float16: half the size; ONNX Runtime casts them to float32 when
# it loads them. int8 (dynamic quantization): a quarter of the size; activations are quantized at run time.
PRECISIONS = ("float32", "float16", "int8")
# Names of the files, inputs and outputs of ONNX models.
LAYOUTS = ALBERT_TF, HUGGING_FACE, WEB = ("albert_tf", "hugging_face", "web")

__getattr__ = loader_of(__name__)

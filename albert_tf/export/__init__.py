"""Writes models for other programs: SavedModel, ONNX, TensorFlow Lite, TF-Hub modules; converts between formats.

The modules are loaded when first used. Here are choices that flags have too, before TensorFlow is imported.
"""

from albert_tf.training.options import BEST
from albert_tf.utils.imports import loader_of
from albert_tf.weights import BERT_PREFIX
from albert_tf.weights.hugging_face import WEIGHTS

# By the name of a format of models: the file that is written last.
FORMATS = {"tf1": f"{BEST}.index", "tf1_bert": f"{BERT_PREFIX}.index", "ours": f"{BEST}.index",
           "hugging_face": WEIGHTS, "tf_hub": "saved_model.pb"}
# Of the weights in files for ONNX and TensorFlow Lite. float16: half the size; ONNX Runtime casts them to float32 when
# it loads them. int8 (dynamic quantization): a quarter of the size; activations are quantized at run time.
PRECISIONS = ("float32", "float16", "int8")

__getattr__ = loader_of(__name__)

"""Pages without a server."""

from albert_tf.export.onnx.hugging_face import FILES
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import to_onnx, write_hugging_face_folder
from albert_tf.server.web import page_files, scripts
from albert_tf.weights.stored_model import shipped_model
from albert_tf.weights.vocabulary import VocabularyFiles

NODE_MODULES = "ALBERT_TF_NODE_MODULES"  # the folder in which npm has installed the JavaScript of the page
VOCABULARY = VocabularyFiles(f"{shipped_model('albert_tiny_en')}/spiece.model", None, True, False)


def write_page(folder, name, model, node_modules, precision="float32", vocabulary=VOCABULARY):
    """Writes a page as export_to_onnx --layout=web does."""
    content = to_onnx(model, precision, separator=vocabulary.tokenizer().vocab["[SEP]"])
    files = page_files(name, OnnxModel(content, model.settings, vocabulary), FILES[precision])
    write_hugging_face_folder(model, str(folder), vocabulary, {precision: content}, None,
                              {**scripts(node_modules), **files})

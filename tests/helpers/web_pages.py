"""Pages without a server, and a static host for them."""

import contextlib
import functools
import http.server
import threading

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


class _Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm",
                      ".js": "text/javascript", ".mjs": "text/javascript"}

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def static_site(folder):
    """Yields the URL of the files of a folder."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

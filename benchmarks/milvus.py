"""Milliseconds of a text in the default embedding function of Milvus and GPTCache, for several models in turns.

    .environments/onnx-readers/bin/python benchmarks/milvus.py TEXTS FOLDER FOLDER

TEXTS has a text on each line. A folder is one that export_to_onnx --layout=hugging_face wrote, or the function's own
model: GPTCache/paraphrase-albert-onnx and GPTCache/paraphrase-albert-small-v2 of the Hub, downloaded to one folder.
"""

import pathlib
import sys
import time

import huggingface_hub

huggingface_hub.hf_hub_download = lambda repo_id, filename: f"{repo_id}/{filename}"
from pymilvus.model.dense.onnx import OnnxEmbeddingFunction  # noqa: E402

texts = pathlib.Path(sys.argv[1]).read_text("utf-8").splitlines()
functions = {folder: OnnxEmbeddingFunction(folder, folder) for folder in sys.argv[2:]}
for folder, function in [*functions.items()] * 5:
    start = time.monotonic()
    for text in texts:
        function([text])
    print(f"{1000 * (time.monotonic() - start) / len(texts):8.1f} {folder}")

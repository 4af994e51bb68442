"""Runs a classifier in one of its exported forms, from ids to logits.

    python -m benchmarks.workers.exported_model saved_model|tflite|onnx PATH SENTENCES.json

A step is one sentence, another one each time. Each form is run with its own library and nothing of albert_tf.
"""

import itertools
import json
import os
import sys
from typing import Callable

import numpy as np

from benchmarks.workers.serving import WARM_UP, serve

THREADS = int(os.environ.get("OMP_NUM_THREADS", 1))  # TensorFlow reads variables of its own


def make_step():
    kind, path, sentences_file = sys.argv[1:]
    run = runner(kind, path)
    with open(sentences_file, encoding="utf-8") as file:
        rows = [{name: np.array([values], np.int32) for name, values in row.items()} for row in json.load(file)]
    one_by_one = itertools.cycle(rows)
    for _ in range(WARM_UP):
        run(next(one_by_one))
    return lambda: run(next(one_by_one))


def runner(kind: str, path: str) -> Callable[[dict], np.ndarray]:
    """A function from int32 inputs [1, seq] to logits [1, labels]."""
    return dict(saved_model=_saved_model, tflite=_tflite, onnx=_onnx)[kind](path)


def _saved_model(path):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the ops of the tokenization

    loaded = tf.saved_model.load(path)
    signature = loaded.signatures["ids"]

    def run(inputs):
        return signature(**{name: tf.constant(values) for name, values in inputs.items()})["logits"].numpy()

    run.loaded = loaded  # keeps its variables alive
    return run


def _tflite(path):
    from albert_tf.export.tflite import interpreter_of

    with open(path, "rb") as file:
        signature = interpreter_of(file.read(), THREADS).get_signature_runner()
    length = signature.get_input_details()["input_ids"]["shape"][1]

    def run(inputs):
        padded = {name: np.pad(values, [[0, 0], [0, length - values.shape[1]]]) for name, values in inputs.items()}
        return signature(**padded)["logits"]

    return run


def _onnx(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(["logits"], inputs)[0]


if __name__ == "__main__":
    serve(make_step, first_steps=0)

"""Fills masks with an ONNX model of export_to_onnx and our own tokenizer, as `serve --onnx_model` does.

    python -m benchmarks.workers.onnx_model FILE.onnx SENTENCES.json

A step is one sentence, another one each time. OMP_NUM_THREADS is the number of threads.
"""

import itertools
import json
import os
import sys

from albert_tf.export.onnx.session import OnnxModel
from albert_tf.tasks.masked_lm.fill_mask import fill_texts
from albert_tf.weights.settings import vocabulary_in
from benchmarks.workers.serving import WARM_UP, serve


def make_step():
    path, sentences_file = sys.argv[1:]
    model = OnnxModel(path, vocabulary=vocabulary_in(os.path.dirname(path)),
                      threads=int(os.environ.get("OMP_NUM_THREADS", 2)))
    tokenizer = model.tokenizer
    with open(sentences_file, encoding="utf-8") as file:
        one_by_one = itertools.cycle(json.load(file))

    def one():
        return fill_texts(model, tokenizer, [next(one_by_one)])

    for _ in range(WARM_UP):
        one()
    return one


if __name__ == "__main__":
    serve(make_step, first_steps=0)

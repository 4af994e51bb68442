"""Fills masks with an exported model: a SavedModel as a server would, or an ONNX file as `serve --onnx_model` does.

    python -m benchmarks.workers.mask_filling saved_model|onnx PATH SENTENCES.json one|many

With "one" a step is one sentence, another one each time. With "many" a step is all sentences, in batches of similar
length. A SavedModel needs TensorFlow and tensorflow_text alone. OMP_NUM_THREADS is the number of ONNX's threads.
"""

import itertools
import json
import os
import sys

from benchmarks.workers.serving import SENTENCES_TOGETHER, WARM_UP, serve


def make_step():
    kind, path, sentences_file, what = sys.argv[1:]
    fill = dict(saved_model=_saved_model, onnx=_onnx)[kind](path)
    with open(sentences_file, encoding="utf-8") as file:
        sentences = json.load(file)
    one_by_one = itertools.cycle(sentences)
    by_length = sorted(sentences, key=len)

    def one():
        return fill([next(one_by_one)])

    def many():
        return [fill(by_length[first : first + SENTENCES_TOGETHER])
                for first in range(0, len(by_length), SENTENCES_TOGETHER)]

    for _ in range(WARM_UP):
        one()
    return dict(one=one, many=many)[what]


def _saved_model(path):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the ops

    signature = tf.saved_model.load(path).signatures["serving_default"]
    return lambda texts: signature(text=tf.constant(texts))["pieces"].numpy()


def _onnx(path):
    from albert_tf.export.onnx.session import OnnxModel
    from albert_tf.tasks.masked_lm import fill_texts
    from albert_tf.weights.vocabulary import vocabulary_in

    model = OnnxModel(path, vocabulary=vocabulary_in(os.path.dirname(path)),
                      threads=int(os.environ.get("OMP_NUM_THREADS", 2)))
    tokenizer = model.tokenizer
    return lambda texts: fill_texts(model, tokenizer, texts)


if __name__ == "__main__":
    serve(make_step, first_steps=0)

"""Calls a SavedModel that fills masks as a server would, with TensorFlow and tensorflow_text alone.

    python -m benchmarks.workers.saved_model FOLDER SENTENCES.json one|many

With "one" a step is one sentence, another one each time. With "many" a step is all sentences, in batches of similar
length.
"""

import itertools
import json
import sys

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops

from benchmarks.workers.serving import SENTENCES_TOGETHER, WARM_UP, serve


def make_step():
    folder, sentences_file, what = sys.argv[1:]
    fill = tf.saved_model.load(folder).signatures["serving_default"]
    with open(sentences_file, encoding="utf-8") as file:
        sentences = json.load(file)
    one_by_one = itertools.cycle(sentences)
    by_length = sorted(sentences, key=len)

    def one():
        return fill(text=tf.constant([next(one_by_one)]))["pieces"].numpy()

    def many():
        return [fill(text=tf.constant(by_length[first : first + SENTENCES_TOGETHER]))["pieces"].numpy()
                for first in range(0, len(by_length), SENTENCES_TOGETHER)]

    for _ in range(WARM_UP):
        one()
    return dict(one=one, many=many)[what]


if __name__ == "__main__":
    serve(make_step, first_steps=0)

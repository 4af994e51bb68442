"""Calls a SavedModel, with only TensorFlow and tensorflow_text imported.

    python saved_model_client.py FOLDER < questions.json > answers.json

questions: a list of [signature, {input: nested list}]. answers: a list of {output: nested list}, or of the error's
text.
"""

import json
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops

IDS = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")


def answer(signature, inputs):
    tensors = {name: tf.constant([bytes.fromhex(row) for row in values]) if name == "examples"
               else tf.constant(values, tf.int32 if name in IDS else tf.string) for name, values in inputs.items()}
    try:
        outputs = loaded.signatures[signature](**tensors)
    except tf.errors.OpError as error:
        return error.message
    return {name: np.char.decode(output.numpy().astype(bytes), "utf-8").tolist() if output.dtype == tf.string
            else output.numpy().tolist() for name, output in outputs.items()}


loaded = tf.saved_model.load(sys.argv[1])
answers = [answer(*question) for question in json.load(sys.stdin)]
assert not any(name.startswith("albert_tf") for name in sys.modules)
json.dump(answers, sys.stdout)

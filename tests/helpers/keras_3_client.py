"""Calls a SavedModel as a layer of Keras 3. Needs Keras 3, TensorFlow and tensorflow_text, and nothing of ours.

    python keras_3_client.py FOLDER OUTPUT TEXT...    prints an output for the texts as JSON, in and around a model
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of the tokenization

folder, output, *texts = sys.argv[1:]
layer = keras.layers.TFSMLayer(folder, call_endpoint="serving_default")
text = keras.Input([], dtype="string")
model = keras.Model(text, keras.layers.Rescaling(2.0)(layer(text)[output]))
print(json.dumps(dict(layer=np.asarray(layer(tf.constant(texts))[output]).tolist(),
                      model=model.predict(tf.constant(texts), verbose=0).tolist())))

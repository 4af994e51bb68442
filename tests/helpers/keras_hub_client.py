"""Loads a folder with keras-hub and computes: python keras_hub_client.py FOLDER CLASS INPUTS.npz OUTPUTS.npz

An activation after the paths replaces keras-hub's own. Needs keras-hub, and nothing of ours.
"""

import os
import sys

import keras
import keras_hub
import numpy as np

folder, class_name, inputs_path, outputs_path, *activation = sys.argv[1:]
model = getattr(keras_hub.models, class_name).from_preset(folder)
for layer in model.layers:
    if activation and hasattr(layer, "_feedforward_intermediate_dense"):
        layer._feedforward_intermediate_dense.activation = keras.activations.get(*activation)
inputs = np.load(inputs_path)
outputs = model({name: inputs[name] for name in inputs.files})
if os.path.exists(os.path.join(folder, "spiece.model")):
    outputs["ids"] = keras_hub.models.AlbertTokenizer.from_preset(folder)("the name of the file")
np.savez(outputs_path, **{name: np.asarray(value) for name, value in outputs.items()})

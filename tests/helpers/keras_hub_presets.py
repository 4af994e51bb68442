"""Writes and reads presets of keras-hub. Needs keras-hub, and nothing of ours.

    python keras_hub_presets.py write VOCABULARY FOLDER INPUTS.npz KIND E  a random model, and its outputs in out.npz
    python keras_hub_presets.py read FOLDER INPUTS.npz KIND                  the outputs of the preset in out.npz

KIND is encoder, classifier or pretrainer, E the size of the embedding. out.npz lies in FOLDER.
"""

import os
import sys

import keras
import keras_hub
import numpy as np

CLASSES = dict(encoder="AlbertBackbone", classifier="AlbertTextClassifier", pretrainer="AlbertMaskedLM")


def random_model(vocabulary, kind, embedding_dim):
    """A model with large random values, so that wrong places of values are seen."""
    keras.utils.set_random_seed(1)
    models = keras_hub.models
    backbone = models.AlbertBackbone(2000, num_layers=4, num_heads=2, embedding_dim=embedding_dim, hidden_dim=8,
                                     intermediate_dim=16, num_groups=2, num_inner_repetitions=2, max_sequence_length=16)
    tokenizer = models.AlbertTokenizer(vocabulary)
    model = backbone
    if kind == "classifier":
        preprocessor = models.AlbertTextClassifierPreprocessor(tokenizer, sequence_length=16)
        model = models.AlbertTextClassifier(backbone, num_classes=3, preprocessor=preprocessor)
    if kind == "pretrainer":
        preprocessor = models.AlbertMaskedLMPreprocessor(tokenizer, sequence_length=16, mask_selection_length=2)
        model = models.AlbertMaskedLM(backbone, preprocessor=preprocessor)
    random = np.random.default_rng(1)
    for variable in model.weights:
        variable.assign(random.normal(scale=0.3, size=variable.shape))
    if embedding_dim == 8:
        backbone.embeddings_projection.set_weights([np.eye(8), np.zeros(8)])
    return model, tokenizer


mode, *arguments = sys.argv[1:]
if mode == "write":
    vocabulary, folder, inputs_path, kind, embedding_dim = arguments
    model, tokenizer = random_model(vocabulary, kind, int(embedding_dim))
    model.save_to_preset(folder)
    tokenizer.save_to_preset(folder)
else:
    folder, inputs_path, kind = arguments
    model = getattr(keras_hub.models, CLASSES[kind]).from_preset(folder, **(
        {} if kind == "encoder" else dict(preprocessor=None)))
    tokenizer = keras_hub.models.AlbertTokenizer.from_preset(folder)
inputs = dict(np.load(inputs_path))
outputs = model({key: value for key, value in inputs.items() if key != "mask_positions" or kind == "pretrainer"})
if kind == "pretrainer":  # the head's LayerNorm has an epsilon of its own: its outputs, and those with the encoder's
    own, model.masked_lm_head._intermediate_layer_norm.epsilon = outputs, 1e-12
    outputs = dict(own=own, outputs=model(inputs))
outputs = outputs if isinstance(outputs, dict) else dict(outputs=outputs)
np.savez(os.path.join(folder, "out.npz"), ids=np.asarray(tokenizer("the name of the file")),
         **{name: np.asarray(value) for name, value in outputs.items()})

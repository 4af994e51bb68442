"""Makes the folders beside it: presets of keras-hub with large random values, and their outputs in outputs.npz.

    python tests/golden/keras_hub/make.py

It needs keras-hub 0.32. The vocabulary, tiny_spm/tiny.model, is left out: tests put it into assets/tokenizer.
"""

import pathlib
import shutil

import keras
import keras_hub
import numpy as np

HERE = pathlib.Path(__file__).parent
VOCABULARY = HERE.parent / "tiny_spm/tiny.model"


def made(kind, embedding_dim):
    """The model and its tokenizer."""
    models = keras_hub.models
    backbone = models.AlbertBackbone(2000, num_layers=4, num_heads=2, embedding_dim=embedding_dim, hidden_dim=8,
                                     intermediate_dim=16, num_groups=2, num_inner_repetitions=2, max_sequence_length=16)
    tokenizer, model = models.AlbertTokenizer(str(VOCABULARY)), backbone
    if kind == "classifier":
        preprocessor = models.AlbertTextClassifierPreprocessor(tokenizer, sequence_length=16)
        model = models.AlbertTextClassifier(backbone, num_classes=3, preprocessor=preprocessor)
    if kind == "pretrainer":
        preprocessor = models.AlbertMaskedLMPreprocessor(tokenizer, sequence_length=16, mask_selection_length=2)
        model = models.AlbertMaskedLM(backbone, preprocessor=preprocessor)
    random = np.random.default_rng(1)
    for variable in model.weights:
        variable.assign(random.normal(scale=0.3, size=variable.shape))
    if embedding_dim == 8:  # the release has no mapping there
        backbone.embeddings_projection.set_weights([np.eye(8), np.zeros(8)])
    return model, tokenizer


def main():
    inputs = dict(np.load(HERE / "inputs.npz"))
    for name, kind, embedding_dim in (("encoder", "encoder", 4), ("equal_sizes", "encoder", 8),
                                      ("classifier", "classifier", 4), ("pretrainer", "pretrainer", 4)):
        keras.utils.set_random_seed(1)
        model, tokenizer = made(kind, embedding_dim)
        folder = HERE / name
        model.save_to_preset(folder)
        tokenizer.save_to_preset(folder)
        shutil.rmtree(folder / "assets")
        outputs = model({key: value for key, value in inputs.items()
                         if key != "mask_positions" or kind == "pretrainer"})
        if kind == "pretrainer":  # the head's LayerNorm has an epsilon of its own: with it, and with the encoder's
            own, model.masked_lm_head._intermediate_layer_norm.epsilon = outputs, 1e-12
            outputs = dict(own=own, outputs=model(inputs))
        outputs = outputs if isinstance(outputs, dict) else dict(outputs=outputs)
        np.savez(folder / "outputs.npz", ids=np.asarray(tokenizer("the name of the file")),
                 **{output: np.asarray(value) for output, value in outputs.items()})


if __name__ == "__main__":
    main()

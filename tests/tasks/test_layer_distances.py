"""How far layers move their inputs."""

import numpy as np
import pytest

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.tasks.layer_distances import _angle, layer_distances

CONFIG = AlbertConfig(vocab_size=30, embedding_size=4, hidden_size=8, num_hidden_layers=3, num_attention_heads=2,
                      intermediate_size=16, max_position_embeddings=8)
INPUTS = dict(input_ids=np.array([[1, 2, 3, 4], [5, 6, 0, 0]], np.int32), segment_ids=np.zeros([2, 4], np.int32),
              input_mask=np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32))


@pytest.mark.parametrize("embedding_size", [4, 8])
def test_distances_and_angles_are_means_over_the_tokens_of_each_text(embedding_size):
    keras.utils.set_random_seed(1)
    model = AlbertModel(CONFIG.replace(embedding_size=embedding_size))
    outputs = model(INPUTS)
    mapping = model.encoder.embedding_hidden_mapping_in
    first = outputs["embedding_output"] if mapping is None else mapping(outputs["embedding_output"])
    states = np.stack([first, *outputs["encoder_outputs"]]).astype(np.float64)
    for text, length in enumerate([4, 2]):
        a, b = states[:-1, text, :length], states[1:, text, :length]  # [layers, tokens, H]
        cosines = (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
        measured = layer_distances(model, INPUTS)
        np.testing.assert_allclose(measured["distances"][text], np.linalg.norm(b - a, axis=-1).mean(-1), rtol=1e-4)
        np.testing.assert_allclose(measured["angles"][text], np.degrees(np.arccos(cosines)).mean(-1), rtol=1e-3)


@pytest.mark.parametrize("a, b, degrees", [
    ([1, 0], [5, 0], 0), ([1, 0], [0, 2], 90), ([1, 0], [-1, 0], 180), ([1, 0], [1, 1e-3], 0.0572958)])
def test_known_angles(a, b, degrees):
    np.testing.assert_allclose(_angle(np.array(a, np.float32), np.array(b, np.float32)), degrees, rtol=1e-4, atol=1e-4)

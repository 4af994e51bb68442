"""Small models for tests, and batches for them."""

import numpy as np
import pytest

from albert_tf import keras
from albert_tf.config import AlbertConfig


@pytest.fixture(scope="session")
def tiny_config():
    return AlbertConfig(vocab_size=50, embedding_size=8, hidden_size=16, num_hidden_layers=4, num_attention_heads=2,
                        intermediate_size=32, max_position_embeddings=16)


@pytest.fixture(scope="session")
def tiny_batch():
    random = np.random.default_rng(1)
    mask = np.ones([3, 12], np.int32)
    mask[1, 7:] = 0
    return dict(input_ids=random.integers(0, 50, [3, 12], np.int32), input_mask=mask,
                segment_ids=random.integers(0, 2, [3, 12], np.int32),
                masked_lm_positions=random.integers(0, 12, [3, 4], np.int32))


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(1)

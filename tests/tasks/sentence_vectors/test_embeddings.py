"""Vectors of texts do not depend on the other texts of a batch."""

import numpy as np
import pytest
from tiny import TINY_TEXT

from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.tasks.sentence_vectors.vectors import embed, token_ids

TEXTS = ["the name of the file", "", "a " * 40, "of", "the"]


@pytest.fixture(scope="module")
def model():
    return AlbertSentenceEncoder(TINY_TEXT.replace(max_position_embeddings=16), pooling="pooler")


@pytest.mark.parametrize("batch_size", [1, 2, 10])
def test_each_text_has_the_vectors_that_it_has_alone(sentence_pieces, model, batch_size):
    rows = token_ids(sentence_pieces, TEXTS, 16)
    found = dict(embed(model, rows, batch_size))
    assert sorted(found) == [0, 1, 2, 3, 4]
    for text, row in enumerate(rows):
        ids = row[None]
        alone = model(dict(input_ids=ids, input_mask=np.ones_like(ids), segment_ids=np.zeros_like(ids)))
        np.testing.assert_allclose(found[text], alone["pooled_output"][0], atol=1e-5)

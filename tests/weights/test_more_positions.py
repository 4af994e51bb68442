"""A model with more positions than its checkpoint: the missing positions repeat those that are there."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.weights.from_pretrained import build, load_into
from albert_tf.weights.stored_model import open_source

TINY = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=6)
LONGER = TINY.replace(max_position_embeddings=15)


def inputs(length):
    ids = np.arange(2 * length, dtype=np.int32).reshape(2, length) % TINY.vocab_size
    return dict(input_ids=ids, input_mask=np.ones_like(ids), segment_ids=np.zeros_like(ids))


@pytest.fixture
def stored(tmp_path):
    """A model with 6 positions, and the source of its checkpoint."""
    model = AlbertModel(TINY)
    save(model, str(tmp_path), "ours")
    return model, open_source(str(tmp_path))


def restored(source):
    model = AlbertModel(LONGER)
    load_into(model, source)
    return model


@pytest.mark.parametrize("make", [restored, lambda source: build(source, lambda: AlbertModel(LONGER))[0]],
                         ids=["load_into", "build"])
def test_missing_positions_repeat_those_of_the_checkpoint(stored, make, caplog):
    model, source = stored
    longer = make(source)
    table = model.embeddings.position_embeddings.numpy()
    np.testing.assert_array_equal(longer.embeddings.position_embeddings, np.concatenate([table, table, table[:3]]))
    np.testing.assert_array_equal(longer(inputs(6))["sequence_output"],
                                  model(inputs(6))["sequence_output"])
    assert "has 6 positions, the model 15" in caplog.text


def test_a_model_with_fewer_positions_or_another_width_is_another_model(stored):
    _, source = stored
    for config in (TINY.replace(max_position_embeddings=5), LONGER.replace(embedding_size=8)):
        with pytest.raises(ValueError, match="is another model: bert/embeddings/.*_embeddings has shape"):
            load_into(AlbertModel(config), source)


def test_the_restored_positions_can_be_trained(stored):
    _, source = stored
    longer = restored(source)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(longer(inputs(15))["pooled_output"])
    gradient = tf.convert_to_tensor(tape.gradient(loss, longer.embeddings.position_embeddings))
    assert gradient.shape == [15, 4] and np.all(np.abs(gradient).max(axis=1) > 0)

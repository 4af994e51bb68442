"""A model with wider embeddings starts close to the narrow one."""

import numpy as np
import pytest
from in_process import loaded

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.weights.from_pretrained import build, from_pretrained
from albert_tf.weights.stored_model import open_source
from albert_tf.weights.widening import widened

pytestmark = pytest.mark.both_stacks

CONFIG = AlbertConfig(vocab_size=50, embedding_size=32, hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
                      intermediate_size=64, max_position_embeddings=8, initializer_range=0.1)


@pytest.fixture
def narrow(tmp_path):
    keras.utils.set_random_seed(1)
    model = AlbertPretrainer(CONFIG)
    save(model, str(tmp_path / "narrow"), "ours")
    return model, str(tmp_path / "narrow")


def batch():
    rng = np.random.default_rng(0)
    return dict(input_ids=rng.integers(0, 50, [4, 8]), input_mask=np.ones([4, 8], int),
                segment_ids=np.zeros([4, 8], int), masked_lm_positions=np.array([[1, 2]] * 4))


def test_the_encoder_of_a_widened_model_computes_nearly_the_same(narrow):
    model, path = narrow
    wide, report = build(widened(open_source(path), 48), "pretrainer")
    assert wide.config == CONFIG.replace(embedding_size=48)
    assert not report.not_restored and not report.not_used
    expected, found = (m(batch())["sequence_output"].numpy().ravel() for m in (model, wide))
    assert np.corrcoef(expected, found)[0, 1] > 0.98
    assert 0.9 < np.std(found) / np.std(expected) < 1.1


def test_existing_columns_are_kept_and_new_ones_are_not_read_at_first(narrow):
    _, path = narrow
    source = widened(open_source(path), 48)
    words = source.value("bert/embeddings/word_embeddings").numpy()
    np.testing.assert_array_equal(words[:, :32], open_source(path).value("bert/embeddings/word_embeddings"))
    assert 0 < np.abs(words[:, 32:]).max() <= 0.04
    mapping = source.value("bert/encoder/embedding_hidden_mapping_in/kernel").numpy()
    assert mapping.shape == (48, 64) and not mapping[32:].any() and mapping[:32].any()


def test_new_columns_do_not_depend_on_the_order_of_reading(narrow):
    _, path = narrow
    names = ["bert/embeddings/word_embeddings", "bert/embeddings/position_embeddings"]
    first, second = (widened(open_source(path), 48) for _ in range(2))
    for a, b in zip([first.value(name) for name in names], [second.value(name) for name in reversed(names)][::-1]):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size, message", [(32, "size 32, which can only become larger. Received: 32"),
                                           (64, r"hidden size \(64\) have no mapping")])
def test_a_size_that_is_not_larger_or_has_no_mapping_is_refused(narrow, size, message):
    with pytest.raises(ValueError, match=message):
        widened(open_source(narrow[1]), size)


def test_a_conversion_widens(narrow, tmp_path):
    with loaded("convert_checkpoint") as run:
        assert run(init_checkpoint=narrow[1], to="hugging_face", embedding_size=48, output_dir=tmp_path / "wide") == 0
    assert from_pretrained(str(tmp_path / "wide"), model="pretrainer").config.embedding_size == 48

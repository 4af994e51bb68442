"""Vectors of texts: pooling, sizes and precisions."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY, rows

from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.vectors import VectorPrecision, as_ranges, normalized, pooled

OUTPUTS = dict(sequence_output=np.array([[[1.0, -2.0], [3.0, -4.0], [50.0, 60.0]]], np.float32),
               pooled_output=np.array([[0.5, 0.25]], np.float32))
MASK = np.array([[1, 1, 0]], np.int32)


@pytest.mark.parametrize("pooling, expected", [
    ("mean", [2, -3]), ("max", [3, -2]), ("cls", [1, -2]), ("pooler", [0.5, 0.25])])
def test_padding_does_not_count(pooling, expected):
    np.testing.assert_allclose(pooled(OUTPUTS, MASK, pooling), [expected], atol=1e-6)


def test_rows_of_padding_and_of_zeros_have_finite_vectors():
    for pooling in ("mean", "max"):
        assert np.isfinite(pooled(OUTPUTS, np.zeros_like(MASK), pooling)).all()
    np.testing.assert_allclose(normalized(tf.constant([[3.0, 4.0], [0.0, 0.0]])), [[0.6, 0.8], [0, 0]], atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "max", "cls", "pooler"])
def test_the_model_gives_the_same_for_texts_side_by_side(tiny_config, tiny_batch, pooling):
    model = AlbertSentenceEncoder(tiny_config, pooling, normalize=True)
    vectors = model(tiny_batch)["sentence_embedding"]
    assert vectors.shape == [3, 16]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    outputs = model.albert(tiny_batch)
    np.testing.assert_allclose(vectors, normalized(pooled(outputs, tf.constant(tiny_batch["input_mask"]), pooling)),
                               atol=1e-6)
    pairs = {name: np.stack([value, value[::-1]], axis=1) for name, value in tiny_batch.items()}
    both = model(pairs)["sentence_embedding"]
    assert both.shape == [3, 2, 16]
    np.testing.assert_allclose(both[:, 0], vectors, atol=1e-5)
    np.testing.assert_allclose(both[:, 1], vectors[::-1], atol=1e-5)


CONFIG = TINY.replace(hidden_size=12, initializer_range=0.5)
INPUTS = rows(4, 4)


@pytest.fixture(scope="module")
def numbers(golden):
    return json.loads((golden / "sentence_transformers/numbers.json").read_text())["precisions"]


def test_stored_vectors_are_those_of_sentence_transformers(numbers):
    vectors = np.array(numbers["vectors"], np.float32)
    for precision in (VectorPrecision("int8", as_ranges(numbers["ranges"])), VectorPrecision("binary")):
        stored = precision.stored(vectors)
        assert stored.dtype == "int8" and stored.numpy().tolist() == numbers[precision.name]
    np.testing.assert_array_equal(VectorPrecision().stored(vectors), vectors)


def test_restored_vectors_differ_by_a_step_and_bits_give_hamming_distances(numbers):
    ranges = np.array(numbers["ranges"], np.float32)
    inside = np.random.default_rng(1).uniform(ranges[0], ranges[1], [20, 12]).astype(np.float32)
    int8, binary = VectorPrecision("int8", as_ranges(ranges)), VectorPrecision("binary")
    assert (np.abs(int8.restored(int8.stored(inside), 12) - inside) <= (ranges[1] - ranges[0]) / 255 + 1e-5).all()
    stored = binary.stored(inside)
    assert stored.shape == (20, 2)
    restored = binary.restored(stored, 12).numpy()
    distances = (inside[:, None] > 0) != (inside[None] > 0)
    np.testing.assert_array_equal(restored @ restored.T, 12 - 2 * distances.sum(axis=-1))


def test_vectors_are_truncated_before_they_are_normalized():
    whole = AlbertSentenceEncoder(CONFIG)
    model = AlbertSentenceEncoder(CONFIG, normalize=True, truncate_dim=5, vector_precision="binary")
    model.set_weights(whole.get_weights())
    first = whole(INPUTS)["sentence_embedding"].numpy()[:, :5]
    outputs = model(INPUTS)
    np.testing.assert_allclose(outputs["sentence_embedding"], first / np.linalg.norm(first, axis=1, keepdims=True),
                               atol=1e-6)
    exported = model.exported_outputs(outputs)["sentence_embedding"].numpy()
    np.testing.assert_array_equal(exported, np.packbits(first > 0, axis=1).view(np.int8) ^ -128)
    again = AlbertSentenceEncoder.from_config(model.get_config())
    assert (again.settings.truncate_dim, again.vector_precision, again.vector_size) == (5, "binary", 5)


def test_ranges_are_part_of_the_models_config():
    ranges = [[-1.0] * 12, [1.0] * 12]
    model = AlbertSentenceEncoder(CONFIG, vector_precision="int8", vector_ranges=ranges)
    again = AlbertSentenceEncoder.from_config(json.loads(json.dumps(model.get_config())))
    assert again.stored_vectors == model.stored_vectors

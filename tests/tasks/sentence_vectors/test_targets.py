"""The vectors that a student learns, by NumPy's decomposition."""

import numpy as np

from albert_tf.tasks.sentence_vectors.vectors import projection

RANDOM = np.random.default_rng(3)


def test_vectors_of_another_width_keep_their_products_as_far_as_the_width_allows():
    vectors = RANDOM.normal(0, 2, [50, 8]).astype(np.float32)
    np.testing.assert_array_equal(vectors @ projection(vectors, 8), vectors)
    wide = vectors @ projection(vectors, 12)
    np.testing.assert_allclose(wide @ wide.T, vectors @ vectors.T, atol=1e-4)
    u, s, v = np.linalg.svd(vectors.astype(float), full_matrices=False)
    best = (u[:, :3] * s[:3]) @ v[:3]  # of rank 3
    narrow = vectors @ projection(vectors, 3)
    assert narrow.shape == (50, 3) and narrow.dtype == np.float32
    np.testing.assert_allclose(narrow @ narrow.T, best @ best.T, atol=1e-3)


def test_turned_vectors_keep_their_products_and_find_back_to_those_that_were_turned():
    vectors = RANDOM.normal(0, 2, [50, 8]).astype(np.float32)
    rotation, _ = np.linalg.qr(RANDOM.normal(size=[8, 8]))
    own = (3 * vectors @ rotation).astype(np.float32)
    turned = vectors @ projection(vectors, 8, own[::5], slice(None, None, 5))
    np.testing.assert_allclose(3 * turned, own, atol=1e-4)
    for size in (8, 12):
        others = vectors @ projection(vectors, size, RANDOM.normal(size=[50, size]).astype(np.float32))
        np.testing.assert_allclose(others @ others.T, vectors @ vectors.T, atol=1e-4)
        assert not np.allclose(others[:, :8], vectors, atol=0.1)

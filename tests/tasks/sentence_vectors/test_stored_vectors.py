"""Files of vectors in other precisions, exports and search with them."""

import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from tiny import TINY_TEXT

from albert_tf import keras
from albert_tf.export import tflite
from albert_tf.export.onnx.writing import differences, to_onnx
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.vectors import VectorPrecision
from albert_tf.tasks.sentence_vectors.vectors import (
    export_sentence_encoder,
    nearest_lines,
    open_vectors,
    ranges_in,
    ranges_path,
    unit_vectors_function,
    write_stored,
)

LINES = ["the name of the file", "a kettle stood on the stove", "he sold the boat", "nobody had filled it", "a boat"]
CONFIG = TINY_TEXT.replace(max_position_embeddings=16, initializer_range=0.5)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    return AlbertSentenceEncoder(CONFIG, normalize=True, truncate_dim=12)


@pytest.fixture(scope="module")
def exact(model, sentence_pieces, tmp_path_factory):
    """The path of a file with the float32 vectors of the lines."""
    path = tmp_path_factory.mktemp("vectors") / "vectors.npy"
    np.save(path, unit_vectors_function(model, sentence_pieces)(LINES))
    return str(path)


def precision_of(name, exact):
    return VectorPrecision(name, ranges_in(exact) if name == "int8" else None)


def other_model(model, exact, name):
    precision = precision_of(name, exact)
    other = AlbertSentenceEncoder.from_config(dict(model.get_config(), vector_precision=name,
                                                   vector_ranges=precision.ranges))
    other.set_weights(model.get_weights())
    return other


def describe(path, **made_from):
    """Writes the manifest of a file."""
    files = {os.path.basename(path): dict(size=os.path.getsize(path))}
    pathlib.Path(f"{path}.manifest.json").write_text(json.dumps(dict(complete=True, files=files, made_from=made_from)))


@pytest.mark.parametrize("name", ["int8", "binary"])
def test_a_file_is_written_and_read(exact, tmp_path, name):
    precision, path = precision_of(name, exact), str(tmp_path / "stored.npy")
    write_stored(exact, path, precision)
    np.testing.assert_array_equal(np.load(path), precision.stored(np.load(exact)))
    with pytest.raises(ValueError, match="stored.npy has no manifest"):
        open_vectors(path, 5, 12, {})
    describe(path, vector_precision=name)
    vectors, read = open_vectors(path, 5, 12, {})
    assert read == precision and vectors.shape == (5, 12 if name == "int8" else 2)
    if name == "int8":
        np.testing.assert_array_equal(np.load(ranges_path(path)),
                                      [np.load(exact).min(axis=0), np.load(exact).max(axis=0)])
    with pytest.raises(ValueError, match="has 5 vectors, but there are 4 lines"):
        open_vectors(path, 4, 12, {})
    with pytest.raises(ValueError, match="dimensions|12 numbers, but the vectors have 32"):
        open_vectors(path, 5, 32, {})
    describe(path, per_token=True)
    with pytest.raises(ValueError, match="stored.npy has a vector for each token"):
        open_vectors(path, 5, 12, {})


@pytest.mark.parametrize("block_size", [2, 100])
@pytest.mark.parametrize("name", ["float32", "int8", "binary"])
def test_stored_vectors_find_lines_by_their_cosines(model, sentence_pieces, exact, name, block_size):
    precision, vectors = precision_of(name, exact), np.load(exact)
    of_query = unit_vectors_function(model, sentence_pieces)(["who sold the boat"])[0]
    if name == "binary":  # Hamming distances
        expected = 1 - 2 * ((vectors > 0) != (of_query > 0)).sum(axis=1) / 12
    else:
        expected = vectors @ of_query
    stored = np.asarray(precision.stored(vectors * 3 if name == "float32" else vectors))  # of any length
    found, = nearest_lines(of_query[None], LINES, stored, precision, 5, block_size)
    cosines = np.array([expected[each.line - 1] for each in found])
    np.testing.assert_allclose([each.cosine for each in found], cosines, atol=0.02 if name == "int8" else 1e-6)
    assert sorted(each.line for each in found) == [1, 2, 3, 4, 5]
    assert name == "int8" or (np.diff(cosines) <= 1e-6).all()


@pytest.mark.both_stacks
@pytest.mark.parametrize("name", [pytest.param("int8", marks=pytest.mark.long), "binary"])
def test_exports_give_the_stored_vectors(model, sentence_pieces, exact, tmp_path, name):
    precise = other_model(model, exact, name)
    export_sentence_encoder(str(tmp_path / "served"), precise, sentence_pieces, 16)
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"](text=tf.constant(LINES))
    expected = precision_of(name, exact).stored(np.load(exact)).numpy()
    found = served["sentence_embedding"].numpy()
    assert found.dtype == np.int8 and _steps(found, expected, name) <= 1
    assert tflite.differences(tflite.convert(precise, "float32", 8), precise, 8)["sentence_embedding"] <= 1
    pytest.importorskip("onnxruntime")
    assert differences(to_onnx(precise), precise, 8)["sentence_embedding"] <= 1


def _steps(found, expected, name):
    """The largest difference of int8 values, or of binary ones the largest number of bits in a byte."""
    if name == "int8":
        return np.abs(found.astype(int) - expected).max()
    return np.unpackbits((found ^ expected).view(np.uint8), axis=1).reshape(len(found), -1, 8).sum(axis=-1).max()


def test_the_server_gives_vectors_of_the_requested_size_and_precision(model, sentence_pieces, tmp_path):
    from albert_tf.export.conversion import save
    from albert_tf.server.models import model_of_source
    from albert_tf.weights.stored_model import open_model
    from albert_tf.weights.vocabulary import VocabularyFiles

    save(model, str(tmp_path), "ours", VocabularyFiles.from_tokenizer(sentence_pieces))
    assert json.loads((tmp_path / "config_sentence_transformers.json").read_text())["truncate_dim"] == 12
    served = model_of_source("v", open_model(str(tmp_path)), vectors=dict(truncate_dim=8, vector_precision="binary"))
    found = served.signatures["serving_default"].run(dict(text=np.array([b"the boat"])))["sentence_embedding"]
    whole = unit_vectors_function(model, sentence_pieces)(["the boat"])
    assert found.tolist() == [[int(np.packbits(whole[0, :8] > 0)[0]) - 128]]

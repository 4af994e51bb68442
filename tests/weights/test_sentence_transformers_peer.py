"""Our numbers and folders beside sentence-transformers itself, in an environment of its own (peers.py)."""

import json
import pathlib
import re

import numpy as np
import pytest
from ordinary_text import sentences
from peers import run_client
from sentence_transformers_client import PASSAGES, QUERIES, SENTENCES
from tiny import TINY_TEXT

import albert_tf
from albert_tf import keras
from albert_tf.modeling.vectors import normalized
from albert_tf.tasks.classification.answers import text_logits
from albert_tf.tasks.sentence_vectors.vectors import text_vectors

CLIENT = "sentence_transformers_client.py"
PAGE = pathlib.Path(__file__).parents[2] / "docs/sentence_vectors.md"
CONFIG = TINY_TEXT.replace(num_hidden_layers=2, max_position_embeddings=32, initializer_range=0.5)


def test_sentence_transformers_computes_the_stored_numbers(golden):
    stored = json.loads((golden / "sentence_transformers/numbers.json").read_text())["losses"]
    computed = json.loads(run_client("transformers", CLIENT, "losses"))
    assert set(computed) == set(stored)
    for name, values in computed.items():
        np.testing.assert_allclose(values, stored[name], rtol=1e-6, err_msg=name)


def test_the_pages_search_by_bits_of_sentence_transformers_finds_the_nearest_lines(tmp_path):
    vectors = np.random.default_rng(1).normal(size=[300, 384]).astype(np.float32)
    queries = vectors[[7, 8]] + 0.5 * np.random.default_rng(2).normal(size=[2, 384]).astype(np.float32)
    np.save(tmp_path / "vectors.npy", vectors)
    np.save(tmp_path / "queries.npy", queries)
    found = json.loads(run_client("transformers", CLIENT, "nearest", PAGE, tmp_path))
    assert len(found) == 5 and found[0] == 7


def test_a_model_that_ranks_has_the_same_scores_in_transformers_and_here(sentence_pieces, tmp_path):
    keras.utils.set_random_seed(1)
    model = albert_tf.AlbertClassifier(CONFIG, 1, max_seq_length=17, activation_fn="sigmoid")
    albert_tf.save_pretrained(model, str(tmp_path), sentence_pieces, to="hugging_face")
    theirs = json.loads(run_client("transformers", CLIENT, "scores", tmp_path))
    logits = text_logits(model, sentence_pieces, QUERIES, PASSAGES)
    np.testing.assert_allclose(model.settings.score_of(logits[:, 0]), theirs, atol=1e-5)


@pytest.mark.parametrize("new", ["new", "model"])
def test_a_folder_that_sentence_transformers_saved_has_the_length_that_it_was_given(sentence_pieces, tmp_path, new):
    keras.utils.set_random_seed(1)
    model = albert_tf.AlbertSentenceEncoder(CONFIG, max_seq_length=16)
    albert_tf.save_pretrained(model, str(tmp_path / "model"), sentence_pieces, to="hugging_face")
    theirs = json.loads(run_client("transformers", CLIENT, "shortened", tmp_path / "model", tmp_path / new, 5))
    again = albert_tf.from_pretrained(str(tmp_path / new), model="sentence_encoder")
    assert again.settings.max_seq_length == 5
    np.testing.assert_allclose(normalized(text_vectors(again, sentence_pieces, SENTENCES)), theirs, atol=1e-5)


def test_truncated_vectors_are_the_same_in_sentence_transformers(sentence_pieces, tmp_path):
    keras.utils.set_random_seed(1)
    model = albert_tf.AlbertSentenceEncoder(CONFIG, max_seq_length=16, truncate_dim=6)
    albert_tf.save_pretrained(model, str(tmp_path), sentence_pieces, to="hugging_face")
    theirs = np.array(json.loads(run_client("transformers", CLIENT, "vectors", tmp_path)))
    assert theirs.shape == (len(SENTENCES), 6)
    np.testing.assert_allclose(normalized(text_vectors(model, sentence_pieces, SENTENCES)), theirs, atol=1e-5)


@pytest.mark.parametrize("act", ["tanh", "linear", "relu", "gelu_exact"])
def test_vectors_of_a_dense_layer_are_the_same_in_sentence_transformers(sentence_pieces, tmp_path, act):
    keras.utils.set_random_seed(1)
    model = albert_tf.AlbertSentenceEncoder(CONFIG, max_seq_length=16, dense_size=5, dense_act=act)
    model.dense.bias.assign([0.1, -0.2, 0.3, -0.4, 0.5])
    albert_tf.save_pretrained(model, str(tmp_path), sentence_pieces, to="hugging_face")
    theirs = np.array(json.loads(run_client("transformers", CLIENT, "vectors", tmp_path)))
    assert theirs.shape == (len(SENTENCES), 5)
    np.testing.assert_allclose(normalized(text_vectors(model, sentence_pieces, SENTENCES)), theirs, atol=1e-5)


@pytest.mark.parametrize("pooling, normalize", [("mean", True), ("cls", False)])
def test_vectors_behind_prompts_are_the_same_in_sentence_transformers(sentence_pieces, tmp_path, pooling, normalize):
    keras.utils.set_random_seed(1)
    prompts = dict(query="Represent this sentence for searching relevant passages: ", passage="passage:  ", none="")
    model = albert_tf.AlbertSentenceEncoder(CONFIG, pooling, normalize, max_seq_length=24, prompts=prompts,
                                            default_prompt_name="passage")
    albert_tf.save_pretrained(model, str(tmp_path / "model"), sentence_pieces, to="hugging_face")
    # Their tokenizer lacks the release's rule for a comma after a digit.
    plain = [text for text in sentences(400) if not re.search(r"\d,", text)]
    texts = [*plain[:298], "我喜欢学习中文。", "A boat 🚢 and “quotes” — of course… "]
    (tmp_path / "texts").write_text(json.dumps(texts))
    names = ["default", *prompts]
    theirs = json.loads(run_client("transformers", CLIENT, "prompted", tmp_path / "model", tmp_path / "texts", *names))
    again = albert_tf.from_pretrained(str(tmp_path / "model"), model="sentence_encoder")
    for name, vectors in zip(names, theirs):
        ours = text_vectors(again, sentence_pieces, texts, prompt_name=None if name == "default" else name)
        np.testing.assert_allclose(ours, vectors, atol=1e-5, err_msg=name)
    assert np.abs(np.subtract(theirs[1], theirs[3])).max() > 0.01  # a prompt changes them

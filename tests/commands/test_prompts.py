"""Prompts of sentence encoders, as the commands apply them."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from script_session import ScriptSession
from sentence_transformers_client import PASSAGES
from tiny import TINY_TEXT

import albert_tf
from albert_tf import keras
from albert_tf.tasks.classification.data import find_task
from albert_tf.tasks.classification.metrics import correlations
from albert_tf.tasks.sentence_vectors.data import read_scored_pairs
from albert_tf.tasks.sentence_vectors.vectors import text_vectors

PROMPTS = dict(query="search for: ", passage="of the file  ")


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    return albert_tf.AlbertSentenceEncoder(TINY_TEXT.replace(initializer_range=0.5), normalize=True, max_seq_length=40,
                                           prompts=PROMPTS, default_prompt_name="passage")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, sentence_pieces, model):
    folder = tmp_path_factory.mktemp("prompts")
    albert_tf.save_pretrained(model, str(folder / "model"), sentence_pieces, to="hugging_face")
    (folder / "lines.txt").write_text("".join(f"{text}\n" for text in PASSAGES))
    return folder


@pytest.fixture(scope="module")
def session(folder):
    with ScriptSession(init_checkpoint=folder / "model") as session:
        yield session


@pytest.fixture(scope="module")
def vectors(model, sentence_pieces):
    """A function from texts and the name of a prompt to vectors by the Python API."""
    return lambda texts, prompt_name=None: text_vectors(model, sentence_pieces, texts, prompt_name=prompt_name)


def test_vectors_and_queries_have_the_prompt_of_the_flag_or_the_default(session, folder, vectors):
    for prompt_name in (None, "query", ""):
        session.run(script="extract_embeddings", input_file=folder / "lines.txt", prompt_name=prompt_name,
                    output_file=folder / "vectors.npy")
        np.testing.assert_allclose(np.load(folder / "vectors.npy"), vectors(PASSAGES, prompt_name), atol=1e-5)
        made_from = json.loads((folder / "vectors.npy.manifest.json").read_text())["made_from"]
        assert made_from["prompts"] == PROMPTS.get("passage" if prompt_name is None else prompt_name, "")


def test_fine_tuning_evaluates_and_exports_behind_the_prompt(session, folder, golden, vectors):
    session.run(script="run_sentence_embeddings", data_dir=golden / "glue", output_dir=folder / "run", do_eval=True,
                prompt_name="query", export_dir=folder / "served")
    pairs = read_scored_pairs(find_task("sts-b"), str(golden / "glue"), "dev", 5.0)
    first, second = (vectors([getattr(pair, name) for pair in pairs], "query") for name in ("first", "second"))
    expected = correlations(np.array([pair.cosine for pair in pairs]), (first * second).sum(axis=1))
    results = json.loads((folder / "run/eval_results.json").read_text())
    assert results["pearson"] == pytest.approx(expected["pearson"], abs=1e-4)
    served = tf.saved_model.load(str(folder / "served")).signatures["serving_default"]
    np.testing.assert_allclose(served(text=tf.constant(PASSAGES))["sentence_embedding"], vectors(PASSAGES, "query"),
                               atol=1e-5)

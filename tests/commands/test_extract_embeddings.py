"""Vectors as a user extracts, searches and trains them: sizes, prompts, hard negatives."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from documentation import Page
from script_session import REPOSITORY, ScriptSession
from sentence_transformers_client import PASSAGES, QUERIES
from tiny import TINY_TEXT

import albert_tf
from albert_tf import keras
from albert_tf.export.conversion import save
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.tasks.classification.data import find_task
from albert_tf.tasks.classification.metrics import correlations
from albert_tf.tasks.sentence_vectors.data import read_scored_pairs
from albert_tf.tasks.sentence_vectors.vectors import text_vectors
from albert_tf.weights.vocabulary import VocabularyFiles

CONFIG = TINY_TEXT.replace(max_position_embeddings=32, initializer_range=0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, golden):
    folder = tmp_path_factory.mktemp("vectors")
    vocabulary = VocabularyFiles(str(golden / "tiny_spm/tiny.model"))
    keras.utils.set_random_seed(2)
    save(AlbertSentenceEncoder(CONFIG, normalize=True, max_seq_length=16), str(folder / "model"), "ours", vocabulary)
    (folder / "lines.txt").write_text("".join(f"{text}\n" for text in [*PASSAGES, *QUERIES]))
    return folder


@pytest.fixture(scope="module")
def session(folder):
    with ScriptSession(init_checkpoint=folder / "model") as session:
        yield session


@pytest.fixture(scope="module")
def extracted(session, folder):
    """The vectors of the lines, from the command."""
    session.run(script="extract_embeddings", input_file=folder / "lines.txt", truncate_dim=12,
                output_file=folder / "vectors.npy")
    vectors = np.load(folder / "vectors.npy")
    assert vectors.shape == (6, 12)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    return vectors


def test_vectors_evaluations_and_exports_have_the_prompt_of_the_flag_or_the_default(
        session, sentence_pieces, golden, tmp_path):
    prompts = dict(query="search for: ", passage="of the file  ")
    model = AlbertSentenceEncoder(CONFIG, normalize=True, max_seq_length=32, prompts=prompts,
                                  default_prompt_name="passage")
    albert_tf.save_pretrained(model, str(tmp_path / "model"), sentence_pieces, to="hugging_face")
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text in PASSAGES))

    def vectors(texts, prompt_name=None):
        return text_vectors(model, sentence_pieces, texts, prompt_name=prompt_name)

    for prompt_name, prompt in ((None, prompts["passage"]), ("query", prompts["query"]), ("", "")):
        session.run(script="extract_embeddings", init_checkpoint=tmp_path / "model", prompt_name=prompt_name,
                    input_file=tmp_path / "lines.txt", output_file=tmp_path / "vectors.npy")
        np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), vectors(PASSAGES, prompt_name), atol=1e-5)
        made_from = json.loads((tmp_path / "vectors.npy.manifest.json").read_text())["made_from"]
        assert made_from["prompts"] == prompt
    session.run(script="run_sentence_embeddings", init_checkpoint=tmp_path / "model", data_dir=golden / "glue",
                output_dir=tmp_path / "run", do_eval=True, prompt_name="query", export_dir=tmp_path / "served")
    pairs = read_scored_pairs(find_task("sts-b"), str(golden / "glue"), "dev", 5.0)
    first, second = (vectors([getattr(pair, name) for pair in pairs], "query") for name in ("first", "second"))
    expected = correlations(np.array([pair.cosine for pair in pairs]), (first * second).sum(axis=1))
    results = json.loads((tmp_path / "run/eval_results.json").read_text())
    assert results["pearson"] == pytest.approx(expected["pearson"], abs=1e-4)
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    np.testing.assert_allclose(served(text=tf.constant(PASSAGES))["sentence_embedding"], vectors(PASSAGES, "query"),
                               atol=1e-5)


def test_the_pages_search_with_usearch_finds_the_line_of_a_query(session, folder, tmp_path, monkeypatch):
    page = Page(REPOSITORY / "docs/sentence_vectors.md")
    block, = (block for block in page.blocks if "usearch" in block.text and block.language == "python")
    page.names = dict(albert_tf=albert_tf, model=albert_tf.from_pretrained(str(folder / "model"), "sentence_encoder"),
                      tokenizer=albert_tf.tokenizer_from_pretrained(str(folder / "model")))
    shutil.copy(folder / "lines.txt", tmp_path)
    session.run(script="extract_embeddings", input_file=folder / "lines.txt", output_file=tmp_path / "vectors.npy")
    monkeypatch.chdir(tmp_path)
    line = PASSAGES[1]
    page.run(block._replace(text=block.text.replace("Who sold the boat?", line)), tmp_path, session)
    assert page.printed.splitlines()[0] in (f"1.00 {line}", f"0.99 {line}") and len(page.printed.splitlines()) == 5
    assert page.names["index"].dtype.name == "I8" and (tmp_path / "lines.usearch").exists()


def test_extracted_vectors_teach_their_own_text_alone(session, folder, extracted):
    flags = dict(script="run_sentence_embeddings", objective="distillation", teacher_vectors=folder / "vectors.npy",
                 do_train=True, train_batch_size=2, max_seq_length=16, train_step=1, warmup_step=0)
    session.run(train_file=folder / "lines.txt", output_dir=folder / "of_vectors", **flags)
    assert np.load(folder / "of_vectors/teacher_projection.npy").shape == (12, 16)
    (folder / "reversed.txt").write_text("\n".join((folder / "lines.txt").read_text().splitlines()[::-1]) + "\n")
    printed = session.run(train_file=folder / "reversed.txt", output_dir=folder / "of_other", expect=1, **flags)
    assert "vectors.npy was made from another text than" in printed.splitlines()[-1]

"""run_sentence_embeddings, extract_embeddings and search_sentences as a user runs them."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from script_session import ScriptSession

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.tasks.classification.data import find_task, read_examples
from albert_tf.weights.hugging_face.configs import pooling_in

CONFIG = dict(vocab_size=2000, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
              intermediate_size=16, max_position_embeddings=64)
TEXTS = ["the name of the file", "a kettle stood on the stove", "he sold the boat", "nobody had filled it"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sentences")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "lines.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    (folder / "pairs.tsv").write_text("".join(f"{text}\t{text.upper()} again\n" for text in TEXTS))
    return folder


@pytest.fixture(scope="module")
def session():
    with ScriptSession() as session:
        yield session


@pytest.fixture(scope="module")
def run(session, golden, folder):
    flags = dict(albert_config_file=folder / "config.json", spm_model_file=golden / "tiny_spm/tiny.model",
                 data_dir=golden / "glue", cached_dir=folder / "cached", max_seq_length=24, train_batch_size=4,
                 train_step=2, warmup_step=0, save_checkpoints_steps=1)
    return lambda expect=0, **changed: session.run(expect=expect, script="run_sentence_embeddings",
                                                   **{**flags, **changed})


def results_of(directory):
    return json.loads((directory / "eval_results.json").read_text())


@pytest.fixture(scope="module")
def trained(run, folder):
    run(output_dir=folder / "sts", do_train=True, do_eval=True, do_predict=True, pooling="max", normalize=True,
        export_dir=folder / "served")
    return folder / "sts"


@pytest.mark.both_stacks
def test_answers_are_the_cosines_times_the_best_score(run, trained, folder, golden):
    examples = read_examples(find_task("sts-b"), str(golden / "glue"), "test")
    model = albert_tf.from_pretrained(str(trained), model="sentence_encoder")  # the best checkpoint, as in prediction
    tokenizer = albert_tf.tokenizer_from_pretrained(str(trained))
    first, second = (np.asarray(model(tokenizer([getattr(each, name) for each in examples], max_seq_length=24))[
        "sentence_embedding"]) for name in ("text_a", "text_b"))
    cosines = (first * second).sum(axis=1)  # --normalize is stored with the run
    head, *rows = (line.split("\t") for line in (trained / "submit_results.tsv").read_text().splitlines())
    assert head == ["index", "prediction"] and [index for index, _ in rows] == [each.guid for each in examples]
    np.testing.assert_allclose([float(score) for _, score in rows], np.clip(5 * cosines, 0, 5), atol=1e-4)
    np.testing.assert_allclose(np.loadtxt(trained / "test_results.tsv"), 5 * cosines, atol=1e-4)
    run(output_dir=folder / "of_ten", init_checkpoint=trained, do_predict=True, best_score=10, albert_config_file=None,
        spm_model_file=None)
    np.testing.assert_allclose(np.loadtxt(folder / "of_ten/test_results.tsv"), 10 * cosines, atol=1e-4)


@pytest.mark.both_stacks
def test_scores_are_learned_and_evaluated(trained):
    results = results_of(trained)
    assert set(results) == {"pearson", "spearman", "global_step"} and -1 <= results["spearman"] <= 1
    card = (trained / "README.md").read_text()
    assert "pipeline_tag: sentence-similarity" in card and "STS-B/train.tsv" in card and "STS-B/dev.tsv" in card
    assert json.loads((trained / "1_Pooling/config.json").read_text())["pooling_mode_max_tokens"] is True


@pytest.mark.both_stacks
def test_the_export_gives_the_vectors_that_extraction_gives(session, trained, folder):
    session.run(script="extract_embeddings", init_checkpoint=trained, input_file=folder / "lines.txt",
                output_file=folder / "vectors.npy")
    vectors = np.load(folder / "vectors.npy")
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    served = tf.saved_model.load(str(folder / "served")).signatures["serving_default"]
    np.testing.assert_allclose(served(text=tf.constant(TEXTS))["sentence_embedding"], vectors, atol=1e-5)
    session.run(script="extract_embeddings", init_checkpoint=trained, input_file=folder / "lines.txt",
                output_file=folder / "other.npy", pooling="cls", normalize=False)
    assert not np.allclose(np.linalg.norm(np.load(folder / "other.npy"), axis=1), 1, atol=1e-3)


@pytest.mark.long
def test_a_run_predicts_with_its_own_pooling_also_if_initial_weights_are_set(run, session, trained, folder):
    run(output_dir=folder / "initial", do_train=True, pooling="cls")
    run(output_dir=trained, init_checkpoint=folder / "initial", export_dir=folder / "served_again",
        albert_config_file=None, spm_model_file=None)
    first, second = (tf.saved_model.load(str(folder / name)).signatures["serving_default"](text=tf.constant(TEXTS))
                     for name in ("served", "served_again"))
    np.testing.assert_allclose(second["sentence_embedding"], first["sentence_embedding"], atol=1e-5)


def test_a_run_is_not_trained_with_another_pooling(run, trained):
    before = pooling_in(str(trained))
    assert before["pooling"] == "max"
    assert "pooling is max in the run" in run(output_dir=trained, do_train=True, pooling="cls", expect=1)
    assert pooling_in(str(trained)) == before


def test_a_line_is_its_own_nearest_neighbour(session, trained, folder):
    model = dict(init_checkpoint=trained, input_file=folder / "lines.txt")
    session.run(script="extract_embeddings", output_file=folder / "compared.npy", **model)
    printed = session.run(script="search_sentences", vectors_file=folder / "compared.npy", query=TEXTS[2], top_k=2,
                          **model)
    query, best, second = printed.splitlines()[-3:]
    assert query == TEXTS[2] and best.split(maxsplit=2) == ["1.0000", "3", TEXTS[2]]
    vectors = np.load(folder / "compared.npy")  # of length 1
    cosines = np.delete(vectors @ vectors[2], 2)
    next_best = int(np.delete(np.arange(4), 2)[np.argmax(cosines)])
    assert second.split(maxsplit=2) == [f"{cosines.max():.4f}", str(next_best + 1), TEXTS[next_best]]


@pytest.mark.long
@pytest.mark.parametrize("objective, train_file", [("pairs", "pairs.tsv"), ("simcse", "lines.txt")])
def test_pairs_and_lines_are_learned_by_contrast(run, folder, objective, train_file):
    run(output_dir=folder / objective, objective=objective, train_file=folder / train_file, do_train=True,
        do_eval=True, num_runs=2, gradient_accumulation_steps=2, whole_batch_negatives=objective == "simcse")
    config = AlbertConfig.from_json_file(str(folder / objective / "seed_12345/albert_config.json"))
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == (0.1 if objective == "simcse" else 0)
    assert set(results_of(folder / objective)) == {"pearson", "spearman"}


def test_a_learnable_task_is_learned(run, folder, tmp_path):
    """The same few words mean the same."""
    rows = ["index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore"]
    rows += [f"{i}\t\t\t\t\t\t\t{a}\t{b}\t{5.0 if a == b else 0.0}"
             for i, (a, b) in enumerate((a, b) for a in TEXTS for b in TEXTS)]
    (tmp_path / "STS-B").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "STS-B" / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    run(output_dir=tmp_path / "out", data_dir=tmp_path, do_train=True, do_eval=True, train_batch_size=16,
        train_step=60, save_checkpoints_steps=60, learning_rate=0.003, hidden_dropout_prob=0,
        attention_probs_dropout_prob=0)
    assert results_of(tmp_path / "out")["pearson"] > 0.8


@pytest.mark.parametrize("flags, message", [
    ({}, "nothing to do: set --do_train"),
    (dict(do_train=True, objective="pairs"), "--train_file is missing: --do_train reads it"),
    (dict(do_train=True, data_dir="/nowhere"), "no such file: /nowhere/STS-B/train.tsv")])
def test_a_wrong_flag_ends_in_one_line(run, folder, flags, message):
    printed = run(expect=1, output_dir=folder / "wrong", **flags)
    (line,) = [line for line in printed.splitlines() if ": error: " in line]
    assert line.startswith("run_sentence_embeddings: error: ") and message in line and "Traceback" not in printed


def test_one_text_cannot_be_learned_by_contrast(run, folder):
    (folder / "one.txt").write_text("a lamp\na lamp\n")
    printed = run(expect=1, output_dir=folder / "one", do_train=True, objective="simcse", train_file=folder / "one.txt")
    assert f"--train_file={folder}/one.txt has one text again and again" in printed


def test_a_batch_may_be_larger_than_the_set(run, folder):
    printed = run(output_dir=folder / "small_set", do_train=True, objective="pairs", train_file=folder / "pairs.tsv",
                  train_batch_size=6)
    assert "a batch of 6 examples repeats the training set of 4: a smaller --train_batch_size takes less" in printed

"""What run_sentence_embeddings alone has: scores from cosines, and contrastive objectives."""

import json

import numpy as np
import pytest
import tensorflow_text  # noqa: F401  registers the ops of exported models
from scipy.stats import pearsonr, spearmanr
from tuning import results_of

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.tasks.classification.data import find_task, read_examples


@pytest.fixture(scope="module")
def run(run_of):
    return run_of("sentence vectors")


@pytest.mark.both_stacks
def test_answers_are_the_cosines_times_the_best_score(run, golden, tmp_path):
    examples = read_examples(find_task("sts-b"), str(golden / "glue"), "test")
    model = albert_tf.from_pretrained(str(run.path), model="sentence_encoder")  # the best checkpoint, as in prediction
    tokenizer = albert_tf.tokenizer_from_pretrained(str(run.path))
    first, second = (np.asarray(model(tokenizer([getattr(each, name) for each in examples], max_seq_length=24))[
        "sentence_embedding"]) for name in ("text_a", "text_b"))
    cosines = (first * second).sum(axis=1)  # --normalize is stored with the run
    head, *rows = (line.split("\t") for line in (run.path / "submit_results.tsv").read_text().splitlines())
    assert head == ["index", "prediction"] and [index for index, _ in rows] == [each.guid for each in examples]
    np.testing.assert_allclose([float(score) for _, score in rows], np.clip(5 * cosines, 0, 5), atol=1e-4)
    np.testing.assert_allclose(np.loadtxt(run.path / "test_results.tsv"), 5 * cosines, atol=1e-4)
    run(output_dir=tmp_path / "of_ten", init_checkpoint=run.path, do_predict=True, best_score=10,
        albert_config_file=None, spm_model_file=None)
    np.testing.assert_allclose(np.loadtxt(tmp_path / "of_ten/test_results.tsv"), 10 * cosines, atol=1e-4)


def test_predictions_of_a_test_set_with_scores_are_scored(run, tmp_path):
    rows = [("the name of the file", "a file", 3.5), ("he sold the boat", "the boat", 5), ("a kettle", "he left", 0.5),
            ("nobody had filled it", "it stood on the stove", 2)]
    (tmp_path / "test.tsv").write_text("a\tb\tscore\n" + "".join("\t".join(map(str, row)) + "\n" for row in rows))
    (tmp_path / "task.json").write_text(json.dumps(dict(
        name="likeness", files=dict(test="test.tsv"), columns=dict(text_a="a", text_b="b", label="score"),
        regression=True)))
    run(output_dir=tmp_path / "out", init_checkpoint=run.path, do_predict=True, data_dir=tmp_path,
        task_config=tmp_path / "task.json", albert_config_file=None, spm_model_file=None)
    cosines = np.loadtxt(tmp_path / "out/test_results.tsv") / 5
    expected = [function([score for *_, score in rows], cosines)[0] for function in (pearsonr, spearmanr)]
    scores = results_of(tmp_path / "out", "predict_results")
    assert [scores["pearson"], scores["spearman"]] == pytest.approx(expected, abs=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("objective, train_file", [("pairs", "pairs.tsv"), ("simcse", "lines.txt")])
def test_pairs_and_lines_are_learned_by_contrast(run, inputs, tmp_path, objective, train_file):
    run(output_dir=tmp_path / objective, objective=objective, train_file=inputs / train_file, do_train=True,
        do_eval=True, num_runs=2, gradient_accumulation_steps=2, whole_batch_negatives=objective == "simcse",
        matryoshka_dims="16,8")
    config = AlbertConfig.from_json_file(str(tmp_path / objective / "seed_12345/albert_config.json"))
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == (0.1 if objective == "simcse" else 0)
    assert set(results_of(tmp_path / objective)) == {"pearson", "spearman", "pearson_8", "spearman_8"}

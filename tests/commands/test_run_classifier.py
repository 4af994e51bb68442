"""run_classifier.py as a user runs it: every task through train, eval and predict; recipes, several runs, mistakes."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from sklearn.metrics import confusion_matrix, f1_score
from tuning import results_of

from albert_tf.modeling.albert_model import ENCODER_INPUTS
from albert_tf.tasks.classification.answers import classify_texts
from albert_tf.tasks.classification.data import TASKS, convert_examples_to_features, read_examples
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.weights.from_pretrained import from_pretrained

# One for each kind of columns, labels and metrics; the others differ in files (tasks/classification/test_glue.py).
KINDS = ("cola", "sst-2", "sts-b", "mrpc")
METRICS = {"cola": {"matthew_corr"}, "sts-b": {"pearson", "spearman", "MSE"}, "mrpc": {"f1"}, "qqp": {"f1"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("classifier")


@pytest.fixture(scope="module")
def script(command_of):
    return command_of("classification")


@pytest.fixture(scope="module")
def mnli(script, folder):
    """The output directory of a run on MNLI."""
    script(task_name="mnli", output_dir=folder / "mnli", do_train=True, do_eval=True, do_predict=True)
    return folder / "mnli"


def check_answers(directory, golden, task, suffix=""):
    """Checks that both files of predictions have a row for each example of the test set."""
    examples = read_examples(task, str(golden / "glue"), "test")
    rows = np.loadtxt(directory / f"test_results{suffix}.tsv", ndmin=2)
    head, *answers = (line.split("\t") for line in (directory / f"submit_results{suffix}.tsv").read_text().splitlines())
    assert head == ["index", "prediction"] and [index for index, _ in answers] == [row.guid for row in examples]
    labels = TASKS[task].labels
    for row, (_, answer) in zip(rows, answers, strict=True):
        assert float(answer) == row[0] if labels is None else answer == labels[int(np.argmax(row))]
    assert labels is None or np.allclose(rows.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("task", [*KINDS, *(pytest.param(name, marks=pytest.mark.slow) for name in TASKS
                                            if name not in (*KINDS, "rte", "mnli", "ax"))])
def test_each_task_is_trained_evaluated_and_predicted(script, folder, golden, task):
    script(task_name=task, output_dir=folder / task, do_train=True, do_eval=True, do_predict=True)
    accuracy = set() if task == "sts-b" else {"eval_accuracy"}
    assert set(results_of(folder / task)) == {"eval_loss", "loss", "global_step"} | accuracy | METRICS.get(task, set())
    assert (folder / task / "best_trial.txt").read_text().strip().endswith(
        f":{results_of(folder / task)[TASKS[task].metrics[0]]}")
    check_answers(folder / task, golden, task)


def test_mnli_is_evaluated_matched_and_mismatched_in_one_run_and_answers_the_diagnostic_set(mnli, golden):
    names = {"eval_accuracy", "eval_loss", "loss"}
    assert set(results_of(mnli)) == {*names, *(f"mismnli/{name}" for name in names), "global_step"}
    for task, suffix in (("mnli", ""), ("mismnli", "_mismnli"), ("ax", "_ax")):
        check_answers(mnli, golden, task, suffix)


def test_a_released_checkpoint_is_evaluated_and_predicts(script, folder, golden):
    """A TF1 checkpoint of the release, fine-tuned for three labels."""
    released, directory, words = golden / "finetuned_heads" / "classifier", folder / "released", folder / "words.txt"
    words.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "rain", *map(str, range(53))]))
    script(task_name="mnli", output_dir=directory, init_checkpoint=released / "model.ckpt", albert_config_file=None,
           spm_model_file=None, vocab_file=words, do_eval=True, do_predict=True)
    model = from_pretrained(str(released / "model.ckpt"), model="classifier", num_labels=3)
    results, of_sets = results_of(directory), {}
    for task, prefix, suffix in (("mnli", "", ""), ("mismnli", "mismnli/", "_mismnli")):
        answers = np.loadtxt(directory / f"test_results{suffix}.tsv")
        np.testing.assert_allclose(answers, outputs_of(model, words, golden, task, "test")[0], atol=1e-5)
        check_answers(directory, golden, task, suffix)
        probabilities, labels = outputs_of(model, words, golden, task, "dev")
        of_sets[prefix] = np.mean(probabilities.argmax(axis=1) == labels)
        losses = -np.log(probabilities[np.arange(len(labels)), labels])
        np.testing.assert_allclose(results[f"{prefix}eval_loss"], losses.mean(), rtol=1e-5)
    assert {prefix: results[f"{prefix}eval_accuracy"] for prefix in of_sets} == pytest.approx(of_sets)
    assert results["global_step"] == 0


def outputs_of(model, vocab_file, golden, task, split):
    """The model's probabilities [examples, labels] for a set, and the labels."""
    examples = read_examples(task, str(golden / "glue"), split)
    features = list(convert_examples_to_features(examples, task, FullTokenizer(vocab_file=str(vocab_file)), 24))
    batch = {name: np.array([row[name] for row in features], np.int32) for name in ENCODER_INPUTS}
    return tf.nn.softmax(model(batch)["logits"]).numpy(), np.array([row["label_id"] for row in features])


def test_predictions_of_labelled_files_are_scored_apart_from_the_evaluations(script, write_task, tmp_path):
    """Also of a file that the task does not name."""
    write_task()
    (tmp_path / "other").mkdir()
    rows = [("Warm.", "good"), ("Cold.", "bad"), ("Warm and cold.", "bad")]
    (tmp_path / "other/new.jsonl").write_text("".join(
        json.dumps(dict(review=review, verdict=verdict)) + "\n" for review, verdict in rows))
    flags = dict(task_name=None, task_config=tmp_path / "reviews.json", output_dir=tmp_path / "run")
    script(data_dir=tmp_path, do_train=True, do_eval=True, **flags)
    assert from_pretrained(str(tmp_path / "run"), model="classifier").settings.label_names == ("bad", "good")
    evaluated = {path: path.read_bytes() for path in (tmp_path / "run").glob("eval_*")}
    printed = script(data_dir=None, do_predict=True, predict_file=tmp_path / "other/new.jsonl", **flags)
    assert evaluated == {path: path.read_bytes() for path in (tmp_path / "run").glob("eval_*")}
    with open(tmp_path / "run/test_predictions.csv", newline="", encoding="utf-8") as file:
        predicted = [row["prediction"] for row in csv.DictReader(file)]
    correct = [verdict for _, verdict in rows]
    scores = results_of(tmp_path / "run", "predict_results")
    assert scores["eval_accuracy"] == pytest.approx(np.mean([a == b for a, b in zip(predicted, correct)]))
    assert scores["macro_f1"] == pytest.approx(f1_score(correct, predicted, average="macro"))
    assert scores["f1/bad"] == pytest.approx(f1_score(correct, predicted, pos_label="bad"))
    assert f"macro_f1 {scores['macro_f1']:.4f}" in printed and scores["global_step"] == 2
    matrix = (tmp_path / "run/test_confusion_matrix.txt").read_text().splitlines()
    assert [row.split()[-2:] for row in matrix[1:]] == confusion_matrix(correct, predicted).astype(str).tolist()
    assert (tmp_path / "run/test_confusion_matrix.svg").exists()
    (tmp_path / "other/new.jsonl").write_text(json.dumps(dict(review="Warm.")) + "\n")
    printed = script(data_dir=None, do_predict=True, predict_file=tmp_path / "other/new.jsonl", **flags)
    assert "the predictions have no scores" in printed
    assert not {*(tmp_path / "run").glob("*predict_results*"), *(tmp_path / "run").glob("*confusion_matrix*")}


@pytest.fixture
def write_task(tmp_path):
    """A function that writes a task NAME.json and its rows, in which a label may have another name than bad."""
    def write(name="reviews", bad="bad", labels=("bad", "good")):
        for split in ("train", "dev"):
            (tmp_path / f"{split}.csv").write_text(f"review,verdict\nWarm.,good\nCold.,{bad}\n")
        task = dict(name=name, files=dict(train="train.csv", dev="dev.csv"), labels=labels,
                    columns=dict(text_a="review", label="verdict"), metrics=["eval_accuracy"])
        (tmp_path / f"{name}.json").write_text(json.dumps(task))

    return write


def test_training_does_not_continue_with_another_task_of_the_same_labels(script, write_task, tmp_path):
    for name in ("reviews", "answers"):
        write_task(name)
    flags = dict(task_name=None, data_dir=tmp_path, output_dir=tmp_path / "run")
    script(task_config=tmp_path / "reviews.json", do_train=True, **flags)
    assert json.loads((tmp_path / "run/albert_tf.json").read_text())["task"] == "reviews"
    files = sorted(tmp_path.rglob("*"))
    printed = script(expect=1, task_config=tmp_path / "answers.json", do_train=True, **flags)
    assert f"{tmp_path}/run: the run was trained on the task reviews, and not on answers: choose another" in printed
    assert sorted(tmp_path.rglob("*")) == files
    script(task_config=tmp_path / "answers.json", do_train=False, do_eval=True, **flags)


def test_labels_in_another_order_are_refused(script, write_task, tmp_path):
    flags = dict(task_name=None, task_config=tmp_path / "reviews.json", data_dir=tmp_path,
                 output_dir=tmp_path / "run", do_eval=True)
    write_task()
    script(do_train=True, **flags)
    write_task(labels=["good", "bad"])
    other = dict(flags, output_dir=tmp_path / "other", do_train=False)
    for weights in (dict(flags, do_train=False), dict(other, init_checkpoint=tmp_path / "run"),
                    dict(other, ensemble_checkpoints=tmp_path / "run")):
        line = script(expect=1, **weights).splitlines()[-1]
        assert "was trained with the labels bad, good" in line and "those of the task are good, bad" in line
    write_task(bad="fair", labels=["good", "fair"])
    warned = script(**dict(other, init_checkpoint=tmp_path / "run"))  # the names of foreign weights can differ
    assert "those of the task are good, fair" in warned and "eval_accuracy" in warned


def write_reviews(data):
    """Writes a task whose texts have about 3 to 60 pieces, some of them in a second text. Returns data and texts."""
    data.mkdir()
    words = "nobody had filled the kettle that stood on the stove and he sold the boat".split()
    rows = [dict(review=" ".join(words[i % 5 : i % 5 + 2] * (1 + 3 * (i % 4))), more=" ".join(words[: 3 * (i % 3)]),
                 verdict="good" if i % 2 else "bad") for i in range(12)]
    for split in ("train", "dev", "test"):
        (data / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (data / "task.json").write_text(json.dumps(dict(
        name="reviews", files={split: f"{split}.jsonl" for split in ("train", "dev", "test")},
        columns=dict(text_a="review", text_b="more", label="verdict"), labels=["bad", "good"])))
    return data, [(row["review"], row["more"]) for row in rows]


@pytest.mark.long
@pytest.mark.both_stacks
def test_long_texts_are_answered_from_all_of_their_windows(script, folder, sentence_pieces):
    data, texts = write_reviews(folder / "long_reviews")
    directory = folder / "windows"
    flags = dict(task_name=None, task_config=data / "task.json", data_dir=data, output_dir=directory, do_predict=True)
    script(max_seq_length=16, doc_stride=5, long_texts="max", max_windows=20, do_train=True, do_eval=True,
           export_dir=folder / "served", **flags)
    model = from_pretrained(str(directory), model="classifier", num_labels=2)
    labels = map(dict, classify_texts(model, sentence_pieces, *zip(*texts)))
    expected = np.array([[row[name] for name in ("bad", "good")] for row in labels])
    assert (model.settings.window_pooling, model.settings.max_windows) == ("max", 20)
    np.testing.assert_allclose(np.loadtxt(directory / "test_results.tsv"), expected, atol=1e-5)
    (directory / "test_results.tsv").unlink()
    script(max_seq_length=None, **flags)  # windows and length are stored with the run
    np.testing.assert_allclose(np.loadtxt(directory / "test_results.tsv"), expected, atol=1e-5)
    served = tf.saved_model.load(str(folder / "served")).signatures
    answers = served["serving_default"](text_a=[a for a, _ in texts], text_b=[b for _, b in texts])
    np.testing.assert_allclose(answers["probabilities"], expected, atol=1e-5)


def test_a_missing_test_set_is_refused_before_the_training(script, tmp_path):
    (tmp_path / "RTE").mkdir()
    (tmp_path / "RTE/train.tsv").write_text("index\tsentence1\tsentence2\tlabel\n0\ta lamp\ta light\tentailment\n")
    printed = script(expect=1, task_name="rte", data_dir=tmp_path, output_dir=tmp_path / "out", do_train=True,
                     do_predict=True)
    assert "RTE/test.tsv" in printed.splitlines()[-1]
    assert not list(tmp_path.glob("out/model.ckpt*"))

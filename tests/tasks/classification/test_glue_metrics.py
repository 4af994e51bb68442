"""GLUE's metrics on known values, and the files of answers."""

import csv

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from albert_tf.tasks.classification.answers import write_answers, write_confusion, write_predictions
from albert_tf.tasks.classification.data import TASKS, InputExample
from albert_tf.tasks.classification.metrics import confusion_matrix, evaluate, f1_of_labels
from albert_tf.tasks.classification.table_format import TableFormat

# Of five examples: three true positives of four answers "1", one false negative.
LABELS = np.array([1, 1, 1, 0, 1])
POSITIVE = np.array([0.9, 0.8, 0.6, 0.7, 0.2])
PROBABILITIES = np.stack([1 - POSITIVE, POSITIVE], axis=1)


def test_mrpc_has_accuracy_f1_and_loss():
    results = evaluate(TASKS["mrpc"], PROBABILITIES, LABELS)
    loss = -np.mean(np.log([0.9, 0.8, 0.6, 0.3, 0.2]))
    assert results == pytest.approx(dict(eval_accuracy=0.6, f1=0.75, eval_loss=loss, loss=loss))


def test_cola_has_matthews_correlation():
    results = evaluate(TASKS["cola"], PROBABILITIES, LABELS)
    assert results["matthew_corr"] == pytest.approx((3 * 0 - 1 * 1) / np.sqrt(4 * 4 * 1 * 1))
    assert results["eval_accuracy"] == pytest.approx(0.6)


def test_stsb_has_pearson_spearman_and_mse():
    scores, labels = np.array([[1.0], [2.0], [4.0]]), np.array([0.0, 1.0, 5.0])
    results = evaluate(TASKS["sts-b"], scores, labels)
    assert results["pearson"] == pytest.approx(np.corrcoef(scores[:, 0], labels)[0, 1])
    assert results["spearman"] == pytest.approx(1.0)
    assert results["MSE"] == results["eval_loss"] == results["loss"] == pytest.approx(1.0)
    assert "eval_accuracy" not in results


MOODS = TableFormat("moods", {}, ("calm", "loud", "odd"), multi_label=True,
                 metrics=("micro_f1", "macro_f1", "average_precision"))
SEVERAL = np.array([[1, 0, 1], [0, 0, 1], [0, 0, 0], [1, 1, 0]], np.float32)
OF_SEVERAL = np.array([[0.9, 0.2, 0.4], [0.6, 0.1, 0.8], [0.3, 0.7, 0.2], [0.5, 0.95, 0.3]], np.float32)


def test_several_labels_have_f1_over_decisions_and_over_labels_and_average_precision():
    """The average precision is that of scikit-learn 1.9.1, the loss that of torch 2.13."""
    results = evaluate(MOODS, OF_SEVERAL, SEVERAL)
    # Right: 2 of 3 predicted calm, 1 of 2 loud, 1 of 1 odd; missed: one odd.
    f1 = (2 * 2 / (2 * 2 + 1), 2 * 1 / (2 * 1 + 1), 2 * 1 / (2 * 1 + 1))
    loss = 0.44787470
    assert results == pytest.approx(dict(eval_accuracy=0.25, micro_f1=2 * 4 / (2 * 4 + 2 + 1), macro_f1=np.mean(f1),
                                         average_precision=0.9444444444444443, eval_loss=loss, loss=loss), abs=1e-6)


def test_several_labels_are_predicted_by_a_threshold_of_each():
    results = evaluate(MOODS, OF_SEVERAL, SEVERAL, thresholds=(0.5, 0.8, 0.35))
    assert results["eval_accuracy"] == 0.75 and results["micro_f1"] == pytest.approx(2 * 5 / (2 * 5 + 1))


def test_answers_have_all_predicted_labels(tmp_path):
    examples = [InputExample(str(number), "a text") for number in range(4)]
    guids = [example.guid for example in examples]
    write_answers(str(tmp_path), MOODS, guids, OF_SEVERAL, thresholds=(0.5, 0.8, 0.35))
    answers = (tmp_path / "submit_results.tsv").read_text().splitlines()[1:]
    assert answers == ["0\tcalm,odd", "1\tcalm,odd", "2\t", "3\tcalm,loud"]
    path = write_predictions(str(tmp_path), MOODS, examples, OF_SEVERAL, thresholds=(0.5, 0.8, 0.35))
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["index", "text_a", "prediction", "calm", "loud", "odd"]
    assert [row[2] for row in rows[1:]] == ["calm,odd", "calm,odd", "", "calm,loud"] and rows[1][3][:3] == "0.8"


def test_what_does_not_vary_has_no_correlation_and_one_class_no_f1():
    assert evaluate(TASKS["sts-b"], np.full([3, 1], 2.0), np.array([0.0, 1.0, 5.0]))["pearson"] == 0
    never = np.array([[1.0, 0.0]] * 3)
    results = evaluate(TASKS["mrpc"], never, np.array([0, 1, 1]))
    assert results["f1"] == 0 and np.isfinite(results["loss"])
    assert evaluate(TASKS["cola"], never, np.array([0, 1, 1]))["matthew_corr"] == 0


def test_a_model_that_diverged_is_reported():
    with pytest.raises(ValueError, match="NaN or infinite: training has diverged, lower --learning_rate"):
        evaluate(TASKS["mrpc"], np.full([2, 2], np.nan), np.array([0, 1]))


INDEX = "index\tprediction\n"


@pytest.mark.parametrize("task, rows, options, files", [
    (TASKS["rte"], [[0.75, 0.25], [0.125, 0.875]], {}, {
        "submit_results.tsv": INDEX + "0\tentailment\n1\tnot_entailment\n",
        "test_results.tsv": "0.75\t0.25\n0.125\t0.875\n"}),
    (TASKS["rte"], [[0.75, 0.25]], dict(split="dev"), {"dev_results.tsv": "0.75\t0.25\n"}),  # no answers to dev sets
    (TableFormat("sts", {}, None, ("pearson",)), [[3.5]], dict(suffix="_sts"), {
        "submit_results_sts.tsv": INDEX + "0\t3.5\n", "test_results_sts.tsv": "3.5\n"}),
    (TASKS["sts-b"], [[-0.5], [3.5], [5.25]], {}, {  # clipped to the server's range
        "submit_results.tsv": INDEX + "0\t0.0\n1\t3.5\n2\t5.0\n", "test_results.tsv": "-0.5\n3.5\n5.25\n"})],
    ids=["labels", "dev", "scores", "clipped"])
def test_answers_are_as_the_glue_server_takes_them(tmp_path, task, rows, options, files):
    write_answers(str(tmp_path), task, list(map(str, range(len(rows)))), np.array(rows), **options)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files


def test_predictions_have_the_texts_and_the_names_of_the_labels(tmp_path):
    task = TableFormat("reviews", {}, ("bad", "very, good"))
    examples = [InputExample("a", 'A "fine"\nday, it was.'), InputExample("b", "Dull.")]
    path = write_predictions(str(tmp_path), task, examples, np.array([[0.25, 0.75], [0.875, 0.125]]), split="dev")
    with open(path, newline="") as file:
        assert list(csv.reader(file)) == [
            ["index", "text_a", "prediction", "bad", "very, good"],
            ["a", 'A "fine"\nday, it was.', "very, good", "0.25", "0.75"], ["b", "Dull.", "bad", "0.875", "0.125"]]
    assert path == str(tmp_path / "dev_predictions.csv")


def test_predictions_of_a_regression_on_pairs_are_scores_next_to_both_texts(tmp_path):
    examples = [InputExample("7", "One.", "Two."), InputExample("8", "One.", "")]
    path = write_predictions(str(tmp_path), TASKS["sts-b"], examples, np.array([[5.5], [-0.5]]), "_sts")
    with open(path, newline="") as file:
        assert list(csv.reader(file)) == [["index", "text_a", "text_b", "prediction"],
                                          ["7", "One.", "Two.", "5.5"], ["8", "One.", "", "-0.5"]]
    assert path.endswith("test_predictions_sts.csv")
    examples = [InputExample("7", "One;\rtwö.", "Two, too.")]
    for separator, row in ((",", '7,"One;\ntwö.","Two, too.",5.5'), (";", '7;"One;\ntwö.";Two, too.;5,5')):
        write_predictions(str(tmp_path), TASKS["sts-b"], examples, np.array([[5.5]]), "_sts", excel_separator=separator)
        with open(path, newline="", encoding="utf-8") as file:
            assert file.read() == "\ufeffindex,text_a,text_b,prediction\n".replace(",", separator) + row + "\n"


NAMES = ("calm", "loud", "odd", "new", "never")


def test_f1_of_each_label_and_the_confusion_matrix_are_scikit_learns():
    """No example has the fourth label, which is predicted; the fifth is neither, so it has no F1."""
    random = np.random.RandomState(0)
    labels = random.choice(3, 400, p=[0.6, 0.3, 0.1])
    predicted = np.where(random.rand(400) < 0.6, labels, random.randint(4, size=400))
    scores = f1_of_labels(TableFormat("moods", {}, NAMES), labels, predicted)
    of_labels = sklearn_metrics.f1_score(labels, predicted, average=None)
    expected = {f"f1/{name}": score for name, score in zip(NAMES, of_labels, strict=False)}
    expected["macro_f1"] = sklearn_metrics.f1_score(labels, predicted, average="macro")
    assert scores == pytest.approx(expected)
    assert len(scores) == 5 and len(set(scores.values())) == 5
    np.testing.assert_array_equal(confusion_matrix(labels, predicted, 5),
                                  sklearn_metrics.confusion_matrix(labels, predicted, labels=range(5)))


def test_f1_of_texts_with_several_labels_is_scikit_learns():
    labels, predicted = np.random.RandomState(0).rand(2, 300, 5) < np.array([0.5, 0.3, 0.2, 0.1, 0.0])
    scores = f1_of_labels(TableFormat("moods", {}, NAMES, multi_label=True), labels.astype(float), predicted)
    of_labels = sklearn_metrics.f1_score(labels, predicted, average=None, zero_division=0.0)
    expected = {f"f1/{name}": score for name, score in zip(NAMES[:4], of_labels, strict=False)}
    assert scores == pytest.approx(dict(expected, macro_f1=of_labels.mean()))


def test_a_confusion_matrix_is_a_text_and_a_picture(tmp_path):
    write_confusion(str(tmp_path), np.array([[12, 3], [0, 100]]), ["bad", "very good"], "_mm", "dev")
    assert (tmp_path / "dev_confusion_matrix_mm.txt").read_text() == (
        "correct \\ predicted  bad  very good\n"
        "bad                   12          3\n"
        "very good              0        100\n")
    picture = (tmp_path / "dev_confusion_matrix_mm.svg").read_text()
    assert all(f">{text}<" in picture for text in ("12", "3", "0", "100", "very good", "correct label"))

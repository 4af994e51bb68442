"""run_classifier.py with several labels per text: training, answers, exports, the server, Hugging Face and the card."""

import csv
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from tuning import LABELS, MOODS

from albert_tf.export.conversion import convert
from albert_tf.training.evaluation import read_history
from albert_tf.weights.from_pretrained import from_pretrained
from albert_tf.weights.settings import settings_in
from albert_tf.weights.stored_model import open_model


@pytest.fixture(scope="module")
def script(run_of):
    return run_of("labels")


def test_a_run_of_another_kind_or_with_pairs_is_refused(script, tmp_path):
    assert "weights of the labels: calm 1, loud 1, odd 2" in script.printed
    assert "| labels of a text | any number |" in (script.path / "README.md").read_text("utf-8")
    assert settings_in(str(script.path)).multi_label is True
    flags = dict(task_config=tmp_path / "task.json", do_predict=True)
    (tmp_path / "task.json").write_text(json.dumps(dict(MOODS, multi_label=False, metrics=["eval_accuracy"])))
    message = "was trained to give a text any number of labels, and the task has \"multi_label\": false"
    assert message in script.fails(output_dir=script.path, **flags)
    assert message in script.fails(output_dir=tmp_path / "new", init_checkpoint=script.path, albert_config_file=None,
                                   **flags)
    columns = dict(text_a="text", text_b="text", label="moods")
    (tmp_path / "task.json").write_text(json.dumps(dict(MOODS, columns=columns)))
    assert "was trained on single texts, and moods has pairs: use the task_config of the training" in script.fails(
        output_dir=script.path, **flags)


@pytest.mark.long
def test_a_calibrated_run_is_used_with_its_temperature_and_thresholds(script, inputs, tmp_path):
    directory, data = tmp_path / "run", tmp_path / "data"
    shutil.copytree(inputs, data)  # with ten copies of each example, a temperature fits held-out examples as well
    (data / "dev.jsonl").write_text((inputs / "dev.jsonl").read_text() * 10)
    script(output_dir=directory, do_train=True, do_eval=True)
    assert "--ensemble_checkpoints" in script.fails(
        output_dir=script.path, ensemble_checkpoints=script.path, calibrate=True)
    printed = script(output_dir=directory, calibrate=True, do_predict=True, predict_split="dev", data_dir=data,
                         export_dir=tmp_path / "served")
    results = json.loads((directory / "calibration_results.json").read_text())
    assert "calibration on 120 dev examples: " in printed
    assert results["eval_loss"] < results["eval_loss_before"]
    assert results["macro_f1"] >= results["macro_f1_before"]
    card = (directory / "README.md").read_text("utf-8")
    assert "## Calibration" in card and f"| temperature | {results['temperature']:.4f} |" in card
    settings = json.loads((directory / "albert_tf.json").read_text())
    assert settings["temperature"] == results["temperature"] and len(settings["thresholds"]) == 3
    rows = (directory / "dev_results.tsv").read_text()
    with open(directory / "dev_predictions.csv", newline="", encoding="utf-8") as file:
        answers = [row["prediction"] for row in csv.DictReader(file)]
    expected = np.array([row.split("\t") for row in rows.splitlines()], np.float32)
    predicted = expected >= np.array(settings["thresholds"], np.float32)
    assert answers == [",".join(name for name, p in zip(LABELS, row) if p) for row in predicted]
    stored = from_pretrained(str(directory), model="classifier").settings
    assert (stored.temperature, list(stored.thresholds)) == (settings["temperature"], settings["thresholds"])
    texts = [json.loads(line)["text"] for line in (data / "dev.jsonl").read_text().splitlines()]
    outputs = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"](text_a=tf.constant(texts))
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)
    np.testing.assert_array_equal(outputs["predictions"], predicted)
    # A finished run keeps its calibration, and predicts the same with and without --do_train.
    script(output_dir=directory, do_train=True, do_predict=True, predict_split="dev", data_dir=data)
    assert (directory / "dev_results.tsv").read_text() == rows
    convert(open_model(str(directory)), str(tmp_path / "hf"), "hugging_face")
    assert from_pretrained(str(tmp_path / "hf"), model="classifier").settings.temperature == settings["temperature"]


def test_the_checkpoints_of_a_calibrated_run_are_compared_as_in_its_training(script, tmp_path):
    """Its answers are calibrated."""
    directory = script.copy(tmp_path / "run")
    history = read_history(str(directory), "micro_f1")
    settings = json.loads((directory / "albert_tf.json").read_text())
    (directory / "albert_tf.json").write_text(json.dumps(dict(settings, temperature=5.0, thresholds=[0.9, 0.9, 0.1])))
    script(output_dir=directory, do_eval=True, do_predict=True)
    assert read_history(str(directory), "micro_f1") == [pytest.approx(row, abs=1e-5) for row in history]
    before, after = (np.loadtxt(folder / "test_results.tsv") for folder in (script.path, directory))
    np.testing.assert_allclose(np.log(after / (1 - after)), np.log(before / (1 - before)) / 5, atol=1e-4)

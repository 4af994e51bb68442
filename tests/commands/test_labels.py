"""run_classifier.py with several labels per text: training, answers, exports, the server, Hugging Face and the card."""

import csv
import json

import numpy as np
import pytest
from saved_models import served_saved_model
from script_session import ScriptSession

from albert_tf.export.conversion import convert
from albert_tf.server.models import model_of_source
from albert_tf.server.requests import FORMS
from albert_tf.tasks.classification.answers import classify_texts
from albert_tf.weights.from_pretrained import from_pretrained, tokenizer_from_pretrained
from albert_tf.weights.stored_model import open_source

CONFIG = dict(vocab_size=2000, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
              intermediate_size=16, max_position_embeddings=64)
LABELS = ("calm", "loud", "odd")
TASK = dict(name="moods", files={split: f"{split}.jsonl" for split in ("train", "dev", "test")},
            columns=dict(text_a="text", label="moods"), labels=LABELS, multi_label=True, class_weights="balanced",
            metrics=["micro_f1", "macro_f1", "average_precision"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moods")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    words = "nobody had filled the kettle that stood on the stove".split()
    rows = [dict(text=" ".join(words[i % 5 : i % 5 + 4]), moods=[name for j, name in enumerate(LABELS) if i >> j & 1])
            for i in range(12)]
    for split in ("train", "dev", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "task.json").write_text(json.dumps(TASK))
    return folder


@pytest.fixture(scope="module")
def script(golden, folder):
    flags = dict(albert_config_file=folder / "config.json", data_dir=folder, task_config=folder / "task.json",
                 max_seq_length=24, spm_model_file=golden / "tiny_spm" / "tiny.model", cached_dir=folder / "cached",
                 train_batch_size=4, train_step=2, learning_rate=0.01)
    with ScriptSession("run_classifier", eagerly=True, **flags) as session:
        yield session


@pytest.fixture(scope="module")
def run(script, folder):
    """The output directory of a run, with `served` beside it."""
    printed = script.run(output_dir=folder / "run", do_train=True, do_eval=True, do_predict=True, focal_gamma=2.0,
                         export_dir=folder / "served")
    assert "weights of the labels: calm 1, loud 1, odd 2" in printed
    return folder / "run"


@pytest.mark.both_stacks
def test_answers_exports_server_and_python_agree(run, folder):
    with open(run / "test_predictions.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["index", "text_a", "prediction", *LABELS]
    expected = np.array([row[3:] for row in rows], np.float32)
    assert [row[2] for row in rows] == [",".join(name for name, p in zip(LABELS, row) if p >= 0.5) for row in expected]
    texts = [row[1] for row in rows]
    model = from_pretrained(str(run), model="classifier")
    assert model.multi_label
    labels = classify_texts(model, tokenizer_from_pretrained(str(run)), texts)
    np.testing.assert_allclose([[dict(row)[name] for name in LABELS] for row in labels], expected, atol=1e-5)
    columns = dict(text_a=np.array([text.encode() for text in texts]), text_b=np.array([b""] * len(texts)))
    exported = served_saved_model("moods", str(folder / "served"))
    for served in (model_of_source("moods", open_source(str(run))), exported):
        signature = served.signatures["serving_default"]
        outputs = signature.run({name: columns[name] for name in signature.inputs})
        np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)
        assert outputs["predictions"].tolist() == (expected >= 0.5).astype(int).tolist()
        assert outputs["labels"].tolist() == [[name.encode() if p >= 0.5 else b"" for name, p in zip(LABELS, row)]
                                              for row in expected]
    form = FORMS["classify"]
    request = form.read(json.dumps(dict(examples=[dict(text_a=texts[0])])).encode())
    (pairs,) = form.response(request, [dict(probabilities=outputs["probabilities"][0])], signature)["results"]
    assert [name for name, _ in pairs] == list(LABELS)


def test_scores_settings_and_card_say_that_a_text_can_have_several(run):
    results = json.loads((run / "eval_results.json").read_text())
    assert {"micro_f1", "macro_f1", "average_precision", "eval_accuracy", "eval_loss"} <= set(results)
    assert (run / "best_trial.txt").read_text().strip().endswith(str(results["micro_f1"]))
    assert json.loads((run / "albert_tf.json").read_text())["multi_label"] is True
    assert "| labels of a text | any number |" in (run / "README.md").read_text("utf-8")


@pytest.mark.parametrize("form", ["hugging_face", "tf1"])
def test_other_formats_keep_the_kind_of_labels(run, tmp_path, form):
    convert(open_source(str(run)), str(tmp_path / form), form)
    model, original = (from_pretrained(str(path), model="classifier") for path in (tmp_path / form, run))
    assert model.multi_label and model.label_names == LABELS
    np.testing.assert_array_equal(model.classifier.kernel, original.classifier.kernel)


def test_a_run_of_another_kind_is_refused(script, run, folder, tmp_path):
    (tmp_path / "task.json").write_text(json.dumps(dict(TASK, multi_label=False, metrics=["eval_accuracy"])))
    message = "was trained to give a text any number of labels, and the task has \"multi_label\": false"
    assert message in script.run(expect=1, task_config=tmp_path / "task.json", output_dir=run, do_predict=True)
    assert message in script.run(expect=1, task_config=tmp_path / "task.json", output_dir=tmp_path, do_predict=True,
                                 init_checkpoint=run, albert_config_file=None)


def test_a_run_on_single_texts_takes_no_pairs(script, run, folder, tmp_path):
    columns = dict(text_a="text", text_b="text", label="moods")
    (tmp_path / "task.json").write_text(json.dumps(dict(TASK, columns=columns)))
    printed = script.run(expect=1, task_config=tmp_path / "task.json", output_dir=run, do_predict=True)
    assert "was trained on single texts, and moods has pairs: use the task_config of the training" in printed
    model, tokenizer = from_pretrained(str(run), model="classifier"), tokenizer_from_pretrained(str(run))
    with pytest.raises(ValueError, match="the model was trained on single texts and cannot read a second one"):
        classify_texts(model, tokenizer, ["the kettle"], ["the stove"])


def test_a_regression_has_no_focal_loss(script, golden, tmp_path):
    printed = script.run(expect=1, task_config=None, task_name="sts-b", data_dir=golden / "glue", focal_gamma=2.0,
                         output_dir=tmp_path, do_train=True)
    assert "--focal_gamma is for labels, and sts-b is a regression" in printed


@pytest.mark.long
def test_a_calibrated_run_predicts_exports_and_is_served_with_its_temperature_and_thresholds(script, folder, tmp_path):
    directory = tmp_path / "run"
    script.run(output_dir=directory, do_train=True, do_eval=True)
    printed = script.run(output_dir=directory, calibrate=True, do_predict=True, predict_split="dev",
                         export_dir=tmp_path / "served")
    results = json.loads((directory / "calibration_results.json").read_text())
    assert "calibration on 12 dev examples: " in printed
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
    model = from_pretrained(str(directory), model="classifier")
    assert (model.temperature, list(model.thresholds)) == (settings["temperature"], settings["thresholds"])
    texts = [json.loads(line)["text"] for line in (folder / "dev.jsonl").read_text().splitlines()]
    served = served_saved_model("moods", str(tmp_path / "served")).signatures["serving_default"]
    outputs = served.run(dict(text_a=np.array([text.encode() for text in texts])))
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)
    assert outputs["predictions"].tolist() == predicted.astype(int).tolist()
    # A finished run keeps its calibration, and predicts the same with and without --do_train.
    script.run(output_dir=directory, do_train=True, do_predict=True, predict_split="dev")
    assert (directory / "dev_results.tsv").read_text() == rows
    convert(open_source(str(directory)), str(tmp_path / "hf"), "hugging_face")
    assert from_pretrained(str(tmp_path / "hf"), model="classifier").temperature == settings["temperature"]


def test_calibration_needs_a_run_and_labels(script, run, golden, tmp_path):
    assert "--calibrate needs a run in --output_dir" in script.run(
        expect=1, output_dir=tmp_path / "new", init_checkpoint=run, albert_config_file=None, calibrate=True)
    assert "--calibrate is for a single model: do not set --ensemble_checkpoints" in script.run(
        expect=1, output_dir=run, ensemble_checkpoints=run, calibrate=True)
    assert "--calibrate is for labels, and sts-b is a regression" in script.run(
        expect=1, task_config=None, task_name="sts-b", data_dir=golden / "glue", output_dir=tmp_path / "other",
        calibrate=True)


@pytest.mark.long
def test_adapters_are_merged_for_predictions_exports_and_other_formats(script, folder, tmp_path):
    flags = dict(output_dir=tmp_path / "run", lora_rank=2, lora_alpha=8, lora_per_layer=True)
    printed = script.run(do_train=True, do_eval=True, do_predict=True, export_dir=tmp_path / "served", **flags)
    assert "6 adapters of rank 2" in printed and "training " in printed
    rows = (tmp_path / "run/test_results.tsv").read_text()
    assert json.loads((tmp_path / "run/albert_tf.json").read_text())["lora_alpha"] == 8
    assert "| adapters | rank 2, alpha 8, one for each layer |" in (tmp_path / "run/README.md").read_text("utf-8")
    script.run(output_dir=tmp_path / "run", do_predict=True)  # no flag of adapters is needed
    assert (tmp_path / "run/test_results.tsv").read_text() == rows
    convert(open_source(str(tmp_path / "run")), str(tmp_path / "tf1"), "tf1")
    model, merged = (from_pretrained(str(tmp_path / name), model="classifier") for name in ("run", "tf1"))
    ids = dict(input_ids=[[3, 5]], input_mask=[[1, 1]], segment_ids=[[0, 0]])
    np.testing.assert_allclose(merged(ids)["logits"], model(ids)["logits"], atol=1e-6)
    message = "has adapters with lora_alpha 8, and these flags mean adapters with lora_alpha 4: continue it with its"
    assert message in script.run(expect=1, do_train=True, **dict(flags, lora_alpha=4))
    script.run(do_train=True, train_step=3, **flags)  # the run continues

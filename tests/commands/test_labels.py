"""run_classifier.py with several labels per text: training, answers, exports, the server, Hugging Face and the card."""

import csv
import json

import numpy as np
import pytest
import tensorflow_text  # noqa: F401  registers the ops of exported models
from script_session import ScriptSession

from albert_tf.export.conversion import convert
from albert_tf.server.models import model_of_saved_model, model_of_source
from albert_tf.server.requests import FORMS
from albert_tf.tasks.classification.text_labels import classify_texts
from albert_tf.weights.from_pretrained import from_pretrained, tokenizer_from_pretrained
from albert_tf.weights.open_source import open_source

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
    exported = model_of_saved_model("moods", str(folder / "served"))
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


def test_a_regression_has_no_focal_loss(script, golden, tmp_path):
    printed = script.run(expect=1, task_config=None, task_name="sts-b", data_dir=golden / "glue", focal_gamma=2.0,
                         output_dir=tmp_path, do_train=True)
    assert "--focal_gamma is for labels, and sts-b is a regression" in printed

"""Exports report their score on a dev file, and write nothing if a precision loses too much."""

import json
import re

import numpy as np
import pytest
from in_process import loaded
from tiny import TINY_TEXT

from albert_tf import keras
from albert_tf.export.conversion import save
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.tasks.classification.answers import text_logits
from albert_tf.tasks.scores import check_scores
from albert_tf.weights.vocabulary import VocabularyFiles

# Deep enough that int8 loses what four digits show.
CONFIG = TINY_TEXT.replace(num_hidden_layers=6, initializer_range=0.5)
TEXTS = [("the name", "of the file"), ("a line", "the number of the line"), ("the file", "a name"), ("of", "line of a")]


@pytest.fixture(scope="module")
def regression(sentence_pieces, tmp_path_factory):
    """A folder with a regression, and a dev file in STS-B's format whose scores are those of the model."""
    folder = tmp_path_factory.mktemp("regression")
    keras.utils.set_random_seed(1)
    model = AlbertClassifier(CONFIG, num_labels=1)
    save(model, str(folder / "model"), "ours", VocabularyFiles.from_tokenizer(sentence_pieces))
    scores = text_logits(model, sentence_pieces, *map(list, zip(*TEXTS)))[:, 0]
    scores = 5 * (scores - scores.min()) / np.ptp(scores)
    header = "index genre filename year old_index source1 source2 sentence1 sentence2 score".replace(" ", "\t")
    rows = ["\t".join([str(i), *"abcdef", *texts, f"{score:.6f}"]) for i, (texts, score) in
            enumerate(zip(TEXTS, scores))]
    (folder / "dev.tsv").write_text("\n".join([header, *rows]) + "\n")
    return folder


def export(script, folder, output_dir, **flags):
    with loaded(script) as run:
        flags = {"score_data": folder / "dev.tsv", "task_name": "sts-b", **flags}
        return run(init_checkpoint=folder / "model", model="classifier", output_dir=output_dir,
                   **{name: value for name, value in flags.items() if value is not None})


@pytest.mark.parametrize("script", ["export_to_onnx", "export_to_tflite"])
def test_the_score_before_and_after_is_printed_for_each_precision(regression, tmp_path, capsys, script):
    pytest.importorskip("onnxruntime")
    assert export(script, regression, tmp_path, precision="float32") == 0
    printed = capsys.readouterr().out
    assert re.search(r"^pearson of the model: 1\.0000\npearson in float32: 1\.0000 \(\+0\.00%\)$", printed, re.M)
    assert any(path.name.startswith("classifier_float32.") for path in tmp_path.iterdir())


def test_nothing_is_written_if_a_precision_loses_too_much(regression, tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    assert export("export_to_onnx", regression, tmp_path, max_score_drop=0, precision=["float32", "int8"]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"export_to_onnx: error: in int8, pearson is 0\.\d+, \d+\.\d\d% below the model's "
                        r"1\.0000, and --max_score_drop=0 allows 0\.00%: nothing is written\. Export without .*", error)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments, multi_label, message", [
    (dict(label_names=("1", "0")), False, "was trained with the labels 1, 0, but those of the task are 0, 1"),
    (dict(label_names=("0", "1"), multi_label=True), False, "was trained to give a text any number of labels"),
    (dict(label_names=("0", "1")), True, "was trained to give a text one label")])
def test_the_labels_of_the_data_are_those_of_the_model(
        sentence_pieces, tmp_path, capsys, arguments, multi_label, message):
    pytest.importorskip("onnxruntime")
    (tmp_path / "dev.tsv").write_text("text\tlabel\nthe name\t1\n")
    (tmp_path / "own.json").write_text(json.dumps(dict(
        name="own", files=dict(dev="dev.tsv"), columns=dict(text_a="text", label="label"), labels=["0", "1"],
        multi_label=multi_label)))
    save(AlbertClassifier(CONFIG, **{"num_labels": 2, **arguments}), str(tmp_path / "model"), "ours",
         VocabularyFiles.from_tokenizer(sentence_pieces))
    assert export("export_to_onnx", tmp_path, tmp_path / "out", task_name=None, task_config=tmp_path / "own.json") == 1
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_loss_is_a_share_of_the_score():
    scores = dict(model=80.0, half=79.6, more=79.5)
    arguments = dict(score=lambda name: ("f1", scores[name]), model="model", max_score_drop=0.005)
    check_scores(exports=[("float16", lambda: "half")], **arguments)
    with pytest.raises(ValueError, match=r"in int8, f1 is 79.5000, 0.62% below the model's 80.0000, and --max_score"):
        check_scores(exports=[("float16", lambda: "half"), ("int8", lambda: "more")], **arguments)
    negative = dict(model=-0.5, worse=-0.6)
    with pytest.raises(ValueError, match="20.00% below the model's -0.5000"):
        check_scores(lambda name: ("x", negative[name]), "model", [("int8", lambda: "worse")], 0.1)

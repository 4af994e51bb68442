"""The examples run, and show what they claim."""

import contextlib
import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys

import numpy as np
import pytest
from documentation import Block, Page, check_printed
from peers import python_of
from script_session import ScriptSession

import albert_tf
from albert_tf import keras
from albert_tf.tasks.classification.data import find_task, read_examples
from albert_tf.tasks.classification.metrics import correlations

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


def cells_of(notebook):
    """The code of each cell, which is of the shell if it begins with %%bash, and what it printed when it was stored."""
    for cell in json.loads((EXAMPLES / notebook).read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code" and "npm" not in cell["metadata"].get("tags", ()):
            source, is_shell, commands = "".join(cell["source"]).partition("%%bash\n")
            printed = "".join(line for output in cell["outputs"] for line in output["text"])
            yield Block("bash", commands) if is_shell else Block("python", source), printed


@pytest.mark.long
@pytest.mark.parametrize("notebook, changes", [
    ("answer_questions.ipynb", {}), ("csv_to_browser.ipynb", {}),
    ("share_layers.ipynb", dict(run_pretraining=dict(num_train_steps=5, num_warmup_steps=1)))])
def test_a_notebook_of_commands_runs_and_prints_what_it_shows(notebook, changes, tmp_path, monkeypatch):
    pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLES / "reviews", tmp_path / "reviews")
    with ScriptSession() as session, contextlib.closing(Page(EXAMPLES / notebook)) as page:
        for block, stored in cells_of(notebook):
            page.run(block, tmp_path, session, **changes)
            if block.language == "python" and not changes:
                check_printed(stored, page.printed)
    assert "separate: 5,132,672 parameters" in page.printed or not changes


@pytest.mark.long
def test_the_notebook_of_keras_beats_the_more_frequent_answer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(1)
    names, stored = {}, ""
    for block, printed in cells_of("classify_texts.ipynb"):
        exec(compile(block.text, "classify_texts.ipynb", "exec"), names)  # the repository's own code
        stored += printed
    assert names["accuracy"] > names["majority"] + 0.1
    shown = re.search(r"^accuracy ([\d.]+); always the more frequent answer: ([\d.]+)$", stored, re.MULTILINE)
    for name, value in zip(("accuracy", "majority"), shown.groups()):
        assert names[name] == pytest.approx(float(value), abs=0.05)  # other Pythons have other documentation


def test_the_reviews_are_those_that_their_program_writes(tmp_path):
    subprocess.run([sys.executable, EXAMPLES / "reviews/make_reviews.py", tmp_path], check=True)
    for name in ("train.csv", "dev.csv", "test.csv"):
        assert (tmp_path / name).read_bytes() == (EXAMPLES / "reviews" / name).read_bytes()


def test_a_search_runs_the_trials_that_are_missing_and_shows_the_best_settings(
        golden, config_file, tiny_spm, tmp_path, monkeypatch, capsys):
    pytest.importorskip("optuna")
    command = ["run_classifier", "--task_name=rte", f"--data_dir={golden}/glue", "--max_seq_length=24",
               "--train_step=2", f"--albert_config_file={config_file}",
               f"--spm_model_file={tiny_spm}"]
    commands = []
    with ScriptSession(eagerly=True) as session:
        def run(command, check):
            commands.append(list(map(str, command)))
            assert session.run_command(commands[-1]) == 0

        monkeypatch.setattr(subprocess, "run", run)
        for trials in (1, 2):
            monkeypatch.setattr(sys, "argv", ["search_settings.py", f"--trials={trials}", "--metric=eval_accuracy",
                                              f"--output_dir={tmp_path}", *command])
            runpy.run_path(str(EXAMPLES / "search_settings.py"), run_name="__main__")
    best = capsys.readouterr().out.splitlines()[-1]
    scores = [json.loads((tmp_path / f"trial_{number}/eval_results.json").read_text())["eval_accuracy"]
              for number in (0, 1)]
    assert re.match(rf"eval_accuracy {max(scores):.4f} with --learning_rate=\S+ --train_batch_size=(16|32) ", best)
    assert f"--output_dir={tmp_path}/trial_1" in commands[-1] and len(commands) == 2


def test_mteb_gives_the_correlations_of_our_vectors(golden, tmp_path):
    model, data = golden / "sentence_transformers/mean_normalized", golden / "glue"
    environment = dict(os.environ, PYTHONPATH=str(EXAMPLES.parent), HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
    done = subprocess.run([python_of("mteb"), EXAMPLES / "mteb_sts_b.py", model, data / "STS-B/dev.tsv", tmp_path],
                          env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout[done.stdout.index("{"):])
    encoder = (albert_tf.from_pretrained(str(model), model="sentence_encoder"),
               albert_tf.tokenizer_from_pretrained(str(model)))
    dev = read_examples(find_task("sts-b"), str(data), "dev")
    first, second = (albert_tf.text_vectors(*encoder, [getattr(each, name) for each in dev])  # normalized by the model
                     for name in ("text_a", "text_b"))
    expected = correlations(np.array([each.label for each in dev]), np.sum(first * second, axis=1))
    assert found["cosine_pearson"] == pytest.approx(expected["pearson"], abs=1e-5)
    assert found["cosine_spearman"] == pytest.approx(expected["spearman"], abs=1e-5)

"""Each stack reads the files of the other: checkpoints of a run, and SavedModels.

ALBERT_TF_OTHER_PYTHON names a Python of the other stack, such as .environments/newest/bin/python.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from pretraining_runs import Runs
from script_process import arguments_of
from tiny import TINY_TEXT

from albert_tf.config import CONFIG_NAME
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.weights.tf1 import save_tf1_checkpoint

TESTS = pathlib.Path(__file__).parent
TEXTS = ["The [MASK] of the file.", "no mask, Größe 1,234", "[MASK] [MASK], [MASK]s", ""]


@pytest.fixture(scope="module")
def other():
    python = os.environ.get("ALBERT_TF_OTHER_PYTHON")
    if not python:
        pytest.skip("ALBERT_TF_OTHER_PYTHON is not set")
    versions = {version_of(each) for each in (sys.executable, python)}
    assert len(versions) == 2, f"both have TensorFlow {versions}"
    return python


def version_of(python):
    return run(python, "-c", "from importlib.metadata import version; print(version('tensorflow'))")


def run(python, *arguments, **options):
    done = subprocess.run([python, *map(str, arguments)], cwd=TESTS.parent, capture_output=True, text=True,
                          timeout=600, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory, other):
    """A run of 12 steps on this stack, with a checkpoint every 3 of them."""
    runs = Runs(tmp_path_factory.mktemp("runs"))
    runs.run("here")
    return runs


def resume(python, runs, source, step, target):
    """Continues a run from one of its checkpoints, in a separate folder."""
    (runs.folder / target).mkdir()
    for path in [runs.folder / source / CONFIG_NAME, *(runs.folder / source).glob(f"model.ckpt-{step}.*")]:
        shutil.copy(path, runs.folder / target)
    run(python, TESTS.parent / "run_pretraining.py", *arguments_of(dict(runs.flags, output_dir=runs.folder / target)))


def test_a_run_is_resumed_on_the_other_stack_and_back(runs, other):
    resume(other, runs, "here", 3, "there")
    resume(sys.executable, runs, "there", 9, "back")
    expected = runs.end_of("here")
    for name in ("there", "back"):
        state = runs.end_of(name)
        assert state.keys() == expected.keys()
        slots = [key for key in state if "OPTIMIZER_SLOT" in key]
        assert len(slots) > 30
        for key in state:
            # Stacks round differently; the key's bias has a gradient of 0 but for rounding.
            atol = 1e-2 if "key/bias" in key else 1e-3
            np.testing.assert_allclose(state[key], expected[key], atol=atol, rtol=1e-3, err_msg=f"{name}: {key}")


@pytest.fixture(scope="module")
def served(tmp_path_factory, config_file, tiny_spm, other):
    """{python: the folder of a SavedModel that fills masks, exported by it}"""
    folder = tmp_path_factory.mktemp("served")
    shutil.copy(tiny_spm, folder / "30k-clean.model")
    shutil.copy(config_file, folder / CONFIG_NAME)
    save_tf1_checkpoint(AlbertPretrainer(TINY_TEXT), str(folder / "model.ckpt-best"))
    exported = {sys.executable: folder / "here", other: folder / "there"}
    for python, target in exported.items():
        run(python, "-m", "albert_tf", "fill_mask", f"--init_checkpoint={folder}", f"--export_dir={target}")
    return exported


def test_a_saved_model_of_one_stack_answers_on_the_other(served):
    questions = json.dumps([["serving_default", dict(text=TEXTS)]])
    answers = [json.loads(run(python, TESTS / "helpers/saved_model_client.py", folder, input=questions))[0]
               for python in served for folder in served.values()]
    assert len(answers) == 4
    for answer in answers[1:]:
        assert answer.keys() == answers[0].keys()
        for name, values in answers[0].items():
            assert np.shape(values)[0] == len(TEXTS)
            if isinstance(np.ravel(values)[0], str):
                assert answer[name] == values
            else:
                np.testing.assert_allclose(answer[name], values, atol=1e-6)

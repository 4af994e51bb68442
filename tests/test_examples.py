"""The notebooks run, and show what they claim."""

import json
import pathlib

import pytest

from albert_tf import keras

NOTEBOOKS = sorted((pathlib.Path(__file__).parents[1] / "examples").glob("*.ipynb"))


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_beats_the_more_frequent_answer(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(1)
    names = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(path), "exec"), names)  # the repository's own code
            assert not cell["outputs"], "notebooks are kept without outputs"
    assert names["accuracy"] > names["majority"] + 0.1

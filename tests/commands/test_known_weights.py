"""Each training ends with weights and scores that are known: a change of structure must not move them.

The numbers are in golden/known_weights.json. `KNOWN_WEIGHTS=write pytest tests/commands/test_known_weights.py` computes
them again, for a change that means to move them.
"""

import json
import os

import numpy as np
import pytest
from pretraining_runs import Runs
from tuning import TASKS, end_of, results_of

from albert_tf.weights.runs import stored_variables


@pytest.fixture(scope="module")
def known(golden):
    path = golden / "known_weights.json"
    numbers = json.loads(path.read_text()) if path.exists() else {}
    yield numbers
    if os.environ.get("KNOWN_WEIGHTS") == "write":
        path.write_text(json.dumps(numbers, indent=0, sort_keys=True) + "\n")


def digest(values):
    """{variable: root mean square, and a sum in which each value counts differently}, rounded."""
    def numbers(value):
        flat = value.ravel().astype(float)
        return np.sqrt(np.mean(flat ** 2)), np.cos(np.arange(flat.size)) @ flat / np.sqrt(flat.size)

    return {name: [float(f"{number:.5g}") for number in numbers(values[key])]
            for key, name, slot in stored_variables(values) if not slot}


def check(known, name, values, scores):
    """Compares with the known numbers. Adam moves the bias of the keys, whose gradient is 0, by rounding alone."""
    found = dict(scores={key: round(value, 5) for key, value in scores.items()}, weights=digest(values))
    if os.environ.get("KNOWN_WEIGHTS") == "write":
        known[name] = found
    assert known[name]["weights"].keys() == found["weights"].keys()
    for variable, numbers in known[name]["weights"].items():
        if not variable.endswith("/key/bias"):
            np.testing.assert_allclose(found["weights"][variable], numbers, rtol=2e-3, atol=3e-4, err_msg=variable)
    assert found["scores"] == pytest.approx(known[name]["scores"], rel=2e-3, abs=5e-4)


@pytest.mark.both_stacks
@pytest.mark.parametrize("name", TASKS)
def test_a_command_that_fine_tunes_ends_with_the_known_weights(run_of, known, name):
    path = run_of(name).path
    check(known, name, end_of(path), results_of(path))


@pytest.mark.both_stacks
def test_a_pretraining_that_is_resumed_ends_with_the_known_weights(known, tmp_path):
    runs = Runs(tmp_path)
    evaluated = dict(do_eval=True, eval_input_file=runs.flags["input_file"])
    runs.run("run", num_train_steps=6, **evaluated)
    runs.run("run", **evaluated)
    check(known, "pre-training", runs.end_of("run"), results_of(tmp_path / "run"))

"""A run that is killed and started again ends with the weights of an uninterrupted run, bit for bit.

Dropout, shuffling, dynamic masking and accumulation are on; records end within batches; kills come
within saves, too.
"""

import random
import signal
import subprocess

import pytest
from pretraining_runs import Runs, assert_bit_equal
from synthetic_records import write_records

pytestmark = pytest.mark.both_stacks

FLAGS = dict(dynamic_masking=True, masked_lm_prob=0.2, gradient_accumulation_steps=2)
# (logical devices, flags)
PLACES = {"one device": (1, {}), "mirrored": (2, dict(distribution_strategy="mirrored"))}


@pytest.fixture(scope="module", params=[pytest.param("one device"), pytest.param("mirrored", marks=pytest.mark.slow)])
def place(request, tmp_path_factory):
    """(runs, environment, flags, all values of the uninterrupted run's last checkpoint)"""
    devices, flags = PLACES[request.param]
    runs, environment, flags = Runs(tmp_path_factory.mktemp("runs")), dict(DEVICES=devices), {**FLAGS, **flags}
    runs.run("whole", environment, **flags)
    return runs, environment, flags, runs.end_of("whole")


@pytest.mark.long
@pytest.mark.parametrize("renames", [
    pytest.param(5, marks=pytest.mark.slow), pytest.param(6, marks=pytest.mark.slow), 7,
    pytest.param(8, marks=pytest.mark.slow)])
def test_killed_within_a_save(place, renames):
    """A save renames config, data, index and "checkpoint", in this order.

    The second save is hit, before each of them.
    """
    runs, environment, flags, expected = place
    name = f"killed at {renames}"
    runs.run(name, {**environment, "KILL_AT_RENAME": renames}, expect=-signal.SIGKILL, **flags)
    assert "training from step 0" not in runs.run(name, environment, **flags)
    assert_bit_equal(runs.end_of(name), expected)


@pytest.mark.slow
def test_killed_again_and_again_at_any_moment(place):
    runs, environment, flags, expected = place
    chance = random.Random(1)
    kills = 0
    while True:
        with runs.start("killed", environment, **flags) as process:
            process.wait_for("training from step", "nothing to train")
            try:
                process.communicate(timeout=chance.uniform(0, 12))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
        if process.returncode == 0:
            break
    assert kills
    assert_bit_equal(runs.end_of("killed"), expected)


@pytest.mark.long
def test_a_run_on_packed_rows_is_killed_within_a_save(tmp_path):
    """The third save is hit: steps 7 to 9 of 12."""
    runs = Runs(tmp_path)
    path = write_records(tmp_path / "texts.tfrecord", 40, shortest=5, objective="sop")
    flags = dict(FLAGS, input_file=path, pack_rows=2)
    printed = runs.run("whole", **flags)
    assert "retracing" not in printed
    runs.run("killed", dict(KILL_AT_RENAME=11), expect=-signal.SIGKILL, **flags)
    assert "training from step 6 to 12" in runs.run("killed", **flags)
    assert_bit_equal(runs.end_of("killed"), runs.end_of("whole"))


@pytest.mark.slow
def test_dropout_shuffling_and_masks_come_from_the_seed(place):
    runs, environment, flags, expected = place
    runs.run("another seed", environment, random_seed=1, **flags)
    with pytest.raises(AssertionError):
        assert_bit_equal(runs.end_of("another seed"), expected)

"""A run that is killed and started again ends with the weights of an uninterrupted run, bit for bit.

Dropout, shuffling, dynamic masking of a falling share and accumulation are on; records end within batches; kills come
within saves, too.
"""

import random
import signal
import subprocess

import pytest
from pretraining_runs import Runs, assert_bit_equal
from synthetic_records import write_records

FLAGS = dict(dynamic_masking=True, masked_lm_prob=0.2, final_masked_lm_prob=0.1, gradient_accumulation_steps=2)
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
@pytest.mark.parametrize("pack_rows", [0, 2])
def test_a_run_on_several_lengths_is_killed_within_a_save(tmp_path, pack_rows):
    """The third save is hit: steps 7 to 9 of 12, of which the seventh is the second one with 16 tokens."""
    runs = Runs(tmp_path)
    files = [write_records(tmp_path / f"{length}.tfrecord", 40, length, predictions, shortest=5, objective="sop")
             for length, predictions in ((8, 2), (16, 3))]
    flags = dict(FLAGS, input_file=files, input_share=[3, 1], pack_rows=pack_rows)
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

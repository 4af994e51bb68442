"""Workers wait for each other, the chief starts first, and an error names a worker that was lost."""

import tensorflow as tf
from two_workers import TwoWorkers

from albert_tf.training.strategy import chief_first, values_of_all


def test_two_workers_meet_the_chief_goes_first_and_a_failure_of_one_ends_both_in_one_line(tmp_path):
    with TwoWorkers(["tests/helpers/worker_program.py", f"--folder={tmp_path}"]) as workers:
        (status, of_chief), (status_of_other, of_other) = workers.end_of(0), workers.end_of(1)
    assert "values: [10, 11]\nseen: []\n" in of_chief and "values: [10, 11]\nseen: ['of the chief']\n" in of_other
    assert status_of_other == 1 and of_other.splitlines()[-1] == "worker_program: error: this worker fails"
    assert status == 1 and of_chief.splitlines()[-1].startswith(
        f"worker_program: error: worker 1 ({workers.addresses[1]}) no longer answers: ")
    assert "Traceback" not in of_chief + of_other


def test_one_process_waits_for_nobody():
    strategy, seen = tf.distribute.OneDeviceStrategy("CPU:0"), []
    with chief_first(strategy):
        seen.append(values_of_all(strategy, 7))
    assert seen == [[7]]

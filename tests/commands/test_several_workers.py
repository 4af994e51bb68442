"""Fine-tuning with two workers, of which one is killed, has the results of one process."""

import pathlib
import re

import numpy as np
import pytest
import tensorflow_text  # noqa: F401  registers the ops of exported models
from pretraining_runs import values_of
from script_process import deterministic, run
from two_workers import TwoWorkers

pytestmark = pytest.mark.both_stacks

STEPS = 4
RESULTS = ["eval_results.json", "eval_history.jsonl", "predictions.json", "nbest_predictions.json", "null_odds.json"]


@pytest.mark.slow
def test_two_workers_of_which_one_is_killed_and_started_again_get_what_one_process_gets(
        golden, config_file, tiny_spm, tmp_path):
    flags = dict.fromkeys(("train_file", "predict_file"), golden / "squad/train.json")
    flags.update(albert_config_file=config_file, spm_model_file=tiny_spm, max_seq_length=64, doc_stride=24,
                 max_query_length=16, num_workers=1, train_step=STEPS, dropout_prob=0, learning_rate=0.001,
                 train_batch_size=4, eval_batch_size=64, predict_batch_size=64, save_checkpoints_steps=1, do_train=True,
                 do_eval=True, do_predict=True)
    one, two = (dict(flags, output_dir=folder, export_dir=folder / "served")
                for folder in (tmp_path / "one", tmp_path / "two"))
    done = run("run_squad", one, prepare=deterministic)
    assert done.returncode == 0, done.stderr

    with TwoWorkers("run_squad", two) as workers:
        workers.wait_for("step 2: ")  # evaluated
        workers.kill(1)
        status, printed = workers.end_of(0)
    assert status == 1 and "Traceback" not in printed
    assert printed.splitlines()[-1].startswith(f"run_squad: error: worker 1 ({workers.addresses[1]}) no longer answers")
    with TwoWorkers("run_squad", two) as workers:
        for index in (0, 1):  # worker 1 would be killed if it wrote a file
            status, printed = workers.end_of(index)
            assert status == 0, printed
            assert "training from step" in printed and "training from step 0" not in printed

    one, two = tmp_path / "one", tmp_path / "two"
    assert files_of(two) == files_of(one)
    for name in RESULTS:
        texts, numbers = zip(*(texts_and_numbers((folder / name).read_text()) for folder in (two, one)))
        assert texts[0] == texts[1], name
        np.testing.assert_allclose(*numbers, atol=1e-5, rtol=1e-5, err_msg=name)
    for name in (f"model.ckpt-{STEPS}", "model.ckpt-best"):
        found, expected = (values_of(folder / name) for folder in (two, one))
        assert found.keys() == expected.keys()
        for key in expected:
            np.testing.assert_allclose(found[key], expected[key], atol=1e-5, rtol=1e-5, err_msg=key)


def files_of(folder: pathlib.Path) -> set[str]:
    """The names of the files. A run that was started again has more files of curves."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "events" not in path.name}


def texts_and_numbers(text: str) -> tuple[str, list[float]]:
    number = r"-?\d+\.\d+(?:e-?\d+)?"
    return re.sub(number, "#", text), list(map(float, re.findall(number, text)))

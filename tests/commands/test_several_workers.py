"""Fine-tuning with two workers, of which one is killed, has the results of one process."""

import pathlib
import re

import numpy as np
import pytest
import tensorflow_text  # noqa: F401  registers the ops of exported models
from pretraining_runs import values_of
from script_process import run
from tiny import TINY_TEXT
from two_workers import RUNNER, TwoWorkers

STEPS = 4
# The script, its flags, and the results that it writes.
RUNS = {
    "run_classifier": (
        dict(task_name="mnli", data_dir="glue", max_seq_length=24, train_step=STEPS, classifier_dropout_prob=0),
        ["test_results.tsv", "test_results_mismnli.tsv", "submit_results.tsv"]),
    "run_squad": (
        dict(train_file="squad/train.json", predict_file="squad/train.json", max_seq_length=64, doc_stride=24,
             max_query_length=16, num_workers=1, train_step=STEPS, dropout_prob=0),
        ["predictions.json", "nbest_predictions.json", "null_odds.json"]),
    "run_race": (
        dict(data_dir="race", max_seq_length=48, max_qa_length=24, train_step=STEPS, warmup_step=0, dropout_prob=0),
        ["predictions.jsonl", "predict_results.json"]),
}
RESULTS = ["eval_results.json", "eval_history.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("script", RUNS)
def test_two_workers_of_which_one_is_killed_and_started_again_get_what_one_process_gets(script, golden, tmp_path):
    flags, files = RUNS[script]
    (tmp_path / "config.json").write_text(TINY_TEXT.to_json_string())
    flags = {name: golden / value if (golden / str(value)).exists() else value for name, value in flags.items()}
    flags.update(albert_config_file=tmp_path / "config.json", spm_model_file=golden / "tiny_spm" / "tiny.model",
                 learning_rate=0.001, train_batch_size=4, eval_batch_size=64, predict_batch_size=64,
                 save_checkpoints_steps=1, do_train=True, do_eval=True, do_predict=True)
    one, two = (arguments(script, tmp_path / name, flags) for name in ("one", "two"))
    done = run(RUNNER, one)
    assert done.returncode == 0, done.stderr

    with TwoWorkers(two) as workers:
        workers.wait_for("step 2: ")  # evaluated
        workers.kill(1)
        status, printed = workers.end_of(0)
    assert status == 1 and "Traceback" not in printed
    assert printed.splitlines()[-1].startswith(f"{script}: error: worker 1 ({workers.addresses[1]}) no longer answers")
    with TwoWorkers(two) as workers:
        for index in (0, 1):  # worker 1 would be killed if it wrote a file
            status, printed = workers.end_of(index)
            assert status == 0, printed
            assert "training from step" in printed and "training from step 0" not in printed

    one, two = tmp_path / "one", tmp_path / "two"
    assert files_of(two) == files_of(one)
    for name in [*RESULTS, *files]:
        texts, numbers = zip(*(texts_and_numbers((folder / name).read_text()) for folder in (two, one)))
        assert texts[0] == texts[1], name
        np.testing.assert_allclose(*numbers, atol=1e-5, rtol=1e-5, err_msg=name)
    for name in (f"model.ckpt-{STEPS}", "model.ckpt-best"):
        found, expected = (values_of(folder / name) for folder in (two, one))
        assert found.keys() == expected.keys()
        for key in expected:
            np.testing.assert_allclose(found[key], expected[key], atol=1e-5, rtol=1e-5, err_msg=key)


def arguments(script: str, folder: pathlib.Path, flags: dict) -> list[str]:
    flags = dict(flags, output_dir=folder, export_dir=folder / "served")
    return [script, *(f"--{name}={value}" for name, value in flags.items())]


def files_of(folder: pathlib.Path) -> set[str]:
    """The names of the files. A run that was started again has more files of curves."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "events" not in path.name}


def texts_and_numbers(text: str) -> tuple[str, list[float]]:
    number = r"-?\d+\.\d+(?:e-?\d+)?"
    return re.sub(number, "#", text), list(map(float, re.findall(number, text)))

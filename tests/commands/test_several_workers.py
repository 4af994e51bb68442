"""Fine-tuning with two workers, of which one is killed, has the results of one process."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from script_process import run
from two_workers import RUNNER, TwoWorkers

from albert_tf.utils.outputs import used_alone

CONFIG = dict(vocab_size=2000, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
              intermediate_size=16, max_position_embeddings=64)
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
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
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

    assert_same_tree(tmp_path / "one", tmp_path / "two")
    for name in [*RESULTS, *files]:
        assert_close(numbers_and_texts(tmp_path / "two" / name), numbers_and_texts(tmp_path / "one" / name), name)
    for name in (f"model.ckpt-{STEPS}", "model.ckpt-best"):
        assert_close(tensors_of(tmp_path / "two" / name), tensors_of(tmp_path / "one" / name), name)
    assert_close(served_by(tmp_path / "two" / "served"), served_by(tmp_path / "one" / "served"), "served")


@pytest.mark.slow
def test_workers_of_a_folder_that_another_training_uses_end_in_one_line_each(golden, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    flags = dict(task_name="rte", data_dir=golden / "glue", max_seq_length=24, train_step=STEPS, train_batch_size=4,
                 albert_config_file=tmp_path / "config.json", spm_model_file=golden / "tiny_spm" / "tiny.model",
                 do_train=True)
    folder = tmp_path / "used"
    with used_alone(str(folder), "training"):
        before = list(folder.iterdir())
        with TwoWorkers(arguments("run_classifier", folder, flags)) as workers:
            (_, of_chief), (_, of_other) = ends = [workers.end_of(index) for index in (0, 1)]
        assert list(folder.iterdir()) == before
    assert [status for status, _ in ends] == [1, 1] and "Traceback" not in of_chief + of_other
    assert f"error: {folder} is in use by another training: wait until it has ended" in of_chief.splitlines()[-1]
    assert of_other.splitlines()[-1].startswith(
        f"run_classifier: error: worker 0 ({workers.addresses[0]}) no longer answers")


def arguments(script: str, folder: pathlib.Path, flags: dict) -> list[str]:
    flags = dict(flags, output_dir=folder, export_dir=folder / "served")
    return [script, *(f"--{name}={value}" for name, value in flags.items())]


def assert_same_tree(expected: pathlib.Path, found: pathlib.Path) -> None:
    """Checks that both folders have the same files. A run that was started again has more files of curves."""
    names = ({str(path.relative_to(folder)) for path in folder.rglob("*") if "events" not in path.name}
             for folder in (expected, found))
    assert next(names) == next(names)


def numbers_and_texts(path: pathlib.Path):
    """A file's content as nested lists and dicts."""
    if path.suffix == ".json":
        return json.loads(path.read_text())
    rows = path.read_text().splitlines()
    return [json.loads(row) if path.suffix == ".jsonl" else as_numbers(row.split("\t")) for row in rows]


def as_numbers(cells: list[str]) -> list:
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return cells


def tensors_of(prefix: pathlib.Path) -> dict:
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name).tolist() for name in reader.get_variable_to_shape_map()
            if "OBJECT_GRAPH" not in name}


def served_by(folder: pathlib.Path) -> dict:
    """The outputs of a SavedModel for ids."""
    signature = tf.saved_model.load(str(folder)).signatures["ids"]
    specs = signature.structured_input_signature[1]
    values = dict(input_ids=[2, 9, 3, 8, 7, 3] * 8, input_mask=[1] * 48, segment_ids=([0] * 3 + [1] * 3) * 8)
    inputs = {name: tf.constant([values.get(name, [0] * 48)], spec.dtype) for name, spec in specs.items()}
    return {name: value.numpy().tolist() for name, value in signature(**inputs).items()}


def assert_close(found, expected, name: str) -> None:
    """Checks that numbers differ by at most 1e-5, and that all other values are equal."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), name
        for key in expected:
            assert_close(found[key], expected[key], f"{name}/{key}")
    elif isinstance(expected, list) and not all(isinstance(value, float) for value in expected):
        assert len(found) == len(expected), name
        for i, value in enumerate(expected):
            assert_close(found[i], value, f"{name}/{i}")
    elif isinstance(expected, (float, list)):
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5, err_msg=name)
    else:
        assert found == expected, name

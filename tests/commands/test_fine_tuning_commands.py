"""What all commands that fine-tune have in common, by a table of tasks (tuning.TASKS) and a table of mistakes."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from tuning import SENTENCES, TASKS, are_equal, end_of, files_in, results_of

from albert_tf.tasks.multiple_choice.data import read_examples
from albert_tf.utils.outputs import used_alone
from albert_tf.weights.settings import settings_in


@pytest.fixture(scope="module", params=TASKS)
def run(request, run_of):
    return run_of(request.param)


def long_but(*quick):
    return pytest.mark.parametrize("name", [
        name if name in quick else pytest.param(name, marks=pytest.mark.long) for name in TASKS])


@pytest.mark.both_stacks
def test_a_run_leaves_its_scores_checkpoints_answers_settings_and_card(run):
    path, task, results = run.path, run.task, results_of(run.path)
    assert {*task.scores, "global_step"} <= set(results)
    assert {name: float(value) for name, value in (line.split(" = ") for line in (
        path / "eval_results.txt").read_text().splitlines())} == pytest.approx(results)
    history = [json.loads(line) for line in (path / "eval_history.jsonl").read_text().splitlines()]
    metric = task.scores[0]
    best = max(history, key=lambda row: row[metric])
    assert [row["global_step"] for row in history] == [1, 2] and results[metric] == best[metric]
    assert (path / "best_trial.txt").read_text() == f"2:{best['global_step']}:{best[metric]}\n"
    assert {"model.ckpt-1.index", "model.ckpt-2.index", "model.ckpt-best.index", "albert_config.json", "tiny.model",
            "eval_history.svg"} <= {file.name for file in path.iterdir()}
    assert all(run.answers().values())
    stored = settings_in(str(path))
    assert getattr(stored, "temperature", 1.0) == 1.0
    for name, (value, _) in task.settings.items():
        assert getattr(stored, name, value) == value
    card = (path / "README.md").read_text("utf-8")
    assert f"pipeline_tag: {task.pipeline}\n" in card and f"| {metric} | {best[metric]:.4f} |" in card
    assert "datasets:\n" + "".join(f"- {name}\n" for name in task.datasets) in card


@long_but("classification", "tagging")
def test_a_later_command_answers_the_same_from_the_best_checkpoint_and_the_cache(run_of, tmp_path, name):
    run = run_of(name)
    lengths = dict.fromkeys(name for name in run.task.flags if name.startswith("max_") or name in run.task.settings)
    printed = run(output_dir=tmp_path / "again", init_checkpoint=run.path, albert_config_file=None,
                  spm_model_file=None, do_predict=True, eagerly=False, **lengths)
    assert "records made" not in printed
    assert run.answers(tmp_path / "again") == run.answers()


@long_but("labels", "SQuAD 2.0")
def test_a_run_is_used_as_it_was_trained_and_is_not_continued_as_another(run_of, tmp_path, name):
    run = run_of(name)
    others = {name: value for name, (_, value) in run.task.settings.items()}
    copy = run.copy(tmp_path / "run")
    before = files_in(copy)
    printed = run(output_dir=copy, do_predict=True, eagerly=False, **others)
    line = run.fails(output_dir=copy, do_train=True, train_step=3, **others)
    named = [f"{name} is {ours} in the run and {other} in --{name}"
             for name, (ours, other) in run.task.settings.items()]
    assert all(text in printed for text in named)
    assert f"--output_dir={copy} " in line and any(text in line for text in named)
    assert files_in(copy) == before


def test_a_run_of_another_task_is_named_before_anything_is_written(run, run_of, tmp_path):
    before = files_in(run.path)
    for other in map(run_of, ("classification", "SQuAD 2.0")):
        if other.task.script != run.task.script or "SQuAD" in run.task.name and other.task.name != run.task.name:
            line = other.fails(output_dir=run.path, do_predict=True, cached_dir=tmp_path / "cached")
            assert f"--output_dir={run.path} has a run of {run.task.name}, and this is " in line
            assert other.task.name in line
    assert files_in(run.path) == before and not list(tmp_path.iterdir())


@long_but("classification")
def test_several_seeds_continue_where_they_were_killed_and_give_an_ensemble(run_of, tmp_path, name):
    run, directory = run_of(name), tmp_path / "runs"
    seeds = [directory / f"seed_{seed}" for seed in (7, 8)]
    flags = dict(output_dir=directory, num_runs=2, seed=7, do_train=True, do_eval=True)
    run(**flags)
    of_runs, metric = json.loads((directory / "eval_runs.json").read_text()), run.task.scores[0]
    values = [row[metric] for row in of_runs["seeds"].values()]
    assert list(of_runs["seeds"]) == ["7", "8"] and of_runs["best_run"] == seeds[int(np.argmax(values))].name
    assert results_of(directory)[metric] == pytest.approx(np.median(values))
    spread = dict(lowest=min(values), highest=max(values), standard_deviation=np.std(values, ddof=1))
    assert {name: of_runs["over_runs"][metric][name] for name in spread} == pytest.approx(spread)
    for seed, value in zip((7, 8), values):
        card = (directory / f"seed_{seed}" / "README.md").read_text("utf-8").splitlines()
        assert f"| seed | {seed} |" in card and f"| {metric} | {value:.4f} |" in card
    ends = [end_of(seed) for seed in seeds]
    assert not are_equal(*ends)
    for file in seeds[1].glob("model.ckpt-2.*"):
        file.unlink()
    assert "training from step 1 to 2" in run(**flags)
    assert are_equal(end_of(seeds[1]), ends[1])
    numbers = []
    for name, members in (("both", seeds), ("first", seeds[:1]), ("second", seeds[1:])):
        run(output_dir=tmp_path / name, ensemble_checkpoints=",".join(f"{seed}/model.ckpt-2" for seed in members),
            do_predict=True)
        numbers.append(run.task.numbers(tmp_path / name) if run.task.numbers else None)
    if run.task.numbers:
        np.testing.assert_allclose(numbers[0], (numbers[1] + numbers[2]) / 2, atol=1e-5)
        assert not np.array_equal(numbers[1], numbers[2], equal_nan=True)
    run(output_dir=directory, do_predict=True)
    run(output_dir=tmp_path / "best", init_checkpoint=directory / of_runs["best_run"], do_predict=True)
    assert run.answers(directory) == run.answers(tmp_path / "best")


@pytest.mark.long
@pytest.mark.both_stacks
@pytest.mark.parametrize("name", ["multiple choice", "tagging"])
def test_the_export_of_a_finished_run_answers_as_the_command(run_of, golden, tmp_path, name):
    """Other tests compare the exports of classifiers (windows, thresholds), of SQuAD and of vectors (prompts)."""
    run = run_of(name)
    run(output_dir=run.path, export_dir=tmp_path / "served", albert_config_file=None, spm_model_file=None,
        eagerly=False)
    signatures = tf.saved_model.load(str(tmp_path / "served")).signatures
    if name == "tagging":
        longest = max(map(len, SENTENCES))
        tags = signatures["words"](words=[row + [""] * (longest - len(row)) for row in SENTENCES])["tags"].numpy()
        lines = (run.path / "predictions.conll").read_text().split()
        assert [tag.decode() for row in tags for tag in row if tag] == lines[1::2]
    else:
        examples = read_examples(str(golden / "race"), "test")
        answers = signatures["serving_default"](**{
            column: tf.constant([getattr(row, column) for row in examples])
            for column in ("context", "question", "options")})
        expected = run.task.numbers(run.path)
        np.testing.assert_allclose(answers["probabilities"], expected[:, ~np.isnan(expected).any(axis=0)], atol=1e-5)
        records = next((run.path.parent / "cached").glob("race_test_*.tfrecord"))
        records = next(iter(tf.data.TFRecordDataset(str(records)).batch(99)))
        of_records = signatures["examples"](examples=records)["probabilities"]
        np.testing.assert_allclose(of_records, answers["probabilities"], atol=1e-5)


TEACHING = dict(do_train=True, objective="distillation", train_file="{inputs}/lines.txt")
MISTAKES = [  # the task, flags, and what the line must name
    ("classification", {}, ["--do_train", "--do_eval", "--export_dir"]),
    ("classification", dict(do_train=True, recipe="nowhere_v3"), ["'nowhere_v3'", "mnli"]),
    ("classification", dict(task_name="sst-3", do_train=True), ["'sst-3'", "cola", "mnli"]),
    ("classification", dict(task_name=None, do_train=True), ["--task_name", "--task_config"]),
    ("classification", dict(task_name="sts-b", calibrate=True), ["--calibrate", "sts-b"]),
    ("classification", dict(albert_config_file=None, calibrate=True, init_checkpoint="albert_tiny_en"),
     ["--calibrate", "--output_dir"]),
    ("classification", dict(do_train=True, teacher_checkpoint="a", teacher_scores="b"),
     ["--teacher_scores and --teacher_checkpoint exclude each other"]),
    ("SQuAD 2.0", dict(export_dir="served", squad_version=None, train_file=None, predict_file=None),
     ["--squad_version"]),
    ("SQuAD 2.0", dict(do_train=True, start_n_top=65), ["--start_n_top", "--end_n_top", "64"]),
    ("SQuAD 2.0", dict(do_train=True, num_train_epochs=2), ["--train_step", "--num_train_epochs"]),
    ("SQuAD 2.0", dict(do_train=True, do_predict=True, squad_version=None, predict_file="{golden}/squad/dev_v1.json"),
     ["1.1", "2.0"]),
    ("multiple choice", dict(do_train=True, data_format="jsonl", high_only=True), ["high_only", "RACE"]),
    ("tagging", dict(do_predict=True), ["no checkpoint", "/out", "--init_checkpoint"]),
    ("tagging", dict(do_eval=True, train_file=None), ["tags"]),
    ("tagging", dict(do_train=True, columns="0,a"), ["--columns", "0,a"]),
    ("sentence vectors", dict(do_train=True, objective="simcse", train_file="{inputs}/same.txt"), ["same.txt"]),
    ("sentence vectors", TEACHING, ["--objective=distillation", "--teacher_checkpoint"]),
    ("sentence vectors", dict(do_train=True, teacher_checkpoint="albert_tiny_en"),
     ["--objective=distillation", "--teacher_checkpoint"]),
    ("sentence vectors", dict(TEACHING, teacher_checkpoint="albert_tiny_en", teacher_vectors="vectors.npy"),
     ["either --teacher_checkpoint or --teacher_vectors"]),
    ("sentence vectors", dict(TEACHING, objective="tokens", teacher_vectors="vectors.npy"),
     ["--objective=tokens needs --teacher_checkpoint"]),
    ("sentence vectors", dict(TEACHING, objective="tokens", teacher_checkpoint="albert_tiny_en", matryoshka_dims="8,4"),
     ["--matryoshka_dims", "another --objective than tokens"]),
]


@pytest.mark.parametrize("name, flags, named", MISTAKES, ids=str)
def test_a_mistake_ends_in_one_line_that_names_it_and_nothing_is_trained(
        command_of, inputs, golden, tmp_path, name, flags, named):
    (inputs / "same.txt").write_text("a lamp\na lamp\n")
    flags = {flag: value.format(inputs=inputs, golden=golden) if isinstance(value, str) else value
             for flag, value in flags.items()}
    line = command_of(name).fails(output_dir=tmp_path / "out", cached_dir=tmp_path / "cached", **flags)
    assert all(text in line for text in named), line
    assert not list(tmp_path.glob("out/model.ckpt*"))


def test_a_run_that_another_process_trains_is_evaluated_and_not_trained(run_of, tmp_path):
    run = run_of("classification")
    copy = run.copy(tmp_path / "used")
    flags = dict(do_train=True, do_eval=True, train_step=3, cached_dir=None)  # nothing is cached in the folder either
    with used_alone(str(copy), "training"):
        before = files_in(copy)
        for num_runs in (1, 2):
            assert f"{copy} is in use by another training" in run.fails(output_dir=copy, num_runs=num_runs, **flags)
        assert files_in(copy) == before and not (copy / "seed_12345").exists()
        run(output_dir=copy, do_eval=True)
    assert "training from step 2 to 3" in run(output_dir=copy, **flags)
    assert "nothing to train: step 3 of 3 is done" in run(output_dir=copy, **flags)
    several = tmp_path / "several"
    with used_alone(str(several / "seed_8"), "training"):
        assert f"{several}/seed_8 is in use" in run.fails(output_dir=several, num_runs=2, seed=7, **flags)
        assert not (several / "seed_7").exists()

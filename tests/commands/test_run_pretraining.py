"""run_pretraining.py as a user runs it: results, mistakes, signals, several processes."""

import json
import os
import pathlib
import pty
import re
import signal
import sys

import numpy as np
import pytest
import tensorflow as tf
from in_process import loaded
from pretraining_runs import Runs
from script_session import ScriptSession
from synthetic_records import write_records
from two_workers import TwoWorkers

from albert_tf.training import trainer
from albert_tf.utils.outputs import used_alone
from albert_tf.weights.from_pretrained import from_pretrained
from albert_tf.weights.stored_model import open_source

REPOSITORY = pathlib.Path(__file__).parents[2]
RELEASE_KEYS = {"global_step", "loss", "masked_lm_accuracy", "masked_lm_loss", "sentence_order_accuracy",
                "sentence_order_loss"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def session(runs):
    """A session for short runs or runs without training. `runs` is for separate processes and training in graphs."""
    with ScriptSession("run_pretraining", eagerly=True, **runs.flags) as session:
        yield session


@pytest.fixture(scope="module")
def finished(runs):
    """(output, directory) of a run that was evaluated on two sets."""
    sop = write_records(runs.folder / "dev.tfrecord", 20, seed=1, objective="sop")
    none = write_records(runs.folder / "plain.tfrecord", 20, seed=2, objective="none")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "lamp", *(f"piece{i}" for i in range(54))]
    (runs.folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    printed = runs.run("finished", dict(TF_CPP_MIN_LOG_LEVEL=3), do_eval=True, keep_checkpoint_max=2,
                       eval_input_file=[sop, none],
                       vocab_file=runs.folder / "vocab.txt", do_lower_case=False)
    return printed, runs.folder / "finished"


def results_of(directory):
    lines = (directory / "eval_results.txt").read_text().splitlines()
    return {name: float(value) for name, value in (line.split(" = ") for line in lines)}


def scores_of(model, path, seq=16, predictions=3):
    """The metrics of all records of a file, as the release defines them (run_pretraining.py, metric_fn)."""
    features = {name: tf.io.FixedLenFeature([size], dtype) for name, size, dtype in (
        ("input_ids", seq, tf.int64), ("input_mask", seq, tf.int64), ("segment_ids", seq, tf.int64),
        ("masked_lm_positions", predictions, tf.int64), ("masked_lm_ids", predictions, tf.int64),
        ("masked_lm_weights", predictions, tf.float32), ("next_sentence_labels", 1, tf.int64))}
    records = tf.io.parse_example(list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()), features)
    outputs = model({name: tf.cast(values, tf.int32) for name, values in records.items() if values.dtype == tf.int64})
    scores = {}
    for name, logits, labels, weights in (
            ("masked_lm", outputs["mlm_logits"], records["masked_lm_ids"], records["masked_lm_weights"].numpy()),
            ("sentence_order", outputs["sop_logits"], records["next_sentence_labels"][:, 0], None)):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits).numpy()
        scores[f"{name}_loss"] = np.average(losses, weights=weights)
        scores[f"{name}_accuracy"] = np.average(logits.numpy().argmax(-1) == labels.numpy(), weights=weights)
    return scores


@pytest.mark.both_stacks
def test_evaluation_writes_the_releases_keys_for_each_set(finished):
    results = results_of(finished[1])
    second = {"plain/loss", "plain/masked_lm_accuracy", "plain/masked_lm_loss"}  # made without sentence labels
    assert set(results) == RELEASE_KEYS | second
    assert results["global_step"] == 12
    model = from_pretrained(str(finished[1] / "model.ckpt-12"), model="pretrainer")
    expected = scores_of(model, finished[1].parent / "dev.tfrecord")
    plain = scores_of(model, finished[1].parent / "plain.tfrecord")
    expected.update({f"plain/{name}": plain[name] for name in ("masked_lm_accuracy", "masked_lm_loss")})
    assert {name: results[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(results["loss"], results["masked_lm_loss"] + results["sentence_order_loss"], rtol=1e-6)


def test_the_model_card_has_the_records_and_the_scores_of_the_best_checkpoint(finished):
    card = (finished[1] / "README.md").read_text("utf-8")
    history = [json.loads(line) for line in (finished[1] / "eval_history.jsonl").read_text().splitlines()]
    best = max(history, key=lambda row: row["masked_lm_accuracy"])
    for line in (f"| masked_lm_accuracy | {best['masked_lm_accuracy']:.4f} |", "| training steps | 12 |",
                 f"| global_step | {best['global_step']} |", f"| step of the weights | {best['global_step']} |",
                 '  "dev.tfrecord": {', '    "objective": "sop"', "pipeline_tag: fill-mask"):
        assert line in card.splitlines(), line
    assert "\npython -m albert_tf run_pretraining --" in card and f"--output_dir={finished[1]}" in card


@pytest.mark.both_stacks
def test_the_latest_and_the_best_checkpoint_are_there_with_the_config(finished):
    names = set(os.listdir(finished[1]))
    assert {"model.ckpt-9.index", "model.ckpt-12.index", "model.ckpt-best.index",
            "albert_config.json", "train"} <= names
    assert "model.ckpt-6.index" not in names and not [name for name in names if name.startswith(".")]
    history = [json.loads(line) for line in (finished[1] / "eval_history.jsonl").read_text().splitlines()]
    assert [row["global_step"] for row in history] == [3, 6, 9, 12]
    best = max(history, key=lambda row: row["masked_lm_accuracy"])["global_step"]
    checkpoint = tf.train.load_checkpoint(str(finished[1] / "model.ckpt-best"))
    assert checkpoint.get_tensor("step/.ATTRIBUTES/VARIABLE_VALUE") == best


def test_the_vocabulary_is_in_the_folder_of_the_checkpoints(finished):
    vocabulary = open_source(str(finished[1])).vocabulary
    assert vocabulary.tokenizer().tokenize("lamp Lamp") == ["lamp", "[UNK]"]


def tags_of(directory):
    records = [record for name in os.listdir(directory)
               for record in tf.data.TFRecordDataset(str(directory / name)).as_numpy_iterator()]
    return {value.tag for record in records for value in tf.compat.v1.Event.FromString(record).summary.value}


@pytest.mark.both_stacks
def test_curves_are_written_for_tensorboard(finished):
    assert {"loss", "masked_lm_loss", "sentence_order_loss", "learning_rate"} <= tags_of(finished[1] / "train")
    assert RELEASE_KEYS - {"global_step"} <= tags_of(finished[1] / "eval")


def test_the_evaluations_are_drawn(finished):
    assert (finished[1] / "eval_history.svg").read_text().count("_line_") == 2  # accuracy and loss


def test_progress_is_a_plain_line_where_there_is_no_terminal(finished):
    assert "step 12 of 12, loss " in finished[0] and "examples/s" in finished[0]


def test_every_line_is_one_of_ours(finished):
    ours = {path.name for path in REPOSITORY.glob("albert_tf/**/*.py")}
    lines = [re.match(r"[IW]\d{4} [\d:]+ (\w+\.py):\d+\] ", line) for line in finished[0].splitlines()]
    assert all(lines) and {line.group(1) for line in lines} <= ours


def test_a_finished_run_logs_it_and_changes_nothing(runs, finished, session):
    before = runs.end_of("finished")
    card = (finished[1] / "README.md").read_text()
    assert "nothing to train: step 12 of 12 is done" in session.run(output_dir=finished[1], learning_rate=0.5)
    assert (finished[1] / "README.md").read_text() == card
    assert all(np.array_equal(before[name], values) for name, values in runs.end_of("finished").items())


def test_a_run_is_evaluated_and_continued_with_its_own_config_alone(runs, finished, session):
    def files():
        return {path.name: path.read_bytes() for path in finished[1].iterdir()
                if path.is_file() and not path.name.startswith(("eval_", "best_trial", "model.ckpt-best"))}

    before, config = files(), runs.write_config("heads.json", num_attention_heads=4)
    difference = "num_attention_heads is 2 in the run and 4 in --albert_config_file"
    printed = session.run(output_dir=finished[1], do_train=False, do_eval=True, albert_config_file=config,
                          eval_input_file=runs.folder / "dev.tfrecord")
    assert f"{difference}: the run in --output_dir={finished[1]} is used as it was trained" in printed
    printed = session.run(expect=1, output_dir=finished[1], albert_config_file=config, num_train_steps=15)
    assert f"the run in --output_dir={finished[1]} cannot be continued with these flags: {difference}" in printed
    assert files() == before
    best, latest = (set(tf.train.load_checkpoint(str(finished[1] / f"model.ckpt-{name}")).get_variable_to_shape_map())
                    for name in ("best", 12))
    assert best == latest


def test_evaluation_alone_uses_the_newest_valid_checkpoint(runs, finished, session):
    os.truncate(finished[1] / "model.ckpt-9.index", 50)
    printed = session.run(output_dir=finished[1], do_train=False, do_eval=True, max_seq_length=None,
                          max_predictions_per_seq=None, eval_input_file=runs.folder / "dev.tfrecord")
    assert "model.ckpt-9 is truncated or changed" in printed and "step 12:" in printed
    results = results_of(finished[1])
    expected = scores_of(from_pretrained(str(finished[1] / "model.ckpt-12"), model="pretrainer"),
                         runs.folder / "dev.tfrecord")
    assert set(results) == RELEASE_KEYS
    assert {name: results[name] for name in expected} == pytest.approx(expected, rel=1e-4)


def test_evaluation_of_a_released_checkpoint(runs, session, golden):
    config = golden / "training_init/albert_config.json"
    printed = session.run(output_dir=runs.folder / "released", do_train=False, do_eval=True, albert_config_file=config,
                          init_checkpoint=golden / "training_init/model.ckpt-init")
    assert "variables restored" in printed
    results = results_of(runs.folder / "released")
    expected = scores_of(from_pretrained(str(golden / "training_init/model.ckpt-init"), model="pretrainer"),
                         runs.folder / "train.tfrecord")
    assert set(results) == RELEASE_KEYS
    assert {name: results[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert not (runs.folder / "released" / "model.ckpt-best.index").exists()


@pytest.mark.long
def test_training_that_continues_from_a_checkpoint_starts_at_its_loss(runs, golden, caplog):
    """Heads are restored too: the loss of the first step, whose batch has all records, is the checkpoint's loss."""
    records = write_records(runs.folder / "batch.tfrecord", 8, seed=4, objective="sop")
    checkpoint = golden / "training_init/model.ckpt-init"
    flags = dict(runs.flags, albert_config_file=golden / "training_init/albert_config.json", init_checkpoint=checkpoint,
                 hidden_dropout_prob=0, attention_probs_dropout_prob=0, input_file=records, train_batch_size=8,
                 num_train_steps=1, output_dir=runs.folder / "continued")
    with loaded("run_pretraining") as run:
        assert run(**flags) == 0
    first_loss, = re.findall(r"step 1 of 1, loss ([\d.]+)", caplog.text)
    expected = scores_of(from_pretrained(str(checkpoint), model="pretrainer"), records)
    assert float(first_loss) == pytest.approx(expected["masked_lm_loss"] + expected["sentence_order_loss"], abs=1e-4)


@pytest.mark.long
def test_a_batch_in_parts_is_trained_and_evaluated_as_a_whole(runs, monkeypatch):
    """With dropout of 0.1, whose masks must be those of the whole batch."""
    numbers, results, of = [], [], trainer.equal_parts
    for module in (trainer,):
        monkeypatch.setattr(module, "equal_parts", lambda *arguments: numbers.append(of(*arguments)) or numbers[-1])
    for count in (1, 2):
        with loaded("run_pretraining") as run:
            assert run(**runs.flags | dict(cpu_parts=count, num_train_steps=3, do_eval=True,
                                           output_dir=runs.folder / f"{count} parts")) == 0
        results.append(results_of(runs.folder / f"{count} parts"))
    assert results[1] == pytest.approx(results[0], rel=1e-4)
    assert {len(split) for split in numbers} == {1, 2}


def test_each_set_is_evaluated_at_the_length_of_its_records(runs, session):
    short = write_records(runs.folder / "short.tfrecord", 20, 8, 2, objective="sop")
    output_dir = runs.folder / "lengths"
    session.run(output_dir=output_dir, input_file=[short, runs.flags["input_file"]], do_eval=True, num_train_steps=3,
                eval_input_file=[short, runs.flags["input_file"]])
    results = results_of(output_dir)
    model = from_pretrained(str(output_dir / "model.ckpt-3"), model="pretrainer")
    expected = scores_of(model, short, 8, 2)
    assert {name: results[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    expected = scores_of(model, runs.flags["input_file"])
    assert {name: results[f"train/{name}"] for name in expected} == pytest.approx(expected, rel=1e-4)


def test_records_of_several_sentence_objectives_are_refused_by_their_files(runs, session):
    other = write_records(runs.folder / "other.tfrecord", 20, objective="nsp")
    flags = dict(output_dir=runs.folder / "mixed", input_file=f"{runs.flags['input_file']},{other}", num_train_steps=1)
    printed = session.run(expect=1, **flags)
    assert "train.tfrecord with sop, " in printed and "other.tfrecord with nsp): train on them with" in printed
    session.run(**flags, sentence_objective="none")


@pytest.mark.parametrize("budget, is_dynamic", [(0, False), (0.15, True)])
def test_a_masked_lm_budget_above_0_turns_on_dynamic_masking(session, runs, budget, is_dynamic):
    printed = session.run(output_dir=runs.folder / f"budget {budget}", masked_lm_budget=budget, num_train_steps=1)
    assert ("new masks in each epoch" in printed) == is_dynamic


@pytest.mark.long
def test_sigterm_saves_and_ends(runs):
    with runs.start("terminated", num_train_steps=10**6, save_checkpoints_steps=10**6) as process:
        process.wait_for("training from step 0")  # the handler is set before that line
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, printed
    step = int(tf.train.latest_checkpoint(str(runs.folder / "terminated")).rsplit("-", 1)[1])
    assert f"step {step} is saved" in printed
    runs.run("terminated", num_train_steps=step + 1)
    assert runs.end_of("terminated", step + 1)["step/.ATTRIBUTES/VARIABLE_VALUE"] == step + 1


@pytest.mark.long
def test_a_training_whose_terminal_is_gone_saves_and_ends(hang_up, runs):
    command = [sys.executable, "-m", "albert_tf",
               *runs.arguments("hung_up", num_train_steps=10**6, save_checkpoints_steps=10**6)]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, command)
    printed = b""
    while b"examples/s" not in printed:
        printed += os.read(terminal, 10_000)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + signal.SIGHUP
    assert tf.train.latest_checkpoint(str(runs.folder / "hung_up"))


@pytest.mark.long
def test_two_workers_train_as_one_process(runs):
    flags = dict(num_train_steps=4, dynamic_masking=True, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                 do_eval=True)
    with TwoWorkers(runs.arguments("workers", **flags)) as workers:
        for index in (0, 1):
            status, printed = workers.end_of(index)
            assert status == 0, printed
    runs.run("one_process", **flags)
    ours, expected = runs.end_of("workers", 4), runs.end_of("one_process", 4)
    assert ours.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(ours[name], values, atol=1e-5, rtol=0, err_msg=name)
    np.testing.assert_allclose(results_of(runs.folder / "workers")["loss"],
                               results_of(runs.folder / "one_process")["loss"], atol=1e-4)


def mistakes(runs, golden):
    """Mistakes of a user: the flags, and the text of the error."""
    cut, flipped, empty = (write_records(runs.folder / f"{name}.tfrecord", 40) for name in ("cut", "flipped", "empty"))
    os.truncate(cut, os.path.getsize(cut) - 200)
    with open(flipped, "r+b") as file:
        file.seek(-20, os.SEEK_END)
        file.write(b"\xff\x00\xff")
    os.truncate(empty, 0)
    larger = write_records(runs.folder / "larger.tfrecord", 4, max_seq_length=32)
    released = golden / "training_init/model.ckpt-init"
    return {
        "no config": (dict(albert_config_file=runs.folder / "none.json"), "no such config file: .*none.json"),
        "unknown config key": (
            dict(albert_config_file=runs.write_config("key.json", hiden_size=8)),
            "key.json: unknown config key: hiden_size"),
        "heads do not divide": (
            dict(albert_config_file=runs.write_config("heads.json", num_attention_heads=3)),
            "num_attention_heads must divide"),
        "a glob that matches nothing": (dict(input_file=runs.folder / "none*"), "no file matches .*none"),
        "cut records": (dict(input_file=cut), "cut.tfrecord has .* bytes but its manifest says"),
        "flipped records": (dict(input_file=flipped), "flipped.tfrecord was truncated or changed"),
        "empty records": (dict(input_file=empty), "empty.tfrecord is empty"),
        "not records": (
            dict(input_file=runs.flags["albert_config_file"]),
            "config.json was truncated or changed, or is not a TFRecord file"),
        "another sequence length": (
            dict(input_file=larger), "larger.tfrecord does not hold .* max_seq_length 16 .* 32 input_ids"),
        "more tokens than positions": (
            dict(input_file=larger, max_seq_length=32),
            "--max_seq_length=32 is more than the config's max_position_embeddings, 16"),
        "another vocabulary": (
            dict(albert_config_file=runs.write_config("small.json", vocab_size=40)), "made with another vocabulary"),
        "a tokenizer of another vocabulary": (
            dict(spm_model_file=golden / "tiny_spm/tiny.model"), "pieces, but the config's vocab_size is 6"),
        "a checkpoint of another vocabulary": (
            dict(albert_config_file=runs.write_config("large.json", vocab_size=70), init_checkpoint=released),
            "bert/embeddings/word_embeddings"),
        "no init checkpoint": (dict(init_checkpoint=runs.folder / "nowhere"), "nowhere"),
        "neither training nor evaluation": (
            dict(do_train=False, do_eval=False), "nothing to do: set --do_train or --do_eval"),
        "nothing to evaluate": (dict(do_train=False, do_eval=True), "there is no checkpoint to evaluate"),
        "no training records": (dict(input_file=[]), "--input_file is missing"),
        "a share for no set": (dict(input_share=[1, 2]), "--input_share must be set once for each of 1 --input_file"),
        "two sets of shorter records": (
            dict(input_file=2 * [runs.flags["input_file"]], max_seq_length=32, albert_config_file=runs.write_config(
                "positions.json", max_position_embeddings=32)), "max_seq_length=32 is more than .* longest .*, 16"),
        "longer evaluation records than positions": (
            dict(do_eval=True, eval_input_file=larger), "larger.tfrecord has examples of 32 tokens, more than .* 16"),
        "a share without new masks": (dict(masked_lm_prob=0.3), "--masked_lm_prob needs --dynamic_masking"),
        "too few predictions": (
            dict(dynamic_masking=True, final_masked_lm_prob=0.3), "0.3 masks 5 of 16 tokens, but the records have "
            "max_predictions_per_seq 3: make them with --max_predictions_per_seq=5"),
        "an unknown flag": (dict(batch_size=3), "unknown flag --batch_size"),
    }


def test_a_second_training_of_a_run_is_refused_before_it_writes_and_an_evaluation_is_not(runs, session):
    directory = runs.folder / "used"
    session.run(output_dir=directory, num_train_steps=2)
    with used_alone(str(directory), "training"):  # as a training in another process
        before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
        printed = session.run(expect=1, output_dir=directory, do_eval=True)
        assert printed.splitlines()[-1] == (
            f"run_pretraining: error: {directory} is in use by another training: wait until it has ended, "
            "or choose another path")
        assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before
        session.run(output_dir=directory, do_train=False, do_eval=True)
    assert "training from step 2 to 3" in session.run(output_dir=directory, num_train_steps=3)


def test_mistakes_end_in_one_line_and_leave_no_checkpoint(runs, session, golden):
    for name, (flags, message) in mistakes(runs, golden).items():
        printed = session.run(expect=1, output_dir=runs.folder / f"mistake {name}", **flags)
        lines = [line for line in printed.splitlines() if "error: " in line]
        assert "Traceback" not in printed and len(lines) == 1, (name, printed)
        assert tf.strings.regex_full_match(lines[0], f".*{message}.*"), (name, lines[0])
        assert not tf.train.latest_checkpoint(str(runs.folder / f"mistake {name}")), name

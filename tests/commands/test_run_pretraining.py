"""run_pretraining.py as a user runs it: results and mistakes."""

import json
import os
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf
from pretraining_runs import Runs
from script_session import ScriptSession
from synthetic_records import write_records

from albert_tf.weights.from_pretrained import from_pretrained
from albert_tf.weights.stored_model import open_model

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


def check_results(results, checkpoint, path, prefix="", **sizes):
    """Checks those results of a set that scores_of computes."""
    scores = scores_of(from_pretrained(str(checkpoint), model="pretrainer"), path, **sizes)
    expected = {f"{prefix}{name}": score for name, score in scores.items() if f"{prefix}{name}" in results}
    assert len(expected) >= 2 and {name: results[name] for name in expected} == pytest.approx(expected, rel=1e-4)


@pytest.mark.both_stacks
def test_evaluation_writes_the_releases_keys_for_each_set(finished):
    results = results_of(finished[1])
    second = {"plain/loss", "plain/masked_lm_accuracy", "plain/masked_lm_loss"}  # made without sentence labels
    assert set(results) == RELEASE_KEYS | second
    assert results["global_step"] == 12
    check_results(results, finished[1] / "model.ckpt-12", finished[1].parent / "dev.tfrecord")
    check_results(results, finished[1] / "model.ckpt-12", finished[1].parent / "plain.tfrecord", "plain/")
    np.testing.assert_allclose(results["loss"], results["masked_lm_loss"] + results["sentence_order_loss"], rtol=1e-6)


@pytest.mark.both_stacks
def test_a_run_leaves_its_card_checkpoints_vocabulary_and_curves_and_every_line_is_one_of_ours(finished):
    printed, directory = finished
    history = [json.loads(line) for line in (directory / "eval_history.jsonl").read_text().splitlines()]
    assert [row["global_step"] for row in history] == [3, 6, 9, 12]
    best = max(history, key=lambda row: row["masked_lm_accuracy"])
    card = (directory / "README.md").read_text("utf-8")
    for line in (f"| masked_lm_accuracy | {best['masked_lm_accuracy']:.4f} |", "| training steps | 12 |",
                 f"| global_step | {best['global_step']} |", f"| step of the weights | {best['global_step']} |",
                 "    dev.tfrecord:", "      objective: sop", "pipeline_tag: fill-mask"):
        assert line in card.splitlines(), line
    assert "\npython -m albert_tf run_pretraining --" in card and f"--output_dir={directory}" in card
    names = set(os.listdir(directory))
    assert {"model.ckpt-9.index", "model.ckpt-12.index", "model.ckpt-best.index", "albert_config.json"} <= names
    assert "model.ckpt-6.index" not in names and not [name for name in names if name.startswith(".")]
    checkpoint = tf.train.load_checkpoint(str(directory / "model.ckpt-best"))
    assert checkpoint.get_tensor("step/.ATTRIBUTES/VARIABLE_VALUE") == best["global_step"]
    assert open_model(str(directory)).vocabulary.tokenizer().tokenize("lamp Lamp") == ["lamp", "[UNK]"]
    assert {"loss", "masked_lm_loss", "sentence_order_loss", "learning_rate"} <= tags_of(directory / "train")
    assert RELEASE_KEYS - {"global_step"} <= tags_of(directory / "eval")
    assert (directory / "eval_history.svg").read_text().count("_line_") == 2  # accuracy and loss
    assert "step 12 of 12, loss " in printed and "examples/s" in printed
    ours = {path.name for path in REPOSITORY.glob("albert_tf/**/*.py")}
    lines = [re.match(r"[IW]\d{4} [\d:]+ (\w+\.py):\d+\] ", line) for line in printed.splitlines()]
    assert all(lines) and {line.group(1) for line in lines} <= ours


def tags_of(directory):
    records = [record for name in os.listdir(directory)
               for record in tf.data.TFRecordDataset(str(directory / name)).as_numpy_iterator()]
    return {value.tag for record in records for value in tf.compat.v1.Event.FromString(record).summary.value}


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
    assert "model.ckpt-9 cannot be read as a checkpoint" in printed and "step 12:" in printed
    results = results_of(finished[1])
    assert set(results) == RELEASE_KEYS
    check_results(results, finished[1] / "model.ckpt-12", runs.folder / "dev.tfrecord")


def test_evaluation_of_a_released_checkpoint(runs, session, golden):
    checkpoint = golden / "training_init/model.ckpt-init"
    session.run(output_dir=runs.folder / "released", do_train=False, do_eval=True, init_checkpoint=checkpoint,
                albert_config_file=golden / "training_init/albert_config.json")
    results = results_of(runs.folder / "released")
    assert set(results) == RELEASE_KEYS
    check_results(results, checkpoint, runs.folder / "train.tfrecord")
    assert not (runs.folder / "released" / "model.ckpt-best.index").exists()


def test_a_released_checkpoint_is_evaluated_as_step_0_before_it_trains(runs, session, golden):
    checkpoint, output_dir = golden / "training_init/model.ckpt-init", runs.folder / "continued"
    session.run(output_dir=output_dir, do_eval=True, num_train_steps=1, init_checkpoint=checkpoint,
                albert_config_file=golden / "training_init/albert_config.json")
    first, last = map(json.loads, (output_dir / "eval_history.jsonl").read_text().splitlines())
    assert (first["global_step"], last["global_step"]) == (0, 1)
    check_results(first, checkpoint, runs.folder / "train.tfrecord")


def test_each_set_is_evaluated_at_the_length_of_its_records(runs, session):
    short = write_records(runs.folder / "short.tfrecord", 20, 8, 2, objective="sop")
    output_dir = runs.folder / "lengths"
    session.run(output_dir=output_dir, do_eval=True, num_train_steps=3,
                eval_input_file=[short, runs.flags["input_file"]])
    results = results_of(output_dir)
    check_results(results, output_dir / "model.ckpt-3", short, seq=8, predictions=2)
    check_results(results, output_dir / "model.ckpt-3", runs.flags["input_file"], "train/")


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


@pytest.fixture(scope="module")
def wrong(runs):
    """The folder of records and configs that do not fit."""
    write_records(runs.folder / "cut.tfrecord", 40)
    os.truncate(runs.folder / "cut.tfrecord", (runs.folder / "cut.tfrecord").stat().st_size - 200)
    write_records(runs.folder / "larger.tfrecord", 4, max_seq_length=32)
    runs.write_config("large.json", vocab_size=70)
    return runs.folder


@pytest.mark.parametrize("flags, named", [
    (dict(input_file="none*"), ["no file matches", "none"]),
    (dict(input_file="cut.tfrecord"), ["cut.tfrecord has", "bytes but its manifest says"]),
    (dict(albert_config_file="large.json", init_checkpoint="{golden}/training_init/model.ckpt-init"),
     ["bert/embeddings/word_embeddings"]),
    (dict(do_train=False, do_eval=False), ["nothing to do: set --do_train or --do_eval"]),
    (dict(do_train=False, do_eval=True), ["there is no checkpoint to evaluate"]),
    (dict(do_eval=True, eval_input_file="larger.tfrecord"), ["larger.tfrecord has examples of 32 tokens", "16"]),
    (dict(masked_lm_prob=0.3), ["--masked_lm_prob needs --dynamic_masking"]),
    (dict(pack_rows=1, use_tpu=True), ["--pack_rows is not for a TPU with TensorFlow"]),
    (dict(dynamic_masking=True, masked_lm_prob=0.3),
     ["0.3 masks 5 of 16 tokens", "make them with --max_predictions_per_seq=5"])], ids=str)
def test_a_mistake_ends_in_one_line_and_leaves_no_checkpoint(session, wrong, golden, monkeypatch, tmp_path, flags,
                                                             named):
    monkeypatch.chdir(wrong)
    flags = {name: value.format(golden=golden) if isinstance(value, str) else value for name, value in flags.items()}
    printed = session.run(expect=1, output_dir=tmp_path / "out", **flags)
    line, = [line for line in printed.splitlines() if "error: " in line]
    assert "Traceback" not in printed and all(text in line for text in named), printed
    assert not list(tmp_path.glob("out/model.ckpt*"))

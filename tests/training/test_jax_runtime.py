"""--runtime=jax trains, evaluates and predicts as TensorFlow does: on one device, on four, and in two processes."""

import contextlib
import dataclasses
import pathlib
import random
import re
import shutil
import signal
import time
import types

import numpy as np
import pytest
import tensorflow as tf
from pretraining_runs import assert_bit_equal, values_of
from script_process import ScriptProcess, start
from script_session import ScriptSession
from synthetic_records import VOCAB_SIZE, write_records
from tiny import TINY_TEXT
from two_workers import free_ports

from albert_tf.modeling.operations import cudnn_attention
from albert_tf.training.config import Devices
from albert_tf.training.strategy import jax_strategy

jax = pytest.importorskip("jax", reason="jax is not installed: make test-jax installs it")
jax_runtime = pytest.importorskip("albert_tf.training.jax_runtime")
pytestmark = pytest.mark.long

STEPS = 20
CONFIG = TINY_TEXT.replace(initializer_range=0.1, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
GLUE = dict(data_dir="glue", max_seq_length=24)
# By name: the command, and its own flags.
RUNS = {
    "pre-training": ("run_pretraining", dict(gradient_accumulation_steps=2, dynamic_masking=True)),
    "packed rows": ("run_pretraining", dict(gradient_accumulation_steps=2, pack_rows=2, train_batch_size=32,
                                            input_file="texts.tfrecord", max_seq_length=32, max_predictions_per_seq=5)),
    "classification": ("run_classifier", dict(GLUE, task_name="rte", gradient_accumulation_steps=2)),
    "student": ("run_classifier", dict(GLUE, task_name="rte", teacher_checkpoint="classification/tensorflow")),
    "head alone": ("run_classifier", dict(GLUE, task_name="rte", trainable="head")),
    "SQuAD 2.0": ("run_squad", dict(
        train_file="squad/train.json", predict_file="squad/train.json", max_seq_length=64, doc_stride=24,
        max_query_length=16, num_workers=1, gradient_checkpointing=True)),
    "RACE": ("run_race", dict(data_dir="race", max_seq_length=48, max_qa_length=24)),
    "tagging": ("run_tagging", dict(train_file="tags.conll", eval_file="tags.conll", predict_file="tags.conll",
                                    max_seq_length=32)),
    "sentence vectors": ("run_sentence_embeddings", GLUE),
    "text pairs": ("run_sentence_embeddings", dict(GLUE, objective="pairs", train_file="pairs.tsv",
                                                   gradient_accumulation_steps=2)),
    "taught vectors": ("run_sentence_embeddings", dict(
        GLUE, objective="distillation", train_file="lines.txt", teacher_checkpoint="sentence vectors/tensorflow")),
    "taught tokens": ("run_sentence_embeddings", dict(
        GLUE, objective="tokens", train_file="lines.txt", teacher_checkpoint="sentence vectors/tensorflow")),
}
# XLA compiles faster, and the programs are slower.
QUICK = dict(JAX_DISABLE_MOST_OPTIMIZATIONS="1")


class Runs:
    """A folder with configs and data, and runs on them, each of STEPS steps with two checkpoints."""

    def __init__(self, folder: pathlib.Path, golden: pathlib.Path):
        self.folder, self._golden = folder, golden
        for name, changes in (("config", {}), ("two_layers", dict(num_hidden_layers=2)),
                              ("small", dict(num_hidden_layers=2, vocab_size=VOCAB_SIZE))):
            (folder / f"{name}.json").write_text(CONFIG.replace(**changes).to_json_string())
        (folder / "tags.conll").write_text("a\tO\nclock\tB\nis\tO\nso\tO\nbig\tB\n\n" * 9)
        for name in ("pairs.tsv", "lines.txt"):  # the same texts as pairs, and as lines
            (folder / name).write_text("".join(f"a clock {'is so ' * i}big\tall{' of us' * i}\n" for i in range(9)))
        write_records(folder / "train.tfrecord", 40, objective="sop")
        write_records(folder / "texts.tfrecord", 60, 32, 5, shortest=5, objective="sop")
        # As with users, no process trains by both runtimes.
        self._sessions = {key: ScriptSession(environment=dict(
            QUICK, RUNTIME=key[0], XLA_FLAGS=f"--xla_force_host_platform_device_count={key[1]}"))
            for key in (("tensorflow", 1), ("jax", 1), ("jax", 4))}

    def flags(self, name: str, directory: str, **changed) -> dict:
        """The flags of a run. Values that are names of files become their paths."""
        command, own = RUNS[name]
        flags = dict(train_batch_size=8, eval_batch_size=8, save_checkpoints_steps=STEPS // 2, learning_rate=1e-3,
                     cached_dir=self.folder / "cached", do_eval=True, albert_config_file="config.json")
        if command == "run_pretraining":
            flags.update(input_file="train.tfrecord", max_seq_length=16, max_predictions_per_seq=3, cached_dir=None,
                         num_train_steps=STEPS, num_warmup_steps=2, albert_config_file="small.json")
        else:
            flags.update(spm_model_file="tiny_spm/tiny.model", train_step=STEPS, warmup_step=2, predict_batch_size=8,
                         do_train=True, do_predict=True)
        paths = {path: root / path for root in (self._golden, self.folder)
                 for path in filter(None, {**flags, **own, **changed}.values())
                 if isinstance(path, str) and (root / path).exists()}
        return {flag: paths.get(value, value) if isinstance(value, str) else value for flag, value in
                {**flags, **own, **changed, "output_dir": self.folder / directory}.items()}

    def run(self, name: str, directory: str, devices: int = 1, expect: int = 0, **changed) -> str:
        """Runs a command to its end, and returns what it printed."""
        session = self._sessions[changed.get("runtime", "tensorflow"), devices]
        return session.run(script=RUNS[name][0], expect=expect, **self.flags(name, directory, **changed))

    def of(self, name: str, runtime: str) -> str:
        """The directory of a run with the flags of its name alone, which the first call makes."""
        directory = f"{name}/{runtime}"
        if not (self.folder / directory).exists():
            self.run(name, directory, runtime=runtime)
        return directory

    def start(self, name: str, directory: str, **changed) -> ScriptProcess:
        """Starts a process of its own."""
        return start(RUNS[name][0], self.flags(name, directory, **changed), environment=QUICK, merged=True)

    @contextlib.contextmanager
    def start_two(self, name: str, directory: str, **changed):
        """Starts two processes that train together, and kills them at the end of the block."""
        port, = free_ports(1)
        changed.update(runtime="jax", jax_coordinator=f"127.0.0.1:{port}", jax_num_processes=2)
        with self.start(name, directory, jax_process_id=0, **changed) as first:
            with self.start(name, directory, jax_process_id=1, **changed) as second:
                yield first, second

    def run_two(self, name: str, directory: str, **changed) -> str:
        """Runs two processes that train together to their end, and returns the directory."""
        with self.start_two(name, directory, **changed) as processes:
            for process in processes:
                printed, _ = process.communicate()
                assert process.returncode == 0, printed
        return directory

    def end_of(self, directory: str, step: int = STEPS) -> dict[str, np.ndarray]:
        return values_of(self.folder / directory / f"model.ckpt-{step}")

    def files_of(self, directory: str) -> dict[str, str]:
        """The text files of a run by name, but for its card, which has its flags."""
        return {path.name: path.read_text("utf-8") for path in (self.folder / directory).iterdir()
                if path.suffix in (".json", ".jsonl", ".tsv", ".txt")}

    def without_last_checkpoint(self, directory: str, copy: str) -> None:
        """Copies a run as it was after its first checkpoint."""
        source, target = self.folder / directory, self.folder / copy
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(f"model.ckpt-{STEPS}.*", "eval*", "best*"))
        tf.compat.v1.train.update_checkpoint_state(str(target), str(target / f"model.ckpt-{STEPS // 2}"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory, golden):
    return Runs(tmp_path_factory.mktemp("jax"), golden)


def assert_close(found: dict, expected: dict) -> None:
    """Checks that values with the same names differ by at most 1e-5.

    A constant that is added to all logits of a softmax has no gradient but for rounding, which Adam divides by epsilon.
    """
    assert found.keys() == expected.keys() and expected
    for name in expected:
        moment = expected.get(name.replace("/.ATTRIBUTES", "/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES"), 1.0)
        if np.max(np.abs(moment)) < 1e-7:
            continue
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


def assert_same_files(found: dict[str, str], expected: dict[str, str], tolerance: float = 1e-5) -> None:
    """Checks that files have the same texts, and numbers that differ by at most the tolerance."""
    number = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
    assert found.keys() == expected.keys() and expected
    for name in expected:
        assert number.sub("#", found[name]) == number.sub("#", expected[name]), name
        np.testing.assert_allclose(*([float(each) for each in number.findall(files[name])]
                                     for files in (found, expected)), rtol=tolerance, atol=tolerance, err_msg=name)


def curves_of(directory: pathlib.Path) -> dict[str, float]:
    """The last points of the curves of training."""
    events = (event for path in sorted((directory / "train").iterdir())
              for event in tf.compat.v1.train.summary_iterator(str(path)))
    return {value.tag: float(tf.make_ndarray(value.tensor)) for event in events for value in event.summary.value}


@pytest.mark.parametrize("name", RUNS)
def test_steps_evaluations_and_answers_on_four_devices_are_those_of_tensorflow(runs, name):
    if teacher := RUNS[name][1].get("teacher_checkpoint"):
        runs.of(*teacher.split("/"))
    expected, found = runs.of(name, "tensorflow"), f"{name}/four devices"
    runs.run(name, found, devices=4, runtime="jax", shard_weights=name in ("head alone", "RACE"))
    assert_close(runs.end_of(found), runs.end_of(expected))
    assert_close(curves_of(runs.folder / found), curves_of(runs.folder / expected))
    # A correlation of few cosines multiplies the differences of the weights: 2.7e-5 on one processor.
    assert_same_files(runs.files_of(found), runs.files_of(expected), 5e-5 if name == "taught vectors" else 1e-5)


def test_a_run_that_is_killed_at_random_and_resumed_is_bit_equal_to_an_undisturbed_one(runs):
    whole = runs.of("pre-training", "jax")
    checkpoint = runs.folder / f"pre-training/killed/model.ckpt-{STEPS // 2}.index"
    with runs.start("pre-training", "pre-training/killed", runtime="jax") as process:
        process.wait_for("training from step 0")
        while not checkpoint.exists():
            time.sleep(0.01)
        time.sleep(random.SystemRandom().uniform(0, 1))
        process.kill()
        process.communicate()
    assert f"training from step {STEPS // 2}" in runs.run("pre-training", "pre-training/killed", runtime="jax")
    assert_bit_equal(runs.end_of("pre-training/killed"), runs.end_of(whole))


@pytest.mark.parametrize("before, after", [("tensorflow", "jax"), ("jax", "tensorflow")])
def test_a_run_continues_with_the_other_runtime(runs, before, after):
    continued = f"pre-training/{before} then {after}"
    runs.without_last_checkpoint(runs.of("pre-training", before), continued)
    assert f"training from step {STEPS // 2}" in runs.run("pre-training", continued, runtime=after)
    assert_close(runs.end_of(continued), runs.end_of(runs.of("pre-training", "tensorflow")))


def test_a_signal_saves_the_step_that_has_run(runs):
    with runs.start("pre-training", "pre-training/ended", runtime="jax", num_train_steps=10**6,
                    save_checkpoints_steps=10**6) as process:
        process.wait_for("training from step 0")
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    step = int(re.search(r"ending after SIGTERM; step (\d+) is saved", printed)[1])
    assert runs.end_of("pre-training/ended", step)["step/.ATTRIBUTES/VARIABLE_VALUE"] == step


def test_two_processes_get_what_one_gets(runs):
    runs.run_two("student", "two processes", teacher_checkpoint=None)
    runs.run("student", "one process", teacher_checkpoint=None)
    assert_close(runs.end_of("two processes"), runs.end_of("one process"))
    assert_same_files(runs.files_of("two processes"), runs.files_of("one process"))


@pytest.mark.parametrize("receivers", [(0, 1), (1,)], ids=["both", "one"])
def test_a_signal_to_two_processes_or_one_of_them_saves_once_and_ends_both(runs, receivers):
    directory = f"pre-training/two ended, {len(receivers)}"
    with runs.start_two("pre-training", directory, do_eval=False, save_checkpoints_steps=STEPS) as processes:
        for process in processes:
            process.wait_for("training from step 0")
        for index in receivers:
            processes[index].send_signal(signal.SIGTERM)
        start = time.monotonic()
        printed = [process.communicate()[0] for process in processes]
    assert time.monotonic() - start < 120  # a barrier of jax would end after 300; the first step is compiled
    assert [process.returncode for process in processes] == [128 + signal.SIGTERM] * 2, printed
    steps = [int(re.search(r"ending after SIGTERM; step (\d+) is saved", text)[1]) for text in printed]
    assert steps[0] == steps[1]
    assert [path.name for path in (runs.folder / directory).glob("model.ckpt-*.index")] == [
        f"model.ckpt-{steps[0]}.index"]
    whole = "pre-training/two"
    if not (runs.folder / whole).exists():
        runs.run_two("pre-training", whole, do_eval=False)
    runs.run_two("pre-training", directory, do_eval=False)
    assert_bit_equal(runs.end_of(directory), runs.end_of(whole))


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_if_one_of_two_processes_is_killed_the_other_ends_and_the_run_can_continue(runs, lost):
    directory = f"pre-training/lost {lost}"
    with runs.start_two("pre-training", directory, do_eval=False, num_train_steps=10**6) as processes:
        while not (runs.folder / directory / f"model.ckpt-{STEPS}.index").exists():
            time.sleep(0.1)
        processes[lost].kill()
        processes[1 - lost].communicate(timeout=150)
        assert processes[1 - lost].returncode != 0
    step = int(tf.train.latest_checkpoint(str(runs.folder / directory)).rpartition("-")[2]) + STEPS
    runs.run_two("pre-training", directory, do_eval=False, num_train_steps=step)
    assert runs.end_of(directory, step)["step/.ATTRIBUTES/VARIABLE_VALUE"] == step


def test_steps_whose_gradients_are_not_finite_are_skipped_and_a_run_without_others_ends(runs):
    flags = dict(runtime="jax", learning_rate=1e38, do_eval=False, num_train_steps=200)
    printed = runs.run("pre-training", "pre-training/skipped", expect=1, **flags)
    skipped = re.findall(r"step (\d+) was skipped since a gradient was not finite; (\d+) skipped", printed)
    assert len(skipped) in (99, 100)  # the host looks at a step while the next one runs
    assert "error: the gradients of 100 steps in a row were not finite" in printed


def test_a_second_run_finds_its_programs_in_the_cache(runs):
    programs = []
    for name in ("first", "second"):
        with runs.start("pre-training", f"cached/{name}", runtime="jax", compilation_cache_dir=runs.folder / "programs",
                        precision="mixed_bfloat16") as process:
            printed, _ = process.communicate()
        assert process.returncode == 0, printed
        programs.append({path.name for path in (runs.folder / "programs").glob("*/*-cache")})
    assert programs[0] == programs[1] and programs[0]


def test_a_program_for_a_gpu_calls_cudnn_and_has_no_operation_that_its_compiler_does_not_take(monkeypatch):
    exported = jax_runtime._Program._exported
    monkeypatch.setattr(jax_runtime._Program, "_exported", lambda *arguments: dataclasses.replace(
        exported(*arguments), platforms=("cuda",)))
    strategy, count = jax_strategy(Devices(runtime="jax")), tf.Variable(1, dtype=tf.int64)

    def step(batch):
        count.assign_add(1)  # TensorFlow's program has a copy of the new value
        query = batch["query"]
        with tf.GradientTape() as tape:
            tape.watch(query)
            context = cudnn_attention(query, query, query, tf.zeros([2, 1, 1, 8]))
        return dict(gradient=tape.gradient(context, query))

    batch = dict(query=tf.zeros([2, 1, 8, 16], tf.bfloat16).numpy())
    with strategy.scope():
        program = jax_runtime._Program(step, batch, strategy)
    traced = program._call.trace([batch["query"]], [], [np.int64(1)])
    operations = set(re.findall(r"\b(?:mhlo|stablehlo)\.\w+|@__cudnn\w*[$]\w+", traced.lower(
        lowering_platforms=("cuda",)).as_text()))
    assert {"@__cudnn$fmhaSoftmax", "@__cudnn$fmhaSoftmaxBackward"} <= operations
    attributes = {"mhlo.frontend_attributes", "mhlo.num_partitions", "mhlo.num_replicas"}
    assert not {name for name in operations if name.startswith("mhlo")} - attributes


@pytest.mark.parametrize("capability, expected", [("8.0", 8.0), ("10.0", 10.0), ("gfx942", 0), (None, 0)])
def test_cudnn_computes_attention_on_one_gpu_of_nvidia(monkeypatch, caplog, capability, expected):
    caplog.set_level("INFO", "absl")
    strategy = jax_strategy(Devices(runtime="jax"))
    assert re.search(r"jax computes on \d cpu: no GPU was found .*'jax.cuda13.'", caplog.text)
    assert strategy.num_devices == 1 and not strategy.cudnn_capability
    device = types.SimpleNamespace(**dict(compute_capability=capability) if capability else {})
    monkeypatch.setattr(jax, "devices", lambda: [device])
    assert strategy.cudnn_capability == expected
    monkeypatch.setattr(type(strategy), "num_devices", 2)
    assert not strategy.cudnn_capability

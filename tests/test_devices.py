"""The decisions by the kind of device. No test machine has a TPU: another strategy takes its place."""

import io
import json
import os

import pytest
import tensorflow as tf
from absl import flags as absl_flags
from absl.testing import flagsaver
from in_process import loaded
from script_process import arguments_of
from slope import SlopeObjective

from albert_tf import devices, keras
from albert_tf.commands import flags
from albert_tf.tasks.multiple_choice.config import MultipleChoiceConfig
from albert_tf.training import run
from albert_tf.training.config import Schedule
from albert_tf.training.trainer import parts_of
from albert_tf.utils import imports

TWO_WORKERS = json.dumps({"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}})


def test_the_strategy_of_the_scope_is_the_default(monkeypatch):
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    assert not devices.is_tpu() and not devices.is_tpu(strategy)
    monkeypatch.setattr(tf.distribute, "TPUStrategy", tf.distribute.OneDeviceStrategy)
    assert devices.is_tpu(strategy) and not devices.is_tpu()
    with strategy.scope():
        assert devices.is_tpu()
    in_replica = tf.function(lambda: tf.constant(devices.is_tpu()))
    assert tf.function(lambda: strategy.run(in_replica))()


@pytest.fixture
def cpu_with(monkeypatch):
    """A function that replaces what Linux says about the CPU."""

    def replace(flags_of_cpu, name="flags\t\t", has_gpu=False):
        content = f"processor\t: 0\nmodel name\t: Xeon 4\n{name}: {flags_of_cpu}\n\nprocessor\t: 1\nmodel name\t: X\n"
        monkeypatch.setattr(devices, "is_cpu_alone", lambda: not has_gpu)
        monkeypatch.setattr("builtins.open", lambda *_, **__: io.StringIO(content))
        devices._cpu.cache_clear()

    yield replace
    devices._cpu.cache_clear()


@pytest.mark.parametrize("flags_of_cpu, name, has_gpu, expected", [
    ("fma avx2 avx512f avx512_bf16 amx_tile", "flags", False, True), ("fp asimd bf16 i8mm", "Features", False, True),
    ("fma avx2 avx512f", "flags", False, False), ("fma avx2", "flags", True, True)])
def test_a_cpu_without_its_instructions_has_no_bfloat16(flags_of_cpu, name, has_gpu, expected, cpu_with):
    cpu_with(flags_of_cpu, name, has_gpu)
    assert devices.has_bfloat16() is expected
    assert devices.fast_precision() == ("mixed_bfloat16" if expected else "float32")


@pytest.mark.parametrize("flags_of_cpu, dtype, has_gpu, expected", [
    ("avx512f amx_bf16 amx_tile", tf.bfloat16, False, True), ("avx512f amx_bf16 amx_tile", tf.float32, False, False),
    ("avx512f amx_bf16 amx_tile", tf.bfloat16, True, False), ("avx512f avx512_bf16", tf.bfloat16, False, False)])
def test_biases_are_separate_in_bfloat16_on_a_cpu_with_amx_alone(flags_of_cpu, dtype, has_gpu, expected, cpu_with):
    cpu_with(flags_of_cpu, has_gpu=has_gpu)
    assert devices.adds_bias_separately(dtype) is expected


@pytest.mark.parametrize("flags_of_cpu, by_user, expected", [
    ("fma avx2 avx512f", None, "1"), ("fma avx2", None, "1"), ("fma avx2", "0", "0"), ("sse2 avx", None, None)])
def test_onednn_is_on_with_avx2_unless_the_user_has_set_it(flags_of_cpu, by_user, expected, cpu_with, monkeypatch):
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if by_user is not None:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", by_user)
    cpu_with(flags_of_cpu)
    devices.use_onednn()
    assert os.environ.get("TF_ENABLE_ONEDNN_OPTS") == expected


def set_up(**values):
    """Sets up what the flags of run_race say. Returns the config and the strategy."""
    with loaded("run_race"), flagsaver.flagsaver():
        absl_flags.FLAGS(["run_race", *arguments_of(dict(dict(data_dir="race", output_dir="out"), **values))])
        options = flags.read(MultipleChoiceConfig)
    return options, run.set_up(options.devices, 1, options.batch_sizes)


@pytest.fixture(autouse=True)
def one_device(monkeypatch):
    """One device takes the place of the strategy of run.set_up."""
    monkeypatch.setattr(run, "create_strategy", lambda *arguments: tf.distribute.OneDeviceStrategy("CPU:0"))
    monkeypatch.setattr(imports, "start_xla", lambda: None)
    monkeypatch.setattr(run, "divide_threads", lambda count: None)
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.mark.parametrize("precision, cpu_has_it, tpu, warns", [
    ("mixed_bfloat16", False, False, True), ("mixed_bfloat16", True, False, False),
    ("mixed_bfloat16", False, True, False), ("float32", False, False, False)])
def test_a_run_in_bfloat16_on_a_cpu_without_its_instructions_is_warned(
        precision, cpu_has_it, tpu, warns, monkeypatch, caplog):
    monkeypatch.setattr(keras.mixed_precision, "set_global_policy", lambda policy: None)
    monkeypatch.setattr(devices, "has_bfloat16", lambda: cpu_has_it)
    monkeypatch.setattr(devices, "is_tpu", lambda *_: tpu)
    set_up(precision=precision)
    assert ("no instructions for bfloat16" in caplog.text) == warns


@pytest.mark.parametrize("values, environment, has_gpu, expected", [
    ({}, {}, False, [3]), (dict(train_batch_size=16), {}, False, []),
    (dict(do_eval=True, eval_batch_size=8), {}, False, []), (dict(cpu_parts=2), {}, False, [2]),
    (dict(jit_compile=True), {}, False, [1]), (dict(distribution_strategy="mirrored"), {}, False, [1]),
    (dict(use_tpu=True), {}, False, [1]), ({}, dict(TF_CONFIG=TWO_WORKERS), False, [1]),
    ({}, dict(TF_CONFIG="{}"), False, [3]), ({}, {}, True, [1])], ids=str)
def test_three_cores_of_a_cpu_alone_compute_parts_of_a_batch_that_three_divides(
        values, environment, has_gpu, expected, monkeypatch):
    divided = []
    monkeypatch.setattr(run, "divide_threads", divided.append)
    monkeypatch.setattr(devices, "is_cpu_alone", lambda: not has_gpu)
    for name, value in dict(environment, TF_NUM_INTRAOP_THREADS="3").items():
        monkeypatch.setenv(name, value)
    options, _ = set_up(**dict(dict(do_train=True, do_eval=False, train_batch_size=6), **values))
    assert parts_of(options.devices) == (expected or [3])[0]
    assert divided == expected


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize("precision, compute, scaled", [
    ("float32", "float32", False), ("mixed_bfloat16", "bfloat16", False), ("mixed_float16", "float16", True)])
def test_layers_have_the_precision_of_the_flag_and_float16_scales_the_loss(precision, compute, scaled):
    options, strategy = set_up(precision=precision)
    assert keras.mixed_precision.global_policy().compute_dtype == compute
    with strategy.scope():
        objective = SlopeObjective()
    trainer = run.new_trainer(objective, strategy, options.training, options.devices, Schedule(1))
    assert (trainer.loss_scale is not None) is scaled

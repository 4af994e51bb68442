"""The exported steps (benchmarks/device_steps) compute with jaxlib what TensorFlow computes."""

import gzip
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.device_steps.cudnn_attention import attention
from benchmarks.device_steps.programs import TASKS, forward_flops
from benchmarks.device_steps.run import difference_of
from benchmarks.workers.workloads import WORKLOADS
from tests.helpers.peers import python_of

REPOSITORY = pathlib.Path(__file__).parents[1]
SMALL = ("--model=demo", "--batch=4", "--seq=16", "--precision=float32", "--num_hidden_layers=2", "--padded",
         "--expected")


def export(folder, *flags):
    done = subprocess.run([sys.executable, "-m", "benchmarks.device_steps.export", f"--output_dir={folder}", *flags],
                          cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def differences(tmp_path_factory):
    """The largest difference of each small program between jaxlib and TensorFlow, by the name of its folder."""
    python = python_of("jax")
    folder = tmp_path_factory.mktemp("programs")
    tasks = [f"--task={task}" for task in TASKS]
    export(folder, *SMALL, *tasks, "--dropout=0.1", "--what=step", "--what=forward")
    export(folder, *SMALL, "--task=pre-training", "--dropout=0.1", "--gradient_checkpointing")
    done = subprocess.run([python, REPOSITORY / "benchmarks/device_steps/run.py", folder, "--compare"],
                          env=dict(os.environ, JAX_PLATFORMS="cpu"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.mark.parametrize("what", ["forward", "step"])
@pytest.mark.parametrize("task", TASKS)
def test_jaxlib_computes_the_outputs_and_updates_of_tensorflow(differences, task, what):
    name = f"{task}-demo-2-layers-4x16-float32-{what}-dropout-0.1-padded".lower().replace(" ", "-")
    assert float(differences[name]) < 1e-5


def test_jaxlib_computes_the_updates_with_gradient_checkpointing(differences):
    assert float(differences["pre-training-demo-2-layers-4x16-float32-step-dropout-0.1-checkpointing-padded"]) < 1e-5


@pytest.mark.long
def test_a_program_names_its_parameters_and_has_no_weights(tmp_path):
    export(tmp_path, "--task=tagging", "--model=albert_base_v2", "--batch=2", "--seq=16", "--what=forward")
    folder, = tmp_path.iterdir()
    spec = json.loads((folder / "program.json").read_text())
    assert [of["name"] for of in spec["inputs"][:3]] == ["input_ids", "input_mask", "segment_ids"]
    words = next(of for of in spec["inputs"] if of["name"] == "bert/embeddings/word_embeddings:0")
    assert words["shape"] == [30000, 128] and 0.017 < words["stddev"] < 0.02
    assert spec["outputs"] == ["logits"] and spec["tokens"] == 32
    assert sum(file.stat().st_size for file in folder.iterdir()) < 100_000


def test_attention_is_one_operation_of_cudnn_for_each_direction_on_request(tmp_path):
    export(tmp_path, "--task=tagging", "--model=demo", "--batch=2", "--seq=16", "--num_hidden_layers=1",
           "--attention=cudnn", "--what=step", "--what=forward")
    calls = {folder.name: re.findall(rb"__cudnn[$]\w+", gzip.decompress((folder / "program.hlo.gz").read_bytes()))
             for folder in tmp_path.iterdir()}
    assert calls == {
        "tagging-demo-1-layers-2x16-bfloat16-forward-cudnn-attention": [b"__cudnn$fmhaSoftmax"],
        "tagging-demo-1-layers-2x16-bfloat16-step-cudnn-attention": [
            b"__cudnn$fmhaSoftmax", b"__cudnn$fmhaSoftmaxBackward"]}


def test_attention_of_cudnn_is_refused_in_float32_and_with_dropout():
    for query, dropout in ((tf.zeros([1, 1, 8, 4]), ()), (tf.zeros([1, 1, 8, 4], tf.bfloat16), ([1, 2], 0.1))):
        with pytest.raises(ValueError, match="--precision=bfloat16 and --dropout=0"):
            attention(query, query, query, tf.zeros([1, 1, 1, 8]), *dropout)


def test_differences_of_moments_are_relative_to_them():
    assert difference_of("kernel:0", np.array([0.5, 4.0]), np.array([0.5, 5.0])) == 0.2
    assert difference_of("kernel:0", np.array([0.02]), np.array([0.01])) == 0.01
    assert difference_of("kernel/m:0", np.array([0.02]), np.array([0.01])) == 1.0
    assert difference_of("kernel/v:0", np.array([0.0144]), np.array([0.01])) == pytest.approx(0.2)
    assert difference_of("bias/m:0", np.array([1e-9]), np.array([-1e-9])) == pytest.approx(2e-6)


def test_operations_are_counted_as_two_for_each_weight_and_token():
    """hidden_256: 6 layers of 4 * 256^2 + 8 * 256^2 weights, attention over 128 tokens, the projection from 128."""
    of_token = 2 * (6 * 12 * 256**2 + 128 * 256) + 6 * 4 * 128 * 256
    predicted = 20 * 32 * 2 * 128 * (256 + 30000)
    assert forward_flops("tagging", WORKLOADS["hidden_256"]) == 4096 * of_token
    assert forward_flops("pre-training", WORKLOADS["hidden_256"]) == 4096 * of_token + predicted

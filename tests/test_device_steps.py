"""The exported steps (benchmarks/device_steps) are programs that jax runs without TensorFlow."""

import gzip
import json
import os
import re
import subprocess

import script_process
from peers import python_of

from benchmarks.device_steps.programs import forward_flops
from benchmarks.workers.workloads import WORKLOADS

DEMO = dict(task="tagging", model="demo", batch=2, seq=16, num_hidden_layers=1, what=["step", "forward"])


def export(folder, **flags):
    done = script_process.run("benchmarks/device_steps/export.py", dict(flags, output_dir=folder))
    assert done.returncode == 0, done.stderr


def test_the_programs_of_a_folder_run_by_jax_alone(tmp_path):
    python = python_of("jax")
    export(tmp_path, **DEMO)
    program = script_process.REPOSITORY / "benchmarks/device_steps/run.py"
    done = subprocess.run([python, program, tmp_path, "--seconds=0.1", "--matrix=64"],
                          env=dict(os.environ, JAX_PLATFORMS="cpu"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == [
        f"tagging-demo-1-layers-2x16-bfloat16-{what}" for what in ("forward", "step")]


def test_a_program_names_its_parameters_and_has_no_weights(tmp_path):
    export(tmp_path, task="tagging", model="albert_base_v2", batch=2, seq=16, what="forward")
    folder, = tmp_path.iterdir()
    spec = json.loads((folder / "program.json").read_text())
    assert [of["name"] for of in spec["inputs"][:3]] == ["input_ids", "input_mask", "segment_ids"]
    words = next(of for of in spec["inputs"] if of["name"] == "bert/embeddings/word_embeddings:0")
    assert words["shape"] == [30000, 128] and 0.017 < words["stddev"] < 0.02
    assert spec["outputs"] == ["logits"] and spec["tokens"] == 32
    assert sum(file.stat().st_size for file in folder.iterdir()) < 100_000


def test_attention_is_one_operation_of_cudnn_for_each_direction_on_request(tmp_path):
    export(tmp_path, attention="cudnn", **DEMO)
    calls = {folder.name: re.findall(rb"__cudnn[$]\w+", gzip.decompress((folder / "program.hlo.gz").read_bytes()))
             for folder in tmp_path.iterdir()}
    assert calls == {
        "tagging-demo-1-layers-2x16-bfloat16-forward-cudnn-attention": [b"__cudnn$fmhaSoftmax"],
        "tagging-demo-1-layers-2x16-bfloat16-step-cudnn-attention": [
            b"__cudnn$fmhaSoftmax", b"__cudnn$fmhaSoftmaxBackward"]}


def test_operations_are_counted_as_two_for_each_weight_and_token():
    """hidden_256: 6 layers of 4 * 256^2 + 8 * 256^2 weights, attention over 128 tokens, the projection from 128."""
    of_token = 2 * (6 * 12 * 256**2 + 128 * 256) + 6 * 4 * 128 * 256
    predicted = 20 * 32 * 2 * 128 * (256 + 30000)
    assert forward_flops("tagging", WORKLOADS["hidden_256"]) == 4096 * of_token
    assert forward_flops("pre-training", WORKLOADS["hidden_256"]) == 4096 * of_token + predicted

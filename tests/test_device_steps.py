"""The exported steps (benchmarks/device_steps) are programs that jax runs without TensorFlow."""

import json
import os
import subprocess

import script_process
from peers import python_of

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

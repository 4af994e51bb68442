"""Other libraries that read our files, each in an environment of its own. A test runs programs with its Python."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

# The environment variable that names the Python of each. CONTRIBUTING.md says what to install.
VARIABLES = {"transformers": "ALBERT_TF_PEER_PYTHON", "transformers 4": "ALBERT_TF_TRANSFORMERS_4_PYTHON",
             "keras-hub": "ALBERT_TF_KERAS_HUB_PYTHON", "jax": "ALBERT_TF_JAX_PYTHON",
             "openai": "ALBERT_TF_OPENAI_PYTHON", "mteb": "ALBERT_TF_MTEB_PYTHON",
             "onnx readers": "ALBERT_TF_ONNX_READERS_PYTHON", "optimum": "ALBERT_TF_OPTIMUM_PYTHON"}
TRANSFORMERS_JS = "ALBERT_TF_TRANSFORMERS_JS"  # the folder in which npm has installed it
TRANSFORMERS = ("transformers", "transformers 4")


def python_of(peer: str) -> str:
    """The Python of a library's environment; "transformers" may be in this one. Without it, the test is skipped."""
    python = os.environ.get(VARIABLES[peer])
    if not python and peer == "transformers" and all(map(importlib.util.find_spec, ("torch", "transformers"))):
        python = sys.executable
    if not python:
        pytest.skip(f"no environment of {peer}: {VARIABLES[peer]} is not set")
    return python


def run_client(peer: str, client: str, *arguments) -> str:
    """Runs a program of this folder with a library's Python. Returns what it prints."""
    done = subprocess.run([python_of(peer), pathlib.Path(__file__).parent / client, *map(str, arguments)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_transformers_js(*arguments) -> None:
    """Runs transformers_js_client.mjs in Node."""
    if not os.environ.get(TRANSFORMERS_JS) or not shutil.which("node"):
        pytest.skip(f"no transformers.js: {TRANSFORMERS_JS} is not set, or there is no node")
    client = pathlib.Path(__file__).with_name("transformers_js_client.mjs")
    done = subprocess.run(["node", client, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""Other libraries that read our files, each in an environment of its own. A test runs programs with its Python."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from browser import browser
from static_site import static_site

# The environment variable that names the Python of each. CONTRIBUTING.md says what to install.
VARIABLES = {"transformers": "ALBERT_TF_PEER_PYTHON", "transformers 4": "ALBERT_TF_TRANSFORMERS_4_PYTHON",
             "keras-hub": "ALBERT_TF_KERAS_HUB_PYTHON", "jax": "ALBERT_TF_JAX_PYTHON",
             "openai": "ALBERT_TF_OPENAI_PYTHON", "mteb": "ALBERT_TF_MTEB_PYTHON",
             "onnx readers": "ALBERT_TF_ONNX_READERS_PYTHON", "optimum": "ALBERT_TF_OPTIMUM_PYTHON"}
TRANSFORMERS_JS = "ALBERT_TF_TRANSFORMERS_JS"  # the folder in which npm has installed it
_TRANSFORMERS_JS_CLIENT = pathlib.Path(__file__).parent / "transformers_js_client.mjs"
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
    done = subprocess.run(["node", _TRANSFORMERS_JS_CLIENT, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def transformers_js_in_chromium(jobs: list[dict], site: pathlib.Path) -> list[dict]:
    """The answers of transformers_js_client.mjs in headless Chromium. `site` is an empty folder."""
    if not os.environ.get(TRANSFORMERS_JS):
        pytest.skip(f"no transformers.js: {TRANSFORMERS_JS} is not set")
    modules = pathlib.Path(os.environ[TRANSFORMERS_JS]).resolve() / "node_modules"
    (site / "transformers").symlink_to(modules / "@huggingface/transformers/dist")
    (site / "onnxruntime").symlink_to(modules / "onnxruntime-web/dist")
    (site / "client.mjs").symlink_to(_TRANSFORMERS_JS_CLIENT)
    (site / "index.html").write_text("<!DOCTYPE html>")
    answers = []
    with browser() as page, static_site(site) as url:
        for number, job in enumerate(jobs):
            (site / f"model_{number}").symlink_to(job["folder"])
            page.open(f"{url}/index.html")
            page.script("""(async (job) => {
                const [client, transformers] = await Promise.all(
                  ["/client.mjs", "/transformers/transformers.min.js"].map((path) => import(path)));
                transformers.env.backends.onnx.wasm.wasmPaths = "/onnxruntime/";
                return client.answer(transformers, job);
              })(arguments[0]).then((answer) => { window.answer = [answer]; },
                                    (error) => { window.answer = [null, error.stack]; });
                """, dict(job, folder=f"/model_{number}"))
            answer, *error = page.wait_for("return window.answer", seconds=600)
            assert not error, error
            answers.append(answer)
    return answers

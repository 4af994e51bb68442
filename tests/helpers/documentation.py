"""Reads README.md and the pages of docs/ for tests: blocks of code, commands, links; and runs two of them.

A fenced block is run by its language:

    ```bash      commands of albert_tf run in a ScriptSession; `serve` serves until the end of the page, `curl` sends it
                 requests; `cp` and `cat` run, other commands are skipped, and the released archive is made here
    ```python    runs; the blocks of a page share their names
    ```text      output, not run
"""

import contextlib
import importlib.util
import io
import json
import re
import shlex
import shutil
import string
import tarfile
import urllib.request
from typing import NamedTuple
from unittest import mock

import numpy as np
import script_process
from in_process import loaded
from safetensors.numpy import load_file, save_file
from script_session import REPOSITORY
from tiny import TINY_TEXT

import albert_tf
from albert_tf.commands import command_runs
from albert_tf.config import CONFIG_NAME
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.weights.tf1 import save_tf1_checkpoint


class Block(NamedTuple):
    """A fenced block: its language and its text."""

    language: str
    text: str


class Page:
    """A page of Markdown.

    Args:
      path: a pathlib.Path.
    """

    def __init__(self, path):
        self.path, self.text = path, path.read_text(encoding="utf-8")
        self.blocks = [Block(*found) for found in re.findall(r"^```(\w*).*?\n(.*?)^```$", self.text, re.M | re.S)]
        self.names = {}  # of its python blocks
        self.printed = ""  # by the last block of commands or Python
        self._server, self._url = None, ""

    def commands(self):
        """The words of each command of the shell blocks."""
        return [words for block in self.blocks if block.language == "bash" for words in commands(block.text)]

    def broken_links(self):
        """Local links whose file or heading does not exist, and paths in backquotes that do not."""
        prose, broken = self.prose(), []
        for link in re.findall(r"\]\((?!https?:)([^)]+)\)", prose):
            file, _, anchor = link.partition("#")
            target = self.path.parent / file if file else self.path
            if not target.exists() or anchor and anchor not in Page(target).anchors():
                broken.append(link)
        named = re.findall(r"`((?:albert_tf|docs|tests|benchmarks|models|examples|studies)/[\w./-]*)`", prose)
        return broken + [path for path in named if not (REPOSITORY / path).exists()]

    def prose(self):
        return re.sub(r"^```.*?^```$", "", self.text, flags=re.M | re.S)

    def anchors(self):
        """The anchors of the headings, as GitHub makes them of headings that differ."""
        return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
                for heading in re.findall(r"^#+ (.+)$", self.prose(), re.M)]

    def run(self, block, folder, session, **changes):
        """Runs a block as a reader in a folder would, in a ScriptSession that was started there.

        `changes` are flags that replace those of the page, by command, so that a training takes fewer steps.
        """
        if block.language == "bash":
            self.printed = "".join(self._run_command(words, folder, session, changes)
                                   for words in commands(block.text))
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(block.text, str(self.path), "exec"), self.names)
            self.printed = printed.getvalue()

    def close(self):
        """Ends the server that a command of the page has started."""
        if self._server:
            with self._server:
                self._server = None

    def _run_command(self, words, folder, session, changes):
        """Runs a command and returns what it printed."""
        script, *arguments = script_commands(words) or [""]
        flags = {**flags_of(arguments), **changes.get(script, {})}
        if script == "serve":
            self._server = script_process.start("serve", [*arguments, "--port=0"], cwd=folder, merged=True)
            self._url = re.search(r"open (\S+)", self._server.wait_for("Ctrl-C ends").splitlines()[-1])[1]
        elif script == "export_to_onnx" and importlib.util.find_spec("onnx") is None:
            return ""
        elif script == "pretrain_from_text":  # it starts a process for each command of its recipe
            with loaded(script) as run, mock.patch.object(
                    command_runs, "run_to_end", lambda command, *_: session.run_command(command)):
                assert run(**flags) == 0
        elif script:
            return session.run(script=script, **flags)
        elif words[0] == "curl" and self._url and words[-1].startswith("http://127.0.0.1:8501/"):
            url = words[-1].replace("http://127.0.0.1:8501/", self._url)
            data = words[words.index("-d") + 1].encode()
            with urllib.request.urlopen(urllib.request.Request(url, data), timeout=60) as response:
                return json.dumps(json.load(response), separators=(",", ":"))
        elif words[:2] == ["cp", "-r"]:
            shutil.copytree(REPOSITORY / words[2].removeprefix("../albert_tf/"), folder / words[2].rpartition("/")[2])
        elif words[0] == "cat":
            return (folder / words[1]).read_text()
        return ""


def commands(text):
    """The commands of a shell block, each as its list of words, with the variables that lines NAME=value set."""
    variables, found = {}, []
    for line in text.replace("\\\n", " ").splitlines():
        line = string.Template(line).safe_substitute(variables)
        words = shlex.split(line, comments=True)
        if all(re.match(r"\w+=", word) for word in words):
            variables.update(word.split("=", 1) for word in words)
        else:
            found.append(words)
    return found


def script_commands(words):
    """[NAME, argument, ...] of `[X=value ...] python -m albert_tf NAME argument ...`; [] of any other command."""
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    return words[3:] if words[:3] == ["python", "-m", "albert_tf"] else []


def flags_of(words):
    """["--name=value", "--is_set"] -> {"name": "value", "is_set": True}; a list for a flag that is repeated"""
    flags = {}
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        value = value if equals else True
        flags[name] = [*(flags[name] if isinstance(flags[name], list) else [flags[name]]), value] \
            if name in flags else value
    return flags


def check_printed(shown, printed):
    """Compares the lines that a page shows with those that were printed; numbers to the digits that the page shows."""
    lines = list(map(_numbers_apart, printed.splitlines()))
    for line in shown.splitlines():
        expected, digits = _numbers_apart(line)
        close = [np.allclose(digits, numbers, rtol=0, atol=1e-2) for text, numbers in lines if text == expected]
        assert any(close), (line, printed)


def _numbers_apart(line):
    """A line without its decimal fractions, and these."""
    pattern = r"-?\d+\.\d+"
    return re.sub(pattern, "#", line), list(map(float, re.findall(pattern, line)))


def write_checkpoints(folder, golden):
    """Writes albert_base_v2.tar.gz, which has one folder, as the release's archive has; the same model as `hub`, a
    folder of Hugging Face; and its encoder as `PLBERT`, with the names and the config of PL-BERT."""
    released = folder / "download/albert_base"
    released.mkdir(parents=True)
    shutil.copy(golden / "tiny_spm/tiny.model", released / "30k-clean.model")
    model = AlbertPretrainer(TINY_TEXT.replace(num_hidden_layers=2))
    (released / CONFIG_NAME).write_text(model.config.to_json_string())
    save_tf1_checkpoint(model, str(released / "model.ckpt-best"))
    with tarfile.open(folder / "albert_base_v2.tar.gz", "w:gz") as archive:
        archive.add(released, "albert_base")
    albert_tf.save_pretrained(model, str(folder / "hub"), to="hugging_face")
    (folder / "PLBERT").mkdir()
    save_file({f"module.encoder.{name.removeprefix('albert.')}": tensor
               for name, tensor in load_file(folder / "hub/model.safetensors").items() if name.startswith("albert.")},
              folder / "PLBERT/model.safetensors")
    sizes = ("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
             "intermediate_size", "max_position_embeddings")
    (folder / "PLBERT/config.yml").write_text(
        "model_params:\n" + "".join(f"    {name}: {getattr(model.config, name)}\n" for name in sizes))

"""Reads and runs README.md and the pages of docs/ for tests: blocks of code, commands, links.

What a reader has or downloads is made here under the names that the pages use: text, data sets, and tiny weights in
place of the released ones. Flags of SMALL follow those of each command: sizes, and the config of those weights.

A fenced block is run by its language:

    ```bash               commands run in a ScriptSession; `python -m albert_tf serve ...` serves until the next one or
                          the end of the page, and `curl` sends it requests
    ```python             runs; the blocks of a page share their names
    ```json reviews.json  a file that the reader writes, of any language
    ```json               the answer to the last request
    ```text               output, not run; so are the languages of NOT_COMMANDS

Pages in WHOLE are run with the flags that they show.
"""

import contextlib
import importlib.util
import io
import json
import re
import shlex
import shutil
import string
import subprocess
import sys
import tarfile
import urllib.request
from typing import NamedTuple

import numpy as np
import script_process
from script_session import REPOSITORY

from albert_tf.config import CONFIG_NAME, AlbertConfig
from albert_tf.export.conversion import save_pretrained
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.weights.tf1 import save_tf1_checkpoint

FINE_TUNING = dict(train_batch_size=2, train_step=2, warmup_step=1, save_checkpoints_steps=2)
SMALL = {
    "train_vocabulary": dict(vocab_size=300),
    "create_pretraining_data": dict(max_seq_length=32, max_predictions_per_seq=10, dupe_factor=1, num_workers=1),
    "run_pretraining": dict(
        albert_config_file="tiny.json", max_seq_length=32, max_predictions_per_seq=10, train_batch_size=8,
        gradient_accumulation_steps=2, num_train_steps=2, num_warmup_steps=1, eval_batch_size=8, max_eval_steps=2),
    "export_to_tflite": dict(max_seq_length=8, max_predictions_per_seq=2),
    "run_classifier": dict(FINE_TUNING, max_seq_length=24),
    "run_glue": dict(FINE_TUNING, max_seq_length=24, num_runs=1),
    "run_squad": dict(FINE_TUNING, max_seq_length=64, doc_stride=24, max_query_length=16, num_workers=1),
    "run_race": dict(FINE_TUNING, max_seq_length=48, max_qa_length=24),
    "run_tagging": dict(FINE_TUNING, max_seq_length=24),
    "run_sentence_embeddings": dict(FINE_TUNING, max_seq_length=24, matryoshka_dims=8),
}
WHOLE = ("first_hour.md",)
# Scripts whose recipe sets the sizes: other tests run them, and test_docs.py checks the flags.
NOT_RUN = {"pretrain_from_text", "bert_to_albert"}
# A block that imports one of them is not run: they are not installed where the tests run.
OTHER_LIBRARIES = ("transformers", "keras", "keras_hub", "torch", "openai", "datasets")
# What needs one of them is not run where it is not installed.
OPTIONAL_LIBRARIES = ("onnx", "onnxruntime", "ai_edge_litert")
NEEDED_LIBRARY = {"export_to_onnx": "onnx"}
TINY_CONFIG = dict(embedding_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
                   max_position_embeddings=64)
NOT_COMMANDS = ("text", "bibtex", "js")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language, the name of the file that it shows (or ""), the heading above it, and its text."""

    language: str
    file: str
    section: str
    text: str


class Page:
    """A page of Markdown.

    Args:
      path: a pathlib.Path.
    """

    def __init__(self, path):
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.blocks = list(_blocks(self.text))
        self.names = {}  # of its python blocks
        self.printed = ""  # by the last block of commands or Python
        self._server, self._url, self.answer = None, "", None  # a ScriptProcess, and the JSON of the last answer
        self._is_small = path.name not in WHOLE

    def prose(self):
        """The page without its blocks of code."""
        return _CODE.sub("", self.text)

    def commands(self):
        """The words of each command of the shell blocks."""
        return [words for block in self.blocks if block.language == "bash" for words in commands(block.text)]

    def scripts_to_run(self):
        """The scripts that a session runs if all blocks are run, in order. Servers have processes of their own."""
        scripts = [script for script, *_ in filter(None, map(script_commands, self.commands()))]
        return [script for script in scripts if script != "serve" and is_run(script)]

    def broken_links(self):
        """Local links whose file or heading does not exist, and paths in backquotes that do not."""
        prose = self.prose()
        broken = []
        for link in re.findall(r"\]\((?!https?:)([^)]+)\)", prose):
            file, _, anchor = link.partition("#")
            target = self.path.parent / file if file else self.path
            if not target.exists() or anchor and anchor not in Page(target).anchors():
                broken.append(link)
        named = re.findall(r"`((?:albert_tf|docs|tests|benchmarks|models|examples|studies)/[\w./-]*)`", prose)
        return broken + [path for path in named if not (REPOSITORY / path).exists()]

    def headings_within_lines(self):
        """The lines of prose with the mark of a heading behind other text, which is shown as it is."""
        return [line for line in self.prose().splitlines()
                if not line.startswith("    ") and re.search(r"\S +#+ ", re.sub(r"`[^`]*`", "``", line))]

    def anchors(self):
        """The anchors of the headings, as GitHub makes them."""
        found = []
        for heading in re.findall(r"^#+ (.+)$", self.prose(), re.MULTILINE):
            slug = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
            earlier = sum(re.fullmatch(rf"{slug}(-\d+)?", other) is not None for other in found)
            found.append(f"{slug}-{earlier}" if earlier else slug)
        return found

    def run(self, block, folder, session):
        """Runs a block as a reader in a folder would.

        Args:
          block: of this page.
          folder: the working directory.
          session: a ScriptSession that was started in it.
        """
        if block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "bash":
            self.printed = "".join(self._run_command(words, folder, session) for words in commands(block.text))
        elif block.language == "python":
            if not imports_missing_library(block):
                code = block.text.replace("http://127.0.0.1:8501/", self._url)
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    exec(compile(code, str(self.path), "exec"), self.names)
                self.printed = printed.getvalue()
        elif block.language == "json":
            check_close(json.loads(block.text), self.answer)
        else:
            assert block.language in NOT_COMMANDS, block

    def close(self):
        """Ends the server that a command of the page has started."""
        if self._server:
            with self._server:
                self._server = None

    def _run_command(self, words, folder, session):
        """Runs a command and returns what it printed; "" for a server and what is not a script of ours."""
        if script_commands(words)[:1] == ["serve"]:
            self.close()
            self._server = script_process.start("serve", [*words[4:], "--port=0"], cwd=folder, merged=True)
            self._url = re.search(r"open (\S+)", self._server.wait_for("Ctrl-C ends").splitlines()[-1])[1]
        elif words[0] == "curl" and words[-1].startswith("http://127.0.0.1:8501/"):
            data = words[words.index("-d") + 1].encode() if "-d" in words else None
            url = words[-1].replace("http://127.0.0.1:8501/", self._url)
            with urllib.request.urlopen(urllib.request.Request(url, data), timeout=60) as response:
                self.answer = json.load(response)
        else:
            return run_command(words, folder, session, self._is_small)
        return ""


def _blocks(text):
    section = ""
    for match in re.finditer(r"^#+ ([^\n]+)$|^```(\w*) ?([\w./-]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        heading, language, file, content = match.groups()
        if heading:
            section = heading
        else:
            yield Block(language, file, section, content)


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


def imports_missing_library(block):
    names = [*OTHER_LIBRARIES, *(name for name in OPTIONAL_LIBRARIES if not is_installed(name))]
    return any(re.search(rf"^(?:import|from) {name}\b", block.text, re.MULTILINE) for name in names)


def is_run(script):
    return script not in NOT_RUN and is_installed(NEEDED_LIBRARY.get(script, "tensorflow"))


def is_installed(library):
    return importlib.util.find_spec(library) is not None


def check_close(expected, actual):
    """Compares JSON values; numbers to the digits that a page shows."""
    if isinstance(expected, dict):
        assert expected.keys() == actual.keys(), actual
        expected, actual = (list(value[key] for key in sorted(expected)) for value in (expected, actual))
    if isinstance(expected, list):
        assert len(expected) == len(actual), actual
        for pair in zip(expected, actual):
            check_close(*pair)
    elif isinstance(expected, float):
        assert abs(expected - actual) < 1e-3, (expected, actual)
    else:
        assert expected == actual


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


def run_command(words, folder, session, is_small):
    """Runs a command and returns what it printed, or a script of ours."""
    program, *arguments = words
    if script_commands(words):
        script, *arguments = script_commands(words)
        if not is_run(script):
            return ""
        flags = small(script, flags_of(arguments)) if is_small else flags_of(arguments)
        return session.run(script=script, eagerly="train_step" in flags and "export_dir" not in flags, **flags)
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in arguments if "=" not in word} <= set(targets)
    elif words[:3] == ["python", "-m", "studies"]:
        subprocess.run([sys.executable, *arguments], cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
    elif program == "pip":
        check_installation(arguments)
    elif program in ("sudo", "git", "python3") or "&&" in words:  # done where the tests run
        assert shlex.join(words) in ("sudo apt install git python3-venv make curl",
                                     "git clone URL albert_tf '&&' cd albert_tf",
                                     "python3 -m venv .venv '&&' . .venv/bin/activate",
                                     "mkdir ../first_hour '&&' cd ../first_hour")
    elif program == "cat":
        return (folder / arguments[0]).read_text()
    elif words == ["cp", "-r", "../albert_tf/examples/reviews", "."]:
        shutil.copytree(REPOSITORY / "examples/reviews", folder / "reviews")
    elif program == "printf":
        text, _, file = arguments
        (folder / file).write_text(text.replace("\\n", "\n"))
    elif program != "export":  # a setting of the reader's shell would hold for all later tests
        run_download(words, folder)
    return ""


def small(script, flags):
    """A command's flags with the sizes of SMALL. The config of initial weights is kept."""
    sizes = dict(SMALL.get(script, {}))
    if "init_checkpoint" in flags:
        sizes.pop("albert_config_file", None)
    return {**flags, **sizes}


def check_installation(arguments):
    """pip is not run here: tests/test_packaging.py installs the package."""
    command, *what = arguments
    assert command == "install"
    if what[0] == "-r":
        assert (REPOSITORY / what[1]).is_file()
    elif what != ["--no-deps", "-e", "."]:
        extras = re.fullmatch(r"\.(?:\[(\w+)\])?", what[0])
        assert extras[1] is None or f"\n{extras[1]} = [" in (REPOSITORY / "pyproject.toml").read_text()


def run_download(words, folder):
    """curl takes the file that write_archive made; mkdir and tar run as they are."""
    if words[0] == "curl":
        shutil.copy(folder / "download" / words[-1].rsplit("/", 1)[1], folder)
    else:
        assert words[0] in ("mkdir", "tar"), words
        subprocess.run(words, cwd=folder, check=True)


def write_reader_files(folder, golden):
    """Writes the reader's files: a text, data sets, and in download/ the archive of a released model."""
    write_text(folder / "text")
    (folder / "tiny.json").write_text(json.dumps(dict(TINY_CONFIG, vocab_size=300)))
    write_archive(folder / "download", golden)
    (folder / "lines.txt").write_text("The name of the file is known.\nThe name of the file are known.\n")
    tokenizer = FullTokenizer(spm_model_file=str(golden / "tiny_spm/tiny.model"))
    ranker = AlbertClassifier(AlbertConfig(vocab_size=tokenizer.vocab_size, **TINY_CONFIG), num_labels=1)
    save_pretrained(ranker, str(folder / "models/ranker"), tokenizer)
    (folder / "blimp").mkdir()
    (folder / "blimp/agreement.jsonl").write_text(json.dumps(dict(
        sentence_good="The names are known.", sentence_bad="The names is known.", field="morphology")) + "\n")
    (folder / "pairs.tsv").write_text("The name is known.\tThe file has a name.\nShe came.\tShe is here.\n")
    row = dict(text_a="The name is known.", text_b="The file has a name.", negative_1="She came.", negative_2="It is.")
    (folder / "mined.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(dict(row, text_a='A known name.'))}\n")
    (folder / "my_reviews").mkdir()
    (folder / "my_reviews/dev.csv").write_text("review,verdict\nA dull film.,bad\nA fine day at sea.,good\n")
    for task in ("RTE", "STS-B"):
        shutil.copytree(golden / f"glue/{task}", folder / f"glue/{task}")
    shutil.copytree(golden / "race/RACE", folder / "data/RACE")
    for split in ("train", "dev"):
        shutil.copy(golden / "squad/train.json", folder / f"{split}-v2.0.json")
    for split in ("train", "dev", "test"):
        (folder / f"{split}.conll").write_text("Ada\tB-person\nleft\tO\n\nShe\tO\ncame\tO\n")


def write_text(folder):
    """Writes the sentences of LICENSE, one on each line; each paragraph is a document."""
    folder.mkdir()
    paragraphs = [" ".join(paragraph.split()) for paragraph in (REPOSITORY / "LICENSE").read_text().split("\n\n")]
    documents = [re.sub("(?<=[.;:,]) ", "\n", paragraph) + "\n" for paragraph in paragraphs if paragraph.count(",") > 1]
    for name, part in dict(train_1=documents[::3], train_2=documents[1::3], dev=documents[2::3]).items():
        (folder / f"{name}.txt").write_text("\n".join(part))


def write_archive(folder, golden):
    """Writes albert_base_v2.tar.gz, which has one folder, as the release's archive has."""
    released = folder / "albert_base"
    write_released(released, golden / "tiny_spm/tiny.model", "30k-clean.model")
    with tarfile.open(folder / "albert_base_v2.tar.gz", "w:gz") as archive:
        archive.add(released, "albert_base")


def write_released(folder, vocabulary, name):
    """Writes a directory like the release's, with a vocabulary that has the release's name."""
    folder.mkdir(parents=True)
    path = str(shutil.copy(vocabulary, folder / name))
    tokenizer = FullTokenizer(spm_model_file=path) if name.endswith(".model") else FullTokenizer(vocab_file=path)
    model = AlbertPretrainer(AlbertConfig(vocab_size=tokenizer.vocab_size, **TINY_CONFIG))
    (folder / CONFIG_NAME).write_text(model.config.to_json_string())
    save_tf1_checkpoint(model, str(folder / "model.ckpt-best"))

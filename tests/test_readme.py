"""README.md's commands and snippets, run in order as a reader would, on small data.

What a reader has or downloads is made here under the same names: text, data sets, and tiny weights in place of the
released ones. Flags of SMALL follow those of each command: sizes, and the config of those weights.
"""

import json
import re
import shlex
import shutil
import subprocess
import tarfile
from typing import NamedTuple

import pytest
from script_session import REPOSITORY, ScriptSession

from albert_tf.config import CONFIG_NAME, AlbertConfig
from albert_tf.interchange.tf1 import save_tf1_checkpoint
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.text.tokenization import FullTokenizer

TEXT = (REPOSITORY / "README.md").read_text(encoding="utf-8")
FINE_TUNING = dict(train_batch_size=2, train_step=2, warmup_step=1, save_checkpoints_steps=2)
SMALL = {
    "train_vocabulary.py": dict(vocab_size=300),
    "create_pretraining_data.py": dict(max_seq_length=32, max_predictions_per_seq=5, dupe_factor=1, num_workers=1),
    "run_pretraining.py": dict(
        albert_config_file="tiny.json", max_seq_length=32, max_predictions_per_seq=5, train_batch_size=8,
        gradient_accumulation_steps=2, num_train_steps=2, num_warmup_steps=1, eval_batch_size=8, max_eval_steps=2),
    "export_to_tflite.py": dict(max_seq_length=8, max_predictions_per_seq=2),
    "run_classifier.py": dict(FINE_TUNING, max_seq_length=24),
    "run_glue.py": dict(FINE_TUNING, max_seq_length=24, num_runs=1),
    "run_squad.py": dict(FINE_TUNING, max_seq_length=64, doc_stride=24, max_query_length=16, num_workers=1),
    "run_race.py": dict(FINE_TUNING, max_seq_length=48, max_qa_length=24),
    "run_tagging.py": dict(FINE_TUNING, max_seq_length=24),
}
# Scripts that README.md mentions elsewhere.
NOT_IN_BLOCKS = {"export_to_onnx.py", "model_sizes.py"}
SLOW_SECTION = "Fine-tuning"


class Block(NamedTuple):
    language: str
    section: str
    text: str


def blocks():
    """The fenced blocks of README.md in order, and the headings that they stand under."""
    section, found = "", []
    for match in re.finditer(r"^## ([^\n]+)$|^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL):
        heading, language, text = match.groups()
        if heading:
            section = heading
        else:
            found.append(Block(language, section, text))
    return found


def shell_commands(section=None):
    """The commands of all shell blocks, or of those of one section."""
    return [words for block in blocks() if block.language == "bash" and section in (None, block.section)
            for words in commands(block.text)]


def commands(text):
    """The commands of a shell block, each as its list of words."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, golden):
    """Where a reader works: a text of their own, the data sets, and what they download."""
    folder = tmp_path_factory.mktemp("reader")
    write_text(folder / "text")
    config = dict(embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
                  max_position_embeddings=64)
    (folder / "tiny.json").write_text(json.dumps(dict(config, vocab_size=300)))
    write_released(folder, golden / "tiny_spm/tiny.model", config)
    (folder / "lines.txt").write_text("The name of the file is known.\nThe name of the file are known.\n")
    (folder / "blimp").mkdir()
    (folder / "blimp/agreement.jsonl").write_text(json.dumps(dict(
        sentence_good="The names are known.", sentence_bad="The names is known.", field="morphology")) + "\n")
    shutil.copytree(golden / "glue/RTE", folder / "glue/RTE")
    shutil.copytree(golden / "race/RACE", folder / "data/RACE")
    for split in ("train", "dev"):
        shutil.copy(golden / "squad/train.json", folder / f"{split}-v2.0.json")
    for split in ("train", "dev", "test"):
        (folder / f"{split}.conll").write_text("Ada\tB-person\nleft\tO\n\nShe\tO\ncame\tO\n")
    return folder


def write_text(folder):
    """The sentences of LICENSE, one a line, each paragraph a document."""
    folder.mkdir()
    paragraphs = [" ".join(paragraph.split()) for paragraph in (REPOSITORY / "LICENSE").read_text().split("\n\n")]
    documents = [re.sub("(?<=[.;:,]) ", "\n", paragraph) + "\n" for paragraph in paragraphs if paragraph.count(",") > 1]
    for name, part in dict(train_1=documents[::3], train_2=documents[1::3], dev=documents[2::3]).items():
        (folder / f"{name}.txt").write_text("\n".join(part))


def write_released(folder, vocabulary, config):
    """albert_base_v2.tar.gz with one folder in it, as the release's."""
    released = folder / "download" / "albert_base"
    released.mkdir(parents=True)
    shutil.copy(vocabulary, released / "30k-clean.model")
    vocab_size = FullTokenizer(spm_model_file=str(vocabulary)).vocab_size
    model = AlbertPretrainer(AlbertConfig(vocab_size=vocab_size, **config))
    (released / CONFIG_NAME).write_text(model.config.to_json_string())
    save_tf1_checkpoint(model, str(released / "model.ckpt-best"))
    with tarfile.open(folder / "download/albert_base_v2.tar.gz", "w:gz") as archive:
        archive.add(released, "albert_base")


def flags_of(words):
    """["--name=value", "--is_set"] -> {"name": "value", "is_set": True}"""
    pairs = (word.removeprefix("--").partition("=") for word in words)
    return {name: value if equals else True for name, equals, value in pairs}


def run_command(words, folder, session):
    program, *arguments = words
    if program == "python":
        script, *given = arguments
        session.run(script=script, **{**flags_of(given), **SMALL.get(script, {})})
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
        assert set(arguments) <= set(targets)
    elif program == "pip":
        check_installation(arguments)
    else:
        run_download(words, folder)


def check_installation(arguments):
    """pip is not run here: tests/test_packaging.py installs the package."""
    command, *what = arguments
    assert command == "install"
    if what[0] == "-r":
        assert (REPOSITORY / what[1]).is_file()
    else:
        extras = re.fullmatch(r"\.(?:\[(\w+)\])?", what[0])
        assert extras[1] is None or f"\n{extras[1]} = [" in (REPOSITORY / "pyproject.toml").read_text()


def run_download(words, folder):
    """curl takes the file from what write_released made; mkdir and tar run as they are."""
    if words[0] == "curl":
        shutil.copy(folder / "download" / words[-1].rsplit("/", 1)[1], folder)
    else:
        assert words[0] in ("mkdir", "tar"), words
        subprocess.run(words, cwd=folder, check=True)


def run_block(block, folder, session):
    if block.language == "bash":
        for words in commands(block.text):
            run_command(words, folder, session)
    elif block.language == "python":
        exec(compile(block.text, "README.md", "exec"), {})
    else:
        assert block.language == "text", block


def test_commands_and_snippets_run_in_order(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with ScriptSession() as session:
        for block in blocks():
            if block.section != SLOW_SECTION:
                run_block(block, folder, session)
    assert (folder / "model/model.ckpt-best.index").exists() and (folder / "albert_hf/model.safetensors").exists()


@pytest.mark.slow
def test_commands_and_snippets_of_fine_tuning_run_in_order(folder, monkeypatch):
    monkeypatch.chdir(folder)
    if not (folder / "albert_base_v2").exists():
        for words in shell_commands():
            if words[0] in ("curl", "mkdir", "tar"):
                run_download(words, folder)
    with ScriptSession() as session:
        for block in blocks():
            if block.section == SLOW_SECTION:
                run_block(block, folder, session)
    assert (folder / "squad/predictions.json").exists() and (folder / "race/predictions.jsonl").exists()


def test_commands_of_fine_tuning_have_the_flags_of_their_scripts():
    with ScriptSession() as session:
        for _, script, *given in shell_commands(SLOW_SECTION):
            session.run(script=script, only_check_args=True, **flags_of(given))


def test_every_script_is_shown():
    shown = {words[1] for words in shell_commands() if words[0] == "python"}
    assert shown | NOT_IN_BLOCKS == {path.name for path in REPOSITORY.glob("*.py")}


def test_small_settings_are_those_of_shown_commands_and_are_sizes():
    assert set(SMALL) <= {path.name for path in REPOSITORY.glob("*.py")}
    others = {name for settings in SMALL.values() for name, value in settings.items() if not isinstance(value, int)}
    assert others == {"albert_config_file"}


def test_local_links_and_paths_exist():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", TEXT)
    paths = re.findall(r"`((?:albert_tf|docs|tests|benchmarks)/[\w./]*)`", TEXT)
    assert links and paths
    assert [path for path in (*links, *paths) if not (REPOSITORY / path).exists()] == []

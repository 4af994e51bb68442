"""The Dockerfile: what can be checked without a builder."""

import fnmatch
import json
import pathlib
import re
import shlex

import pytest
from in_process import loaded

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

REPOSITORY = pathlib.Path(__file__).parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGE = (REPOSITORY / "docs/serving.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def instructions():
    """The instructions of the Dockerfile in order, each with its text."""
    text = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line]


def texts_of(instructions, name):
    return [text for instruction, text in instructions if instruction == name]


def is_sent(path, patterns):
    """Whether the builder gets a path, by the patterns of .dockerignore, of which the last one that matches counts."""
    sent = True
    for pattern in patterns:
        name = pattern.lstrip("!")
        if name == "*" or fnmatch.fnmatch(path, name) or path.startswith(f"{name}/"):
            sent = pattern.startswith("!")
    return sent


def test_files_that_are_copied_exist_and_are_sent_to_the_builder(instructions):
    patterns = [line for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    sources = [source for text in texts_of(instructions, "COPY") for source in text.split()[:-1]]
    assert {"pyproject.toml", "albert_tf", "requirements.txt", PROJECT["readme"]} <= set(sources)
    for source in sources:
        assert (REPOSITORY / source).exists() and is_sent(source, patterns), source
    assert not is_sent(".git/config", patterns) and not is_sent("tests/test_dockerfile.py", patterns)


def test_the_default_command_is_serve(instructions):
    (program,), command = (json.loads(texts_of(instructions, name)[0]) for name in ("ENTRYPOINT", "CMD"))
    assert program in PROJECT["scripts"]
    assert command[0] == "serve"
    flags = dict(flag.lstrip("-").split("=") for flag in command[1:])
    assert flags["port"] == texts_of(instructions, "EXPOSE")[0] and flags["host"] == "0.0.0.0"
    with loaded("serve") as run:
        assert {flag.name for flag in run.flags} >= flags.keys()
    assert (REPOSITORY / "albert_tf/models" / flags["init_checkpoint"]).is_dir()


def test_the_commands_of_its_comment_and_of_the_page_have_flags_of_serve(instructions):
    for text in ((REPOSITORY / "Dockerfile").read_text(), PAGE):
        commands = re.findall(r"docker run .* albert_tf (serve .*)", text)
        assert commands
        with loaded("serve") as run:
            known = {flag.name for flag in run.flags}
        for command in commands:
            assert {flag[2:].partition("=")[0] for flag in shlex.split(command)[1:]} <= known

"""The package as a wheel and an image, and the requirements of each Python."""

import fnmatch
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile

import pytest
from in_process import loaded
from packaging.requirements import Requirement
from packaging.version import Version

import albert_tf
from albert_tf.utils import imports

REPOSITORY = pathlib.Path(__file__).parents[1]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the sources in a folder of the README's name, because building writes files into their folder."""
    clone = tmp_path_factory.mktemp("home") / "albert_tf"
    shutil.copytree(REPOSITORY / "albert_tf", clone / "albert_tf", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (REPOSITORY / name for name in ("pyproject.toml", "README.md", "LICENSE")):
        shutil.copy(path, clone)
    return clone


@pytest.fixture(scope="module")
def wheel(clone, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run_pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(clone))
    path, = folder.glob("*.whl")
    return path


def run_pip(*arguments):
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_script_beside_the_clone_imports_the_package_and_not_the_folder(clone, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    packages, = tmp_path.glob("lib/python*/site-packages")
    (packages / "this_environment.pth").write_text(sysconfig.get_paths()["purelib"])
    run_pip("--python", str(tmp_path / "bin/python"), "install", "--no-deps", "--no-build-isolation", "-e", str(clone))
    (clone.parent / "train.py").write_text("import albert_tf; print(albert_tf.AlbertConfig.__name__)")
    done = subprocess.run([tmp_path / "bin/python", "train.py"], cwd=clone.parent, capture_output=True, text=True)
    assert done.stdout == "AlbertConfig\n", done.stderr


def test_one_command_starts_all():
    assert PROJECT["scripts"] == {"albert-tf": "albert_tf.__main__:main"}


def test_pytest_is_no_run_time_dependency_and_nothing_is_pinned():
    dependencies = PROJECT["dependencies"]
    assert not any(name in dependency for dependency in dependencies for name in ("pytest", "addons", "=="))


def test_the_wheel_has_all_files_that_the_package_reads(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert wheel.name.startswith(f"albert_tf-{albert_tf.__version__}-")
    expected = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "albert_tf").rglob("*")
                if path.suffix in (".py", ".json", ".typed", ".html", ".css", ".js")}
    expected |= {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "albert_tf/models").rglob("*")
                 if path.is_file()}
    assert {name for name in names if not name.split("/")[0].endswith(".dist-info")} == expected


@pytest.mark.long
def test_the_wheel_alone_runs_the_scripts(wheel, tmp_path):
    target = tmp_path / "installed"
    run_pip("install", "--no-deps", "--target", str(target), str(wheel))
    dependencies = sysconfig.get_paths()["purelib"]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(target), dependencies]))

    def run(*arguments):
        command = [sys.executable, str(target / "bin/albert-tf"), *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    filled = run("fill_mask", "--init_checkpoint=albert_tiny_en", "--text=The [MASK] is known.")
    assert filled.returncode == 0 and "The [MASK] is known." in filled.stdout, filled.stderr
    wrong = run("fill_mask", "--init_checkpoint=nowhere", "--text=a [MASK]")
    assert wrong.returncode == 1, wrong.stderr
    assert wrong.stderr.startswith("fill_mask: error: no checkpoint at nowhere"), wrong.stderr
    assert "    albert-tf fill_mask --init_checkpoint=model_dir" in run("fill_mask", "--help").stdout
    assert "--[no]do_lower_case" in run("create_pretraining_data", "--helpshort").stdout
    glue = run("run_glue", "--help")  # a script that imports another one
    assert glue.returncode == 0 and "--num_runs" in glue.stdout, glue.stderr


def pins(file: str, python: str) -> dict[str, str]:
    """The version of each package, as this Python reads the file."""
    lines = [line.split(" #")[0].strip() for line in (REPOSITORY / file).read_text().splitlines()]
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    chosen = [requirement for requirement in requirements
              if requirement.marker is None or requirement.marker.evaluate(dict(python_version=python))]
    versions = {requirement.name: str(requirement.specifier) for requirement in chosen}
    assert len(versions) == len(chosen), "a package stands twice"
    return versions


@pytest.mark.parametrize("python, tensorflow", [
    ("3.11", "==2.15.1"), ("3.12", "==2.21.0"), ("3.13", "==2.21.0")])
def test_the_version_of_python_chooses_tensorflow(python, tensorflow):
    chosen = pins("requirements.txt", python)
    assert chosen["tensorflow"] == tensorflow
    assert ("tensorflow-addons" in chosen) == (tensorflow == "==2.15.1") == ("tf-keras" not in chosen)


@pytest.mark.parametrize("python", ["3.12", "3.13"])
def test_both_files_have_the_same_newest_stack(python):
    assert pins("requirements.txt", python) == pins("requirements-newest.txt", python)


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_every_version_is_pinned(python):
    groups = [str(Requirement(each).specifier) for group in PYPROJECT["dependency-groups"].values() for each in group]
    assert all(version.startswith("==") for version in [*pins("requirements.txt", python).values(), *groups])


def test_beam_can_be_installed_after_tensorflow_2_15():
    """proto-plus 1.29 needs protobuf 6.33; then TensorFlow 2.15, which needs less than 5, cannot be imported."""
    version, = re.findall("proto-plus==(.*)", " ".join(PYPROJECT["dependency-groups"]["beam"]))
    assert Version(version) < Version("1.29")
    extra = {each.name: each for each in map(Requirement, PROJECT["optional-dependencies"]["beam"])}
    assert version in extra["proto-plus"].specifier and "1.29.0" not in extra["proto-plus"].specifier


@pytest.fixture(scope="module")
def uv(tmp_path_factory):
    """uv, which evaluates markers for other platforms; `pip --platform` evaluates them for this machine."""
    environment = tmp_path_factory.mktemp("uv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    run_pip("--python", str(environment / "bin/python"), "install", "uv==0.13.9")
    return environment / "bin/uv"


@pytest.mark.slow
@pytest.mark.parametrize("file", [
    "requirements.txt", "requirements-newest.txt", "pyproject.toml", "pyproject.toml all"])
@pytest.mark.parametrize("platform", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin",
                                      "x86_64-pc-windows-msvc"])
def test_every_platform_has_wheels_of_all_requirements(uv, file, platform):
    file, *extras = file.split()
    for python in ("3.11", "3.12", "3.13"):
        command = [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--only-binary=:all:",
                   f"--python-platform={platform}", f"--python-version={python}",
                   *(f"--extra={each}" for each in extras)]
        done = subprocess.run([*command, file], cwd=REPOSITORY, capture_output=True, text=True,
                              env=dict(os.environ, UV_PYTHON_DOWNLOADS="never"))
        assert done.returncode == 0, f"Python {python}: {done.stderr}"
        assert "tensorflow==2." in done.stdout
        has_text = "windows" not in platform and (file != "pyproject.toml" or extras == ["all"]) and not (
            file == "requirements.txt" and python < "3.12" and platform.startswith("aarch64"))
        assert ("tensorflow-text==" in done.stdout) == has_text


def test_the_message_of_a_missing_module_names_an_extra_that_has_it():
    extras = {name: {Requirement(each).name for each in requirements}
              for name, requirements in PROJECT["optional-dependencies"].items()}
    for extra, requirements in imports._EXTRAS.values():
        assert requirements.split()[0] in extras[extra]
        assert extra in ("beam", "jax") or extra in Requirement(PROJECT["optional-dependencies"]["all"][0]).extras


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
    assert not is_sent(".git/config", patterns) and not is_sent("tests/test_packaging.py", patterns)


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

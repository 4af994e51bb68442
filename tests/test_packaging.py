"""The package as a wheel, and wheels of its requirements for each platform."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement

import albert_tf
from albert_tf.utils import imports

REPOSITORY = pathlib.Path(__file__).parents[1]


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


def test_the_wheel_has_all_files_that_the_package_reads(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert wheel.name.startswith(f"albert_tf-{albert_tf.__version__}-")
    expected = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "albert_tf").rglob("*")
                if path.suffix in (".py", ".json", ".typed", ".html", ".css", ".js", ".jinja")}
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
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: {Requirement(each).name for each in requirements}
              for name, requirements in project["optional-dependencies"].items()}
    for extra, requirements in imports._EXTRAS.values():
        assert requirements.split()[0] in extras[extra]

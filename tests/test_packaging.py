"""The package as a wheel."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

import albert_tf

REPOSITORY = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of a copy of the sources, because building writes files into their folder."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(REPOSITORY / "albert_tf", folder / "albert_tf", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (REPOSITORY / name for name in ("pyproject.toml", "README.md", "LICENSE")):
        shutil.copy(path, folder)
    run_pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(folder))
    path, = folder.glob("*.whl")
    return path


def run_pip(*arguments):
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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
    assert wrong.returncode == 1 and wrong.stderr.startswith("fill_mask: error: no checkpoint at nowhere"), wrong.stderr
    assert "    python -m albert_tf fill_mask --init_checkpoint=model_dir" in run("fill_mask", "--help").stdout

"""The programs of .ci, with stubs in place of the programs that they run; and the environments of the Makefile."""

import pathlib
import re
import shutil
import subprocess

import pytest
import yaml
from script_session import REPOSITORY

INSTALLING = 'test "$2" = update || touch {folder}/chromium {folder}/chromedriver; chmod +x {folder}/*'
BROWSER = dict(chromium="exit 1", chromedriver="exit 1")


@pytest.mark.parametrize("programs, message", [
    (dict(BROWSER, id="echo 0"), "installed before"),
    (dict(id="echo 0", **{"apt-get": INSTALLING}), "chromium installed"),
    (dict(id="echo 0", **{"apt-get": "echo no network >&2; exit 100"}),
     "apt-get could not install chromium: the tests of serve's page are skipped"),
    (dict(id="echo 0", **{"apt-get": "exit 0"}),
     "apt-get could not install chromium: the tests of serve's page are skipped"),
    (dict(id="echo 1000", **{"apt-get": INSTALLING}),
     "none, and no apt-get as root: the tests of serve's page are skipped"),
    (dict(id="echo 0"), "none, and no apt-get as root: the tests of serve's page are skipped")])
def test_ci_installs_a_browser_if_it_can_and_continues_if_not(tmp_path, programs, message):
    done = run(REPOSITORY / ".ci/install_browser", tmp_path, programs)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"browser: {message}\n", "")


def run(script, folder, programs, **environment):
    """Runs a script with some programs alone on its PATH."""
    for program in {"bash", "touch", "chmod", "mkdir", "dirname", "rm"} - set(programs):  # a stub never replaces a link
        pathlib.Path(folder / program).symlink_to(shutil.which(program))
    for name, body in programs.items():
        (folder / name).write_text(f"#!{folder}/bash\n{body.format(folder=folder)}\n")
        (folder / name).chmod(0o755)
    return subprocess.run([shutil.which("bash"), script], env=dict(environment, PATH=str(folder)), capture_output=True,
                          text=True, timeout=60)


APT = {"id": "echo 0", "apt-get": "exit 0"}
BOOTSTRAPPED = {"debootstrap": 'mkdir -p {folder}/.environments/trixie/etc/ssl/certs', "cp": "exit 0",
                "unshare": 'echo "in trixie: ${{@: -6}}"'}


@pytest.mark.parametrize("programs, environment, expected", [
    ({"python3.13": "exit 0"}, {},
     ["Python 3.13: that of the PATH", "VENV=.environments/python3.13 PYTHON=python3.13"]),
    ({"id": "echo 0", "apt-get": "echo exit 0 >{folder}/python3.13; chmod +x {folder}/python3.13"}, {},
     ["Python 3.13: installed by apt", "VENV=.environments/python3.13 PYTHON=python3.13"]),
    ({**APT, **BOOTSTRAPPED}, {}, ["Python 3.13: that of Debian trixie, in .environments/trixie",
                                   "in trixie: bash make STACK=newest VENV=.environments/trixie_python3.13 PYTHON="]),
    ({**APT, **BOOTSTRAPPED}, dict(CI_DEBOOTSTRAP="no"), ["Python 3.13: none (not on the PATH, nor from apt, nor by "
                                                           "debootstrap); make chooses another one",
                                                           "VENV=.environments/newest"]),
    ({**APT, "debootstrap": "exit 1"}, {}, ["Python 3.13: none", "VENV=.environments/newest"]),
    ({"id": "echo 1000", **BOOTSTRAPPED}, {}, ["Python 3.13: none", "VENV=.environments/newest"])],
    ids=["PATH", "apt", "debootstrap", "opted out", "no network", "no root"])
def test_ci_takes_python_3_13_where_it_can_be_had_and_says_so(tmp_path, programs, environment, expected):
    (tmp_path / ".ci").mkdir()
    for name in ("newest", "in_trixie"):
        shutil.copy(REPOSITORY / ".ci" / name, tmp_path / ".ci")
    done = run(tmp_path / ".ci/newest", tmp_path, dict(programs, make='echo "make $@"'), **environment)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 2, done.stderr
    assert lines[0].startswith(expected[0]) and expected[1] in lines[1]


def test_make_neither_changes_nor_removes_an_environment_that_a_user_made():
    for target in ("demo", "test", "lint", "docs", "clean"):
        done = subprocess.run(["make", "-n", target], cwd=REPOSITORY, capture_output=True, text=True, check=True)
        assert ".environments" in done.stdout and ".venv" not in done.stdout


@pytest.mark.parametrize("path", sorted((REPOSITORY / ".github/workflows").iterdir()), ids=lambda path: path.name)
def test_workflows_only_call_make_and_the_programs_of_ci(path):
    jobs = yaml.safe_load(path.read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    for program, *arguments in map(str.split, commands):
        assert arguments[0] in targets if program == "make" else (REPOSITORY / program).is_file(), program
    assert commands


def test_the_citation_has_what_the_format_requires():
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0" and citation.keys() >= {"message", "title", "authors"}
    assert [author["family-names"] for author in citation["preferred-citation"]["authors"]] == [
        "Lan", "Chen", "Goodman", "Gimpel", "Sharma", "Soricut"]

""".ci/install_browser, with stubs in place of its programs."""

import pathlib
import shutil
import subprocess

import pytest
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
    for program in ("bash", "touch", "chmod"):
        pathlib.Path(tmp_path / program).symlink_to(shutil.which(program))
    for name, body in programs.items():
        (tmp_path / name).write_text(f"#!{tmp_path}/bash\n{body.format(folder=tmp_path)}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run([shutil.which("bash"), REPOSITORY / ".ci/install_browser"], env=dict(PATH=str(tmp_path)),
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"browser: {message}\n", "")

"""Temporary files are removed when their process ends, or by the next process."""

import os
import pathlib
import subprocess
import sys

from albert_tf import temporary_files
from albert_tf.files import write_text
from albert_tf.temporary_files import temporary_file, temporary_folder, temporary_path

ROOT = str(pathlib.Path(__file__).parents[1])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_of_a_killed_process_are_removed_by_the_next_output_of_the_folder(tmp_path):
    program = f"""
import os, sys
sys.path.insert(0, {ROOT!r})
from albert_tf.temporary_files import temporary_file, temporary_folder
with temporary_file({str(tmp_path / "x")!r}), temporary_folder({str(tmp_path / "y")!r}) as folder:
    open(os.path.join(folder, "part"), "w").close()
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=100).returncode == -9
    assert [name[:3] for name in names(tmp_path)] == [".x.", ".y."]
    write_text(str(tmp_path / "other"), "whole")
    assert names(tmp_path) == ["other"]


def test_files_of_another_computer_are_removed_after_a_day(tmp_path, monkeypatch):
    left = pathlib.Path(temporary_path(str(tmp_path / "x")))
    left.touch()
    monkeypatch.setattr(temporary_files.socket, "gethostname", lambda: "another")
    write_text(str(tmp_path / "other"), "whole")
    assert names(tmp_path) == [left.name, "other"]
    os.utime(left, (0, 0))
    write_text(str(tmp_path / "other"), "whole")
    assert names(tmp_path) == ["other"]


def test_files_that_a_process_still_writes_are_kept(tmp_path):
    with temporary_file(str(tmp_path / "x")) as file, temporary_folder(str(tmp_path / "y")) as folder:
        write_text(str(tmp_path / "other"), "whole")
        assert os.path.exists(file) and os.path.exists(folder)
    assert names(tmp_path) == ["other"]


def test_files_of_other_names_stay(tmp_path):
    for name in (".x.tmp", ".x.1234.tmp", "x.1-0123456789abcdef.tmp"):
        (tmp_path / name).touch()
    write_text(str(tmp_path / "other"), "whole")
    assert len(names(tmp_path)) == 4


def test_nothing_is_removed_on_file_systems_without_locks(tmp_path, monkeypatch):
    left = temporary_path(str(tmp_path / "x"))
    pathlib.Path(left).touch()
    monkeypatch.setattr(temporary_files, "fcntl", None)
    write_text(str(tmp_path / "other"), "whole")
    assert names(tmp_path) == [os.path.basename(left), "other"]


def test_a_file_that_another_process_takes_for_ownerless_is_made_again(tmp_path, monkeypatch):
    locked, taken = temporary_files._locked, []

    def take_first(path, wait):
        if not taken:
            taken.append(path)
            os.remove(path)
        return locked(path, wait)

    monkeypatch.setattr(temporary_files, "_locked", take_first)
    with temporary_file(str(tmp_path / "x")) as file:
        assert taken != [file] and os.path.exists(file)

"""Temporary files are removed when their process ends, or by the next process."""

import errno
import os
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

from albert_tf.commands.app import _one_line
from albert_tf.utils import temporary_files
from albert_tf.utils.temporary_files import local_copy, temporary_file, temporary_folder, temporary_path, used_alone
from albert_tf.utils.writing import write_text

ROOT = str(pathlib.Path(__file__).parents[2])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_of_a_killed_process_are_removed_by_the_next_output_of_the_folder(tmp_path):
    program = f"""
import os, sys
sys.path.insert(0, {ROOT!r})
from albert_tf.utils.temporary_files import temporary_file, temporary_folder
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


def test_a_folder_has_one_use_of_a_kind_at_a_time(tmp_path):
    folder = tmp_path / "run"
    with used_alone(str(folder), "training"):
        before = names(folder)
        with pytest.raises(ValueError, match=rf"run is in use by another training \(process {os.getpid()}\): wait "
                                             "until it has ended, or choose another --output_dir"):
            with used_alone(str(folder), "training"):
                pass
        assert names(folder) == before
        with used_alone(str(folder), "search"), used_alone(str(tmp_path), "training"):
            write_text(str(folder / "other"), "whole")
    assert names(folder) == ["other"]
    with used_alone(str(folder), "training"):
        pass


def test_a_killed_process_does_not_keep_a_folder_in_use(tmp_path):
    program = f"""
import os, sys
sys.path.insert(0, {ROOT!r})
from albert_tf.utils.temporary_files import used_alone
with used_alone({str(tmp_path)!r}, "training"):
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=100).returncode == -9
    assert [name[:10] for name in names(tmp_path)] == [".training."]
    with used_alone(str(tmp_path), "training"):
        assert len(names(tmp_path)) == 1
    assert names(tmp_path) == []


def no_locks(file, operation):
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.mark.parametrize("name, value, files_of_a_use", [("fcntl.flock", no_locks, 1), ("fcntl", None, 0)])
def test_no_use_is_refused_on_file_systems_without_locks(name, value, files_of_a_use, tmp_path, monkeypatch):
    monkeypatch.setattr(f"albert_tf.utils.temporary_files.{name}", value)
    killed = pathlib.Path(temporary_path(str(tmp_path / "training")))  # of a process that may still run, without locks
    killed.touch()
    with used_alone(str(tmp_path), "training"):
        assert len(names(tmp_path)) == 1 + files_of_a_use
        with used_alone(str(tmp_path), "training"):
            assert len(names(tmp_path)) == 1 + 2 * files_of_a_use
    assert names(tmp_path) == [killed.name]


def test_no_use_of_a_remote_folder_is_refused_and_nothing_is_written_there():
    with used_alone("ram://uses", "training"), used_alone("ram://uses", "training"):
        assert not tf.io.gfile.exists("ram://uses")


def test_errors_in_the_block_of_a_use_stay_as_they_are_and_one_of_the_folder_names_it(tmp_path, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError) as raised, used_alone(str(tmp_path), "training"):
        raise full
    assert raised.value is full and full.filename is None
    monkeypatch.setattr(temporary_files, "_create", permission_denied)
    with pytest.raises(OSError) as error, used_alone(str(tmp_path), "training"):
        pass
    assert _one_line(error.value) == f"{tmp_path}: Permission denied"


def permission_denied(path, is_folder):
    raise PermissionError(errno.EACCES, "Permission denied", path)


def permission_denied_by_tensorflow(path, is_folder):
    raise tf.errors.PermissionDeniedError(None, None, f"{path}; Permission denied")


@pytest.mark.parametrize("create", [permission_denied, permission_denied_by_tensorflow])
@pytest.mark.parametrize("temporary", [temporary_file, temporary_folder])
def test_an_output_in_a_folder_that_cannot_be_written_is_named_without_its_temporary_file(
        tmp_path, monkeypatch, create, temporary):
    monkeypatch.setattr(temporary_files, "_create", create)
    with pytest.raises(OSError, match="Permission denied") as error, temporary(str(tmp_path / "x y.txt")):
        pass
    assert _one_line(error.value) == f"{tmp_path}/x y.txt: Permission denied"


def full_disk(folder):
    raise OSError(errno.ENOSPC, "No space left on device")  # of a file that is open already


def full_disk_of_tensorflow(folder):
    raise tf.errors.ResourceExhaustedError(None, None, f"{folder}/variables/x.data; No space left on device")


@pytest.mark.parametrize("write", [full_disk, full_disk_of_tensorflow])
def test_a_full_disk_is_an_error_that_names_the_output(tmp_path, write):
    with pytest.raises(OSError) as error, temporary_folder(str(tmp_path / "model")) as folder:
        write(folder)
    assert _one_line(error.value) == f"{tmp_path}/model: No space left on device"
    with pytest.raises(OSError) as error, temporary_folder(str(tmp_path / "work"), output=str(tmp_path)) as folder:
        write(folder)
    assert _one_line(error.value) == f"{tmp_path}: No space left on device"


def test_other_errors_in_the_block_stay_as_they_are(tmp_path):
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "input.txt")
    memory = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
    for error in (missing, memory, OSError("no path"), BrokenPipeError(errno.EPIPE, "Broken pipe")):
        with pytest.raises(type(error)) as raised, temporary_file(str(tmp_path / "x")):
            raise error
        assert raised.value is error and str(tmp_path) not in str(error)


def content(path):
    with tf.io.gfile.GFile(path) as file:
        return file.read()


def test_a_local_file_is_its_own_copy_and_a_remote_one_is_copied_once_for_each_version(tmp_path):
    assert local_copy(str(tmp_path / "x")) == str(tmp_path / "x")
    write_text("ram://copies/x.txt", "first")
    copy = local_copy("ram://copies/x.txt")
    assert content(copy) == "first" and os.path.basename(copy) == "x.txt"
    assert local_copy("ram://copies/x.txt") == copy
    write_text("ram://copies/x.txt", "second")
    assert content(local_copy("ram://copies/x.txt")) == "second" and content(copy) == "first"

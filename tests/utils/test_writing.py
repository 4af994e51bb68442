"""Files, folders and arrays appear whole or not at all."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import stat
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.utils.manifests import read_manifest, written_with_manifest
from albert_tf.utils.temporary_files import locked_directory
from albert_tf.utils.writing import (
    array_writer,
    atomic_folder,
    atomic_local_write,
    atomic_write,
    check_export,
    is_replaced,
    write_array,
    write_text,
)

ROOT = str(pathlib.Path(__file__).parents[2])


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "new/x.txt"
    with atomic_write(str(path)) as temporary:
        with open(temporary, "w") as file:
            file.write("all of it")
        assert not path.exists()
    assert path.read_text() == "all of it"
    assert [file.name for file in path.parent.iterdir()] == ["x.txt"]


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "x.txt"
    write_text(str(path), "before")
    with pytest.raises(KeyboardInterrupt), atomic_write(str(path)) as temporary:
        with open(temporary, "w") as file:
            file.write("half of")
        raise KeyboardInterrupt
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["x.txt"]


def test_processes_of_the_same_pid_write_to_different_temporary_files(tmp_path):
    path = str(tmp_path / "x.txt")
    with atomic_write(path) as first, atomic_write(path) as second:
        for temporary, text in ((first, "first"), (second, "second")):
            with open(temporary, "w") as file:
                file.write(text)
        assert first != second and re.fullmatch(rf"\.x\.txt\.{os.getpid()}-\w+\.tmp", os.path.basename(first))
    assert (tmp_path / "x.txt").read_text() == "first"  # the outer block ends last


def export(path, content):
    with atomic_folder(str(path)) as temporary:
        with open(os.path.join(temporary, "saved_model.pb"), "w") as file:
            file.write(content)


def test_a_folder_is_replaced_by_a_later_export(tmp_path):
    export(tmp_path / "model", "first")
    export(tmp_path / "model", "second")
    assert (tmp_path / "model/saved_model.pb").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_export_that_fails_at_the_end_keeps_the_earlier_one(tmp_path, monkeypatch):
    export(tmp_path / "model", "first")
    rename = os.rename

    def interrupted(source, target):
        if target == str(tmp_path / "model") and source.endswith(".tmp"):
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export(tmp_path / "model", "second")
    assert (tmp_path / "model/saved_model.pb").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_exports_to_one_path_at_the_same_time_replace_each_other(tmp_path):
    contents = [str(number) for number in range(40)]
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda content: export(tmp_path / "model", content), contents))
    assert (tmp_path / "model/saved_model.pb").read_text() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_export_that_ends_during_another_one_is_replaced_by_it(tmp_path):
    path = str(tmp_path / "model")
    with atomic_folder(path) as first, atomic_folder(path) as second:
        for folder, content in ((first, "first"), (second, "second")):
            write_text(os.path.join(folder, "saved_model.pb"), content)
    assert (tmp_path / "model/saved_model.pb").read_text() == "first"  # the outer block ends last


def test_a_check_waits_while_an_export_replaces_the_folder(tmp_path):
    path = tmp_path / "model"
    export(path, "first")
    mark = next(path.glob(".*"))
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        with locked_directory(str(tmp_path)):  # in this block another export is at work: its folder is not whole
            mark.rename(tmp_path / "mark")
            check = thread.submit(check_export, str(path))
            with pytest.raises(concurrent.futures.TimeoutError):
                check.result(timeout=0.2)
            (tmp_path / "mark").rename(mark)
        check.result()


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    targets = tmp_path / "targets"
    targets.mkdir()
    for name in ("file", "folder", "records"):
        (tmp_path / name).symlink_to(targets / name)
    for content in ("first", "second"):  # the targets do not exist at first
        write_text(str(tmp_path / "file"), content)
        export(f"{tmp_path}/folder/", content)
        with written_with_manifest(str(tmp_path / "records"), {}) as (temporary, _):
            write_text(temporary, content)
        assert (targets / "file").read_text() == (targets / "records").read_text() == content
        assert (targets / "folder/saved_model.pb").read_text() == content
        assert read_manifest(str(tmp_path / "records"))["size"] == len(content)
    assert all((tmp_path / name).is_symlink() for name in ("file", "folder", "records"))
    assert sorted(path.name for path in targets.iterdir()) == ["file", "folder", "records"]


@contextlib.contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def test_files_and_folders_have_the_permissions_that_the_umask_leaves(tmp_path):
    module = tf.Module()
    module.w = tf.Variable(1.0)
    with umask(0o002):
        write_text(str(tmp_path / "new/inner/x.txt"), "x")
        with atomic_folder(str(tmp_path / "model")) as temporary:
            tf.saved_model.save(module, temporary)
    modes = {stat.S_IMODE(path.stat().st_mode): path.is_dir() for path in tmp_path.rglob("*")}
    assert modes == {0o775: True, 0o664: False}


def test_a_saved_model_of_another_program_is_not_replaced(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/saved_model.pb").write_text("precious")
    with pytest.raises(ValueError, match="model exists and is not an earlier export: choose another path"):
        export(tmp_path / "model", "new")
    assert (tmp_path / "model/saved_model.pb").read_text() == "precious"


@pytest.mark.parametrize("file", ["model.ckpt-7.index", "assets/mine.txt", "run/eval_results.txt"])
def test_an_export_with_a_file_that_was_added_later_is_not_replaced(tmp_path, file):
    export(tmp_path / "model", "first")
    added = tmp_path / "model" / file
    write_text(str(added), "precious")
    message = f"model is an earlier export, but {re.escape(str(added))} was added to it, which would be lost: choose"
    with pytest.raises(ValueError, match=message):
        check_export(str(tmp_path / "model"))
    with pytest.raises(ValueError, match=message):
        export(tmp_path / "model", "second")
    assert added.read_text() == "precious" and (tmp_path / "model/saved_model.pb").read_text() == "first"
    added.unlink()
    export(tmp_path / "model", "second")


def test_a_file_that_is_added_during_an_export_is_not_lost(tmp_path):
    for place in (str(tmp_path / "model"), "ram://added/model"):
        export(place, "first")
        with pytest.raises(ValueError, match="/mine was added to it"), atomic_folder(place):
            write_text(f"{place}/mine", "precious")
        assert content(f"{place}/mine") == "precious" and content(f"{place}/saved_model.pb") == "first"


def test_a_file_that_belongs_to_the_export_may_be_added_later(tmp_path):
    for _ in range(2):
        with atomic_folder(str(tmp_path / "model"), added=["README.md"]):
            pass
        assert not (tmp_path / "model/README.md").exists()  # the second export replaces the first one's card, too
        write_text(str(tmp_path / "model/README.md"), "card")


@pytest.mark.parametrize("path, export, expected", [
    ("a", "a/", True), ("a/../a/b", "a", True), ("a", "a/b", False), ("a_b", "a", False), ("gs://a/b", "gs://a", True),
    ("gs://a/b", "gs://a/c", False), ("link/b", "a", True)])
def test_an_export_replaces_its_folder_and_what_is_in_it(tmp_path, monkeypatch, path, export, expected):
    monkeypatch.chdir(tmp_path)
    os.symlink("a", "link")
    assert is_replaced(path, export) == expected


def content(path):
    with tf.io.gfile.GFile(path) as file:
        return file.read()


@pytest.mark.parametrize("folder", ["ram://written", "{tmp_path}"])
def test_a_file_written_locally_appears_whole_or_not_at_all(tmp_path, folder):
    path = f"{folder.format(tmp_path=tmp_path)}/x.txt"
    for text in ("first", "second"):
        with atomic_local_write(path) as local:
            assert os.path.isdir(os.path.dirname(local))
            with open(local, "w") as file:
                file.write(text)
    with pytest.raises(OSError):
        with atomic_local_write(path) as local:
            with open(local, "w") as file:
                file.write("third")
            raise OSError("no space left")
    assert content(path) == "second" and not os.path.exists(local)


def test_a_remote_export_replaces_an_earlier_one_and_nothing_else():
    for text in ("first", "second"):
        with atomic_folder("ram://exports/served") as folder:
            write_text(os.path.join(folder, "variables", "x"), text)
            write_text(os.path.join(folder, "saved_model.pb"), text)
            if text == "first":
                write_text(os.path.join(folder, "left"), text)
    assert content("ram://exports/served/saved_model.pb") == content("ram://exports/served/variables/x") == "second"
    assert not tf.io.gfile.exists("ram://exports/served/left") and not os.path.exists(folder)
    write_text("ram://exports/mine/text.txt", "mine")
    with pytest.raises(ValueError, match="ram://exports/mine exists and is not an earlier export"):
        with atomic_folder("ram://exports/mine"):
            pass
    assert content("ram://exports/mine/text.txt") == "mine"


@pytest.mark.parametrize("shape, dtype", [
    ((5, 3), np.float32), ((5,), np.int64), ((5, 2, 2), np.int32), ((0, 3), float)])
def test_rows_come_back_whatever_their_order(tmp_path, shape, dtype):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    with array_writer(str(tmp_path / "x.npy"), shape, dtype) as write:
        for first, last in ((3, 5), (0, 1), (1, 3)):
            write(min(first, len(array)), array[first:last])
    read = np.load(tmp_path / "x.npy")
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, array)
    write_array(str(tmp_path / "x.npy"), array[::-1])
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), array[::-1])


@pytest.mark.parametrize("first, shape", [(4, (2, 3)), (-1, (1, 3)), (0, (1, 4)), (0, (3,))])
def test_values_that_do_not_fit_are_refused_and_leave_nothing(tmp_path, first, shape):
    with pytest.raises(ValueError, match="do not fit at row"):
        with array_writer(str(tmp_path / "x.npy"), (5, 3)) as write:
            write(first, np.zeros(shape))
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_full_disk_is_an_error_that_leaves_nothing(tmp_path):
    program = f"""
import os, sys
sys.path.insert(0, {ROOT!r})
import numpy as np
from albert_tf.utils.writing import array_writer
folder = {str(tmp_path)!r}
try:
    with array_writer(f"{{folder}}/x.npy", (1000, 1000)) as write:
        for row in range(999, -1, -1):
            write(row, np.ones((1, 1000)))
except OSError as error:
    print(error.strerror, os.listdir(folder))
"""
    disk = ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=256k none "{tmp_path}" && exec "$@"', "-"]
    try:
        subprocess.run([*disk, "true"], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    done = subprocess.run([*disk, sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "No space left on device []\n", (done.returncode, done.stderr)

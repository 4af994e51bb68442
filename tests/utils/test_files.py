"""Paths and checks of files: an error names what is not there."""

import errno
import os
import re
import threading

import pytest

from albert_tf.utils.files import (
    check_name,
    errors_naming,
    expand_globs,
    is_inside,
    read_bytes,
    scratch_folder,
    version,
)


def test_globs_are_expanded_in_order_and_each_file_comes_once_and_what_is_not_there_is_named(tmp_path):
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / name).touch()
    found = expand_globs(f"{tmp_path}/c.md, {tmp_path}/*.txt,{tmp_path}/a.txt,")
    assert found == [str(tmp_path / name) for name in ("c.md", "a.txt", "b.txt")]
    for pattern in ("x.txt", "nowhere/*.txt"):
        with pytest.raises(ValueError, match=re.escape(pattern)):
            expand_globs(pattern)


def test_a_device_without_an_end_is_no_input_and_a_pipe_is_one(tmp_path):
    for path in ("/dev/zero", "/dev/urandom"):
        with pytest.raises(ValueError, match=f"^{path} is neither a file nor a pipe"):
            read_bytes(path)
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"text",)).start()
    assert read_bytes(str(tmp_path / "pipe")) == b"text"


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "a/b", "/etc/passwd", "a\\b", "a\0"])
def test_a_name_that_is_a_path_is_refused(name):
    with pytest.raises(ValueError, match="the task must be a plain file name"):
        check_name(name, "the task")
    check_name("sst-2.v1 (mine)", "the task")


def test_a_file_that_is_replaced_within_a_second_has_another_version(tmp_path):
    path, versions = tmp_path / "x", []
    for nanoseconds in (1_000_000_000, 1_000_000_500):
        path.write_text("text")
        os.utime(path, ns=(nanoseconds, nanoseconds))
        versions.append(version(str(path)))
    assert versions == [(4, 1_000_000_000), (4, 1_000_000_500)]


@pytest.mark.parametrize("error, named", [
    (OSError(errno.ENOSPC, "full"), "x"), (OSError(errno.ENOSPC, "full", "y"), "y"), (OSError("a worker ended"), None)])
def test_an_error_of_writing_without_a_name_gets_one(error, named):
    with pytest.raises(OSError) as raised, errors_naming("x"):
        raise error
    assert raised.value.filename == named


def test_a_scratch_folder_that_cannot_be_removed_is_left(tmp_path, monkeypatch):
    def fails(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    with scratch_folder(str(tmp_path)) as gone:
        open(f"{gone}/x", "w").close()
    with scratch_folder(str(tmp_path)) as left:
        open(f"{left}/x", "w").close()
        monkeypatch.setattr(os, "unlink", fails)
        monkeypatch.setattr(os, "rmdir", fails)
    assert list(map(str, tmp_path.iterdir())) == [left]


@pytest.mark.parametrize("path, folder, expected", [
    ("a", "a/", True), ("a/../a/b", "a", True), ("a", "a/b", False), ("a_b", "a", False), ("gs://a/b", "gs://a", True),
    ("gs://a/b", "gs://a/c", False), ("link/b", "a", True)])
def test_a_folder_is_inside_itself_and_so_is_what_is_in_it(tmp_path, monkeypatch, path, folder, expected):
    monkeypatch.chdir(tmp_path)
    os.symlink("a", "link")
    assert is_inside(path, folder) == expected

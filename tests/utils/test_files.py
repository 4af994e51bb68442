"""Paths and checks of files: an error names what is not there."""

import errno
import os
import re

import pytest

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.data.records import check_records
from albert_tf.data.rows import read_parquet, read_rows
from albert_tf.text.lines import read_lines
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.files import (
    check_name,
    errors_naming,
    expand_globs,
    is_inside,
    read_bytes,
    read_json_object,
    scratch_folder,
    version,
)
from albert_tf.utils.outputs import read_array


def test_globs_are_expanded_in_order_and_each_file_comes_once_and_what_is_not_there_is_named(tmp_path):
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / name).touch()
    found = expand_globs(f"{tmp_path}/c.md, {tmp_path}/*.txt,{tmp_path}/a.txt,")
    assert found == [str(tmp_path / name) for name in ("c.md", "a.txt", "b.txt")]
    for pattern in ("x.txt", "nowhere/*.txt"):
        with pytest.raises(ValueError, match=re.escape(pattern)):
            expand_globs(pattern)


@pytest.mark.parametrize("read", [
    read_bytes, read_json_object, read_array, expand_globs, lambda path: list(read_lines(path)),
    lambda path: list(read_rows(f"{path}.tsv", dict(text=0))), lambda path: list(read_parquet(path)),
    AlbertConfig.from_json_file, FullTokenizer, lambda path: FullTokenizer(spm_model_file=path),
    lambda path: check_records([path]), lambda path: albert_tf.from_pretrained(f"{path}.tar.gz")],
    ids=["bytes", "JSON", "array", "globs", "lines", "rows", "Parquet", "config", "vocabulary", "SentencePiece",
         "records", "archive"])
def test_what_can_be_read_only_once_is_refused_by_name(tmp_path, read):
    for ending in ("", ".tsv", ".tar.gz"):
        os.mkfifo(tmp_path / f"pipe{ending}")
    with pytest.raises(ValueError, match="pipe.* is a pipe, which can be read only once"):
        read(str(tmp_path / "pipe"))


def test_a_device_and_a_pipe_that_a_glob_matches_are_no_inputs(tmp_path):
    for path in ("/dev/zero", "/dev/urandom"):
        with pytest.raises(ValueError, match=f"^{path} is a device"):
            read_bytes(path)
    os.mkfifo(tmp_path / "pipe.tsv")
    with pytest.raises(ValueError, match="pipe.tsv is a pipe"):
        expand_globs(f"{tmp_path}/*.tsv")


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

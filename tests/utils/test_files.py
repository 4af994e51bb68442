"""Files appear whole or not at all, and an error names a pattern without matches."""

import concurrent.futures
import contextlib
import errno
import os
import re
import stat

import pytest
import tensorflow as tf

from albert_tf.utils import writing
from albert_tf.utils.files import check_name, expand_globs
from albert_tf.utils.manifests import read_manifest, written_with_manifest
from albert_tf.utils.writing import atomic_folder, atomic_write, write_text


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


def test_globs_are_expanded_in_order_and_each_file_comes_once(tmp_path):
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / name).touch()
    found = expand_globs(f"{tmp_path}/c.md, {tmp_path}/*.txt,{tmp_path}/a.txt,")
    assert found == [str(tmp_path / name) for name in ("c.md", "a.txt", "b.txt")]


def test_processes_of_the_same_pid_write_to_different_temporary_files(tmp_path):
    path = str(tmp_path / "x.txt")
    with atomic_write(path) as first, atomic_write(path) as second:
        for temporary, text in ((first, "first"), (second, "second")):
            with open(temporary, "w") as file:
                file.write(text)
        assert first != second and re.fullmatch(rf"\.x\.txt\.{os.getpid()}-\w+\.tmp", os.path.basename(first))
    assert (tmp_path / "x.txt").read_text() == "first"  # the outer block ends last


@pytest.mark.parametrize("pattern, message", [
    ("x.txt", "no such file: x.txt"), ("nowhere/*.txt", r"no file matches nowhere/\*.txt")])
def test_what_is_not_there_is_named(pattern, message):
    with pytest.raises(ValueError, match=message):
        expand_globs(pattern)


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


def test_an_export_beside_others_that_never_end_names_its_path(tmp_path, monkeypatch):
    def taken(source, target):
        if target.endswith("/model"):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", source)
        raise FileNotFoundError

    monkeypatch.setattr(writing.os, "rename", taken)
    with pytest.raises(ValueError, match=f"other processes write to {tmp_path}/model all the time: choose another"):
        export(tmp_path / "model", "new")


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


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "a/b", "/etc/passwd", "a\\b", "a\0"])
def test_a_name_that_is_a_path_is_refused(name):
    with pytest.raises(ValueError, match="the task must be a plain file name, without a folder. Received: "):
        check_name(name, "the task")
    check_name("sst-2.v1 (mine)", "the task")

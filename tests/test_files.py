"""Files appear whole or not at all, and an error names a pattern without matches."""

import os
import re

import pytest

from albert_tf.files import check_name, expand_globs, folder_written_whole, write_text, written_whole


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "new/x.txt"
    with written_whole(str(path)) as temporary:
        with open(temporary, "w") as file:
            file.write("all of it")
        assert not path.exists()
    assert path.read_text() == "all of it"
    assert [file.name for file in path.parent.iterdir()] == ["x.txt"]


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "x.txt"
    write_text(str(path), "before")
    with pytest.raises(KeyboardInterrupt), written_whole(str(path)) as temporary:
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
    with written_whole(path) as first, written_whole(path) as second:
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
    with folder_written_whole(str(path)) as temporary:
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

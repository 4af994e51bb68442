"""Files appear whole or not at all, and a pattern that matches nothing is named."""

import os
import re

import pytest

from albert_tf.files import expand_globs, write_text, written_whole


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

"""Local copies of remote files, on TensorFlow's ram://."""

import os

import pytest
import tensorflow as tf

from albert_tf.utils.files import version
from albert_tf.utils.temporary_files import local_copy
from albert_tf.utils.writing import atomic_folder, atomic_local_write, write_text


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


def test_a_file_that_is_replaced_within_a_second_has_another_version(tmp_path):
    path, versions = tmp_path / "x", []
    for nanoseconds in (1_000_000_000, 1_000_000_500):
        path.write_text("text")
        os.utime(path, ns=(nanoseconds, nanoseconds))
        versions.append(version(str(path)))
    assert versions == [(4, 1_000_000_000), (4, 1_000_000_500)]


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

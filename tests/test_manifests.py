"""Which files a run may overwrite."""

import json

import pytest

from albert_tf.files import write_text
from albert_tf.manifests import check_output, write_manifest


def test_a_new_path_and_an_empty_file_may_be_written(tmp_path):
    (tmp_path / "empty").touch()
    check_output(str(tmp_path / "new"), str(tmp_path / "empty"))


def test_an_earlier_output_may_be_replaced(tmp_path):
    path, other = str(tmp_path / "x.npy"), str(tmp_path / "y.npy")
    write_text(path, "content"), write_text(other, "content")
    write_manifest(path, dict(seed=1), count=3)
    assert json.loads((tmp_path / "x.npy.manifest.json").read_text()) == dict(count=3, size=7, made_from=dict(seed=1))
    check_output(path, other)


@pytest.mark.parametrize("paths", [["text"], ["new", "text"], ["folder"]])
def test_a_file_of_someone_else_is_refused_by_name(tmp_path, paths):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("precious")
    with pytest.raises(ValueError, match=f"^{tmp_path}/{paths[-1]} (exists, and no .*: choose another|is a directory)"):
        check_output(*(str(tmp_path / path) for path in paths))


@pytest.mark.parametrize("content", ["precious", "[]", '{"size": 3}', "\ufffd"])
def test_a_manifest_replaces_only_a_manifest(tmp_path, content):
    (tmp_path / "x.manifest.json").write_text(content)
    with pytest.raises(ValueError, match="x.manifest.json exists, and no"):
        check_output(str(tmp_path / "x.tfrecord"))

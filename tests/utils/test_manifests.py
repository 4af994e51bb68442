"""Which files a run may overwrite."""

import json

import pytest

from albert_tf.utils import manifests
from albert_tf.utils.manifests import check_output, move_with_manifest, write_manifest
from albert_tf.utils.writing import write_text


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


@pytest.fixture
def move(tmp_path):
    """move(content, *names) makes x.npy with companions."""

    def move(content, *names):
        sources = {str(tmp_path / f"new_{name}"): str(tmp_path / name) for name in ("x.npy", *names)}
        for source in sources:
            write_text(source, content)
        source, path = next(iter(sources.items()))
        del sources[source]
        move_with_manifest(source, path, dict(seed=1), sources)

    return move


def test_a_new_output_replaces_the_companions_of_the_earlier_one_and_no_other_files(tmp_path, move):
    (tmp_path / "x.other.npy").write_text("precious")
    move("first", "x.a.npy", "x.b.npy")
    assert json.loads((tmp_path / "x.npy.manifest.json").read_text())["companions"] == ["x.a.npy", "x.b.npy"]
    move("second", "x.b.npy")
    assert {path.name: path.read_text() for path in tmp_path.glob("x*.npy")} == {
        "x.npy": "second", "x.b.npy": "second", "x.other.npy": "precious"}
    move("third")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npy", "x.npy.manifest.json", "x.other.npy"]


def test_a_manifest_is_gone_before_its_files_are_replaced(tmp_path, move, monkeypatch):
    move("first", "x.a.npy")
    monkeypatch.setattr(manifests.tf.io.gfile, "rename", None)
    with pytest.raises(TypeError):
        move_with_manifest(str(tmp_path / "new"), str(tmp_path / "x.npy"), {}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]

"""Archives of models are read like the directory in them, and nothing is unpacked outside the target directory."""

import gzip
import io
import os
import pathlib
import shutil
import tarfile
import tempfile
import tracemalloc

import numpy as np
import pytest
from tiny import TINY

import albert_tf
from albert_tf import keras
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.weights import archive
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.tf1 import save_tf1_checkpoint


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """The directory that archives are unpacked to."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def member(name, kind=tarfile.REGTYPE, link="", content=b"x"):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(content) if kind == tarfile.REGTYPE else 0
    return info, content


def packed(path, *members):
    with tarfile.open(path, "w:gz") as file:
        for info, content in members:
            file.addfile(info, io.BytesIO(content))
    return str(path)


def saved_tiny(folder):
    """A released folder, and its model."""
    model = AlbertModel(TINY)
    save_tf1_checkpoint(model, str(folder / "model.ckpt-best"))
    (folder / "albert_config.json").write_text(TINY.to_json_string())
    return model


def tar_of(folder, *more):
    """An uncompressed tar of a folder's files, the largest first, and of other members."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as file:
        for path in sorted(folder.iterdir()):
            file.add(path, f"albert_tiny/{path.name}")
        for info, data in more:
            file.addfile(info, io.BytesIO(data))
    return content.getvalue()


def files_in(folder):
    """The files in a folder but the locks of this process."""
    return sorted(os.path.relpath(os.path.join(root, name), folder) for root, _, names in os.walk(folder)
                  for name in names if not name.endswith(".lock"))


def test_a_released_archive_is_read_without_hidden_files_and_what_a_killed_process_left_is_removed(
        tiny_spm, tmp_path, temporary):
    left = temporary / "albert_tf.0123456789abcdef"
    left.mkdir()
    (left / "model.ckpt-best.index").write_text("part")
    model = saved_tiny(tmp_path / "albert_tiny")
    shutil.copy(tiny_spm, tmp_path / "albert_tiny/30k-clean.model")
    others = [member("._albert_tiny"), member("albert_tiny/._model.ckpt-best.index")]  # a Mac's
    path = tmp_path / "albert.tar.gz"
    path.write_bytes(gzip.compress(tar_of(tmp_path / "albert_tiny", *others)))
    again = albert_tf.from_pretrained(str(path))
    assert all(np.array_equal(a, b) for a, b in zip(model.weights, again.weights))
    vocabulary = open_model(str(path)).vocabulary
    assert os.path.basename(vocabulary.spm_model_file) == "30k-clean.model"
    assert vocabulary.tokenizer().vocab["[CLS]"] == 2
    (folder,) = temporary.glob("albert_tf.*")
    assert folder != left and folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(ValueError, match="no checkpoint at "):
        albert_tf.from_pretrained(packed(tmp_path / "empty.tar.gz", member("model/readme")))


@pytest.mark.parametrize("bad", [
    member("../outside"), member("model/../../outside"),
    member("link", tarfile.SYMTYPE, "/etc/passwd"), member("link", tarfile.SYMTYPE, "model.ckpt"),
    member("link", tarfile.LNKTYPE, "../outside"), member("pipe", tarfile.FIFOTYPE)], ids=lambda bad: str(bad[0].name))
def test_a_member_that_leads_out_ends_all_and_writes_nothing(tmp_path, temporary, bad):
    path = packed(tmp_path / "bad.tar.gz", member("model/first"), bad)
    before = files_in(tmp_path)
    with pytest.raises(ValueError, match=f"bad.tar.gz .*{bad[0].name}"):
        albert_tf.from_pretrained(path)
    assert files_in(tmp_path) == before


def test_an_absolute_path_is_within_the_folder(tmp_path):
    path = packed(tmp_path / "model.tar.gz", member(f"{tmp_path}/outside"))
    assert pathlib.Path(archive.unpacked(path), *tmp_path.parts[2:], "outside").read_bytes() == b"x"
    assert not (tmp_path / "outside").exists()


def test_a_python_without_the_filter_says_how_to_unpack(tmp_path, monkeypatch):
    monkeypatch.delattr(tarfile, "data_filter")
    with pytest.raises(ValueError, match="a.tar.gz cannot be unpacked: Python .* Unpack it by "):
        open_model(packed(tmp_path / "a.tar.gz", member("model/first")))


@pytest.mark.parametrize("compress", [gzip.compress, bytes], ids=["gzip", "plain"])
def test_a_flipped_bit_never_gives_other_weights(tmp_path, compress):
    """A plain tar has no checksum of its content, so TensorFlow's checksum of the weights detects the damage."""
    model = saved_tiny(tmp_path / "albert_tiny")
    data, path = compress(tar_of(tmp_path / "albert_tiny")), tmp_path / "albert.tar.gz"
    refused = 0
    for place in np.linspace(0, len(data) - 1, 20).astype(int):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1:])
        try:
            again = albert_tf.from_pretrained(str(path))
            assert all(np.array_equal(a, b) for a, b in zip(model.weights, again.weights))
        except ValueError as error:
            assert str(path) in str(error) and "/temporary/" not in str(error)
            refused += 1
    assert refused >= 17 or compress is bytes


def test_an_archive_that_was_replaced_is_unpacked_again(tmp_path):
    for seed in (1, 2):
        keras.utils.set_random_seed(seed)
        model = saved_tiny(tmp_path / str(seed) / "albert_tiny")
        (tmp_path / "albert.tar.gz").write_bytes(gzip.compress(tar_of(tmp_path / str(seed) / "albert_tiny")))
        again = albert_tf.from_pretrained(str(tmp_path / "albert.tar.gz"))
        np.testing.assert_array_equal(again.weights[0], model.weights[0])


class Zeros(io.RawIOBase):
    """A file of zeros, which takes no memory."""

    def readable(self):
        return True

    def readinto(self, buffer):
        buffer[:] = bytes(len(buffer))
        return len(buffer)


def large(name, size, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info, io.BufferedReader(Zeros())


def sparse_by_pax():
    info, content = tarfile.TarInfo("sparse"), b"1\n0\n1\n".ljust(512, b"\0") + b"x"
    info.size, info.pax_headers = len(content), {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "config.json",
        "GNU.sparse.realsize": str(10**12)}
    return info, io.BytesIO(content)


@pytest.mark.parametrize("bomb, message", [
    (lambda file: file.addfile(*large("tiny/optimizer.bin", 8 << 20)), "it has more than 1,048,576 bytes"),
    (lambda file: file.addfile(*large("tiny/pipe", 8 << 20, tarfile.FIFOTYPE)), "the member tiny/pipe is neither"),
    (lambda file: file.addfile(*large("././@LongLink", 8 << 20, tarfile.GNUTYPE_LONGNAME)), "it has headers of"),
    (lambda file: file.addfile(*large("pax", 8 << 20, tarfile.XHDTYPE)), "it has headers of more than 65,536 bytes"),
    (lambda file: file.addfile(*sparse_by_pax()), "it has more than 1,048,576 bytes"),
    (lambda file: [file.addfile(tarfile.TarInfo(f"tiny/{i}")) for i in range(200)], "it has headers of more than"),
    (lambda file: file.fileobj.write(bytes(8 << 20)), "it has more than 1,048,576 bytes")],
    ids=["member", "pipe", "long name", "pax", "sparse", "members", "after the end"])
def test_a_small_archive_of_large_content_ends_at_the_limit(tmp_path, temporary, monkeypatch, bomb, message):
    monkeypatch.setattr(archive, "_MAX_BYTES", 1 << 20)
    monkeypatch.setattr(archive, "_MAX_HEADER_BYTES", 1 << 16)
    saved_tiny(tmp_path)
    with tarfile.open(tmp_path / "bomb.tar.gz", "w:gz") as file:
        file.add(tmp_path / "albert_config.json", "tiny/albert_config.json")
        bomb(file)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"bomb.tar.gz cannot be unpacked: {message}"):
            open_model(str(tmp_path / "bomb.tar.gz"))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert not files_in(temporary)


@pytest.mark.parametrize("damage", [
    lambda data: data[:512], lambda data: data[:1024],
    lambda data: data[: data.index(b"albert_tiny/model.ckpt-best.i")],
    lambda data: gzip.compress(data)[:-4], lambda data: gzip.compress(data) + b"more", lambda data: b"BZh9" + data,
    lambda data: gzip.compress(data)[:200], lambda data: b"no archive", lambda data: b""])
def test_a_cut_archive_is_named_in_one_line(tmp_path, damage):
    saved_tiny(tmp_path / "albert_tiny")
    path = tmp_path / "cut.tar.gz"
    path.write_bytes(damage(tar_of(tmp_path / "albert_tiny")))
    with pytest.raises(ValueError, match="^[^ ]*/cut.tar.gz cannot be unpacked: .+") as error:
        albert_tf.from_pretrained(str(path))
    assert "temporary" not in str(error.value) and "\n" not in str(error.value)

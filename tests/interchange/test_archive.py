"""Archives of models: read as the directory in them; nothing leaves the directory that they are unpacked to."""

import io
import os
import tarfile

import numpy as np
import pytest

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.interchange import archive
from albert_tf.interchange.open_source import open_source
from albert_tf.interchange.tf1 import save_tf1_checkpoint
from albert_tf.modeling.albert_model import AlbertModel

TINY = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=6)


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Where archives are unpacked to."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(archive.tempfile, "tempdir", str(tmp_path / "temporary"))
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


def files_in(folder):
    return sorted(os.path.relpath(os.path.join(root, name), folder) for root, _, names in os.walk(folder)
                  for name in names)


@pytest.mark.parametrize("inside", ["albert_tiny", "."])
def test_a_released_archive_is_read_as_its_directory(golden, tmp_path, inside):
    model, folder = AlbertModel(TINY), tmp_path / "albert_tiny"
    save_tf1_checkpoint(model, str(folder / "model.ckpt-best"))
    (folder / "albert_config.json").write_text(TINY.to_json_string())
    (folder / "30k-clean.model").write_bytes((golden / "tiny_spm/tiny.model").read_bytes())
    with tarfile.open(tmp_path / "albert.tar.gz", "w:gz") as file:
        file.add(folder, inside)
    again = albert_tf.from_pretrained(str(tmp_path / "albert.tar.gz"))
    assert all(np.array_equal(a, b) for a, b in zip(model.weights, again.weights))
    vocabulary = open_source(str(tmp_path / "albert.tar.gz")).vocabulary
    assert os.path.basename(vocabulary.spm_model_file) == "30k-clean.model"
    assert vocabulary.tokenizer().vocab["[CLS]"] == 2


@pytest.mark.parametrize("bad", [
    member("../outside"), member("model/../../outside"), member("/tmp/outside"),
    member("link", tarfile.SYMTYPE, "/etc/passwd"), member("link", tarfile.SYMTYPE, "model.ckpt"),
    member("link", tarfile.LNKTYPE, "../outside"), member("pipe", tarfile.FIFOTYPE)], ids=lambda bad: str(bad[0].name))
def test_a_member_that_leads_out_ends_all_and_writes_nothing(tmp_path, temporary, bad):
    path = packed(tmp_path / "bad.tar.gz", member("model/first"), bad)
    before = files_in(tmp_path)
    with pytest.raises(ValueError, match=f"bad.tar.gz has the member {bad[0].name}, which .*nothing was unpacked"):
        albert_tf.from_pretrained(path)
    assert files_in(tmp_path) == before and not os.path.exists("/tmp/outside")


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"no archive", lambda data: b""])
def test_a_damaged_archive_is_one_clear_error(tmp_path, damage):
    path = packed(tmp_path / "cut.tar.gz", member("model/first", content=os.urandom(100_000)))
    data = (tmp_path / "cut.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(damage(data))
    with pytest.raises(ValueError, match="cut.tar.gz cannot be unpacked"):
        albert_tf.from_pretrained(path)


def test_an_archive_larger_than_the_place_for_it_is_not_begun(tmp_path, temporary, monkeypatch):
    path = packed(tmp_path / "large.tar.gz", member("model/first", content=b"x" * 1000))
    place = archive.shutil.disk_usage("/")._replace(free=999)
    monkeypatch.setattr(archive.shutil, "disk_usage", lambda directory: place)
    with pytest.raises(ValueError, match="large.tar.gz holds 0.0 GB.*nothing was unpacked"):
        albert_tf.from_pretrained(path)
    assert not files_in(temporary)


def test_an_archive_without_weights_is_named(tmp_path):
    with pytest.raises(ValueError, match="no checkpoint at "):
        albert_tf.from_pretrained(packed(tmp_path / "empty.tar.gz", member("model/readme")))

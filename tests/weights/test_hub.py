"""TF-Hub modules of both generations, in folders and at URLs."""

import functools
import http.server
import os
import socket
import tarfile
import tempfile
import threading

import numpy as np
import pytest
import tensorflow as tf
from hub_modules import BATCH, TINY, tf1_module, tf2_module
from tiny import values_of

import albert_tf
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.weights import archive
from albert_tf.weights.from_pretrained import load_into
from albert_tf.weights.stored_model import open_model


def test_weights_vocabulary_casing_and_config_are_read_from_a_tf1_module(tmp_path, tiny_spm):
    config = TINY.replace(num_attention_heads=4, num_hidden_layers=5)
    tf1_module(tmp_path / "module", tiny_spm, config, lower=False)
    source = open_model(str(tmp_path / "module"))
    assert source.config == config
    assert source.vocabulary.spm_model_file == str(tmp_path / "module/assets/tiny.model")
    tokenizer = source.vocabulary.tokenizer()
    assert tokenizer.vocab["[CLS]"] == 2 and not tokenizer.do_lower_case
    values = tf1_module(tmp_path / "lower", tiny_spm, lower=True)
    assert open_model(str(tmp_path / "lower")).vocabulary.do_lower_case
    model = albert_tf.from_pretrained(str(tmp_path / "lower"), model="pretrainer")
    assert all(np.array_equal(value, values[name]) for name, value in values_of(model).items())
    config = TINY.replace(num_attention_heads=1)
    (tmp_path / "lower/assets/albert_config.json").write_text(config.to_json_string())
    assert open_model(str(tmp_path / "lower")).config == config
    tf1_module(tmp_path / "graph", tiny_spm, scopes=False)  # does not tell the model's sizes
    with pytest.raises(ValueError, match="no albert_config.json.*--albert_config_file"):
        albert_tf.from_pretrained(str(tmp_path / "graph"))
    assert albert_tf.from_pretrained(str(tmp_path / "graph"), config=TINY).config == TINY
    names, tensors = zip(*((f"module/{name}", value) for name, value in values.items()))  # of fine-tuning
    tf.raw_ops.SaveV2(prefix=str(tmp_path / "model.ckpt-9"), tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=tensors)
    assert not load_into(model, open_model(str(tmp_path / "model.ckpt-9"))).not_restored


def test_a_tf2_module_with_the_releases_names_is_read_by_them(tmp_path):
    encoder = AlbertModel(TINY)
    tf2_module(tmp_path / "module", encoder)
    with pytest.raises(ValueError, match="has no albert_config.json"):
        albert_tf.from_pretrained(str(tmp_path / "module"))
    os.makedirs(tmp_path / "module/assets.extra")
    (tmp_path / "module/assets.extra/albert_config.json").write_text(TINY.to_json_string())
    again = albert_tf.from_pretrained(str(tmp_path / "module"), model="classifier", num_labels=2)
    assert isinstance(again.albert, AlbertModel)
    np.testing.assert_array_equal(again(BATCH)["pooled_output"], encoder(BATCH)["pooled_output"])


def test_a_tf2_module_of_other_names_is_refused_and_does_not_run(tmp_path):
    written = tmp_path / "written"
    tf2_module(tmp_path / "module", writes=str(written))
    with pytest.raises(ValueError, match="module cannot be read: .* Use the module that it was made from"):
        albert_tf.from_pretrained(str(tmp_path / "module"), config=TINY)
    assert not written.exists()


@pytest.fixture
def server(tmp_path, monkeypatch):
    """(the served folder, its URL). Downloads are kept in the test's own folder."""
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "fetched"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "served").mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield tmp_path / "served", f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("inside, cache", [(".", "fetched"), ("albert_base", "tfhub_modules")])
def test_a_model_is_downloaded_once(tmp_path, monkeypatch, tiny_spm, server, inside, cache):
    """Archives of modules have no top directory, the released tar.gz has one."""
    if cache == "tfhub_modules":
        monkeypatch.delenv("TFHUB_CACHE_DIR")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    values = tf1_module(tmp_path / "module", tiny_spm)
    folder, url = server
    with tarfile.open(folder / "albert_base", "w:gz") as archive:
        archive.add(tmp_path / "module", inside)
    model = albert_tf.from_pretrained(f"{url}/albert_base")
    np.testing.assert_array_equal(values_of(model)["bert/pooler/dense/kernel"], values["bert/pooler/dense/kernel"])
    (folder / "albert_base").unlink()
    assert open_model(f"{url}/albert_base").path == f"{url}/albert_base"
    assert len(list((tmp_path / cache).glob("*.tar.gz"))) == 1


def test_a_server_that_does_not_answer_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(archive, "_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/model.tar.gz"
        with pytest.raises(ValueError, match=f"{url} cannot be downloaded: .*timed out"):
            open_model(url)


def test_what_is_wrong_with_a_download_is_said_with_its_url(tmp_path, server):
    folder, url = server
    for name, inside in (("bad", "../../outside"), ("readme", "readme")):
        with tarfile.open(folder / name, "w:gz") as archive:
            archive.add(__file__, inside)
    for name, message in (("nothing", "cannot be downloaded: .*404"), ("readme", ""),
                          ("bad", f"cannot be downloaded: {url}/bad cannot be unpacked: '../../outside' would")):
        with pytest.raises(ValueError, match=f"{url}/{name}.*{message}"):
            albert_tf.from_pretrained(f"{url}/{name}")
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.parametrize("damage", [lambda data: data[:-100], lambda data: data[:-6] + b"\0" + data[-5:]])
def test_a_damaged_archive_is_not_kept(tmp_path, tiny_spm, server, damage):
    values = tf1_module(tmp_path / "module", tiny_spm)
    folder, url = server
    with tarfile.open(folder / "whole.tar.gz", "w:gz") as file:
        file.add(tmp_path / "module", "module")
    (folder / "albert.tar.gz").write_bytes(damage((folder / "whole.tar.gz").read_bytes()))
    archive = f"{url}/albert.tar.gz"
    with pytest.raises(ValueError, match=f"^{archive} cannot be downloaded: {archive} cannot be unpacked"):
        albert_tf.from_pretrained(f"{url}/albert.tar.gz")
    (folder / "whole.tar.gz").rename(folder / "albert.tar.gz")
    model = albert_tf.from_pretrained(f"{url}/albert.tar.gz")
    np.testing.assert_array_equal(values_of(model)["bert/pooler/dense/kernel"], values["bert/pooler/dense/kernel"])
    assert len(list((tmp_path / "fetched").iterdir())) == 1


def test_an_archive_is_requested_from_a_modules_page_only():
    assert archive._archive_url("https://tfhub.dev/google/albert_base/3") == (
        "https://tfhub.dev/google/albert_base/3?tf-hub-format=compressed")
    assert archive._archive_url("https://host/albert.tar.gz?key=a") == "https://host/albert.tar.gz?key=a"
    assert archive._archive_url("https://host/albert?key=a") == "https://host/albert?key=a&tf-hub-format=compressed"

"""TF-Hub modules and archives by URL, from a server on this machine."""

import functools
import http.server
import socket
import tarfile
import threading

import numpy as np
import pytest
from hub_modules import tf1_module, values_of
from in_process import loaded

import albert_tf
from albert_tf.weights import archive
from albert_tf.weights.stored_model import open_source


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


@pytest.mark.parametrize("inside", [".", "albert_base"])
def test_a_model_is_downloaded_once(tmp_path, golden, server, inside):
    """Archives of modules have no top directory, the released tar.gz has one."""
    values = tf1_module(tmp_path / "module", str(golden / "tiny_spm/tiny.model"))
    folder, url = server
    with tarfile.open(folder / "albert_base", "w:gz") as archive:
        archive.add(tmp_path / "module", inside)
    model = albert_tf.from_pretrained(f"{url}/albert_base")
    np.testing.assert_array_equal(values_of(model)["bert/pooler/dense/kernel"], values["bert/pooler/dense/kernel"])
    (folder / "albert_base").unlink()
    assert open_source(f"{url}/albert_base").path == f"{url}/albert_base"


def test_a_url_that_has_nothing_is_one_clear_error(server):
    with pytest.raises(ValueError, match=f"{server[1]}/nothing cannot be downloaded: .*404"):
        albert_tf.from_pretrained(f"{server[1]}/nothing")


@pytest.mark.parametrize("script, flags", [
    ("export_to_tfhub", dict(albert_directory="{url}", export_path="{folder}/module")),
    ("convert_checkpoint", dict(albert_directory="{url}", to="hugging_face", output_dir="{folder}/hf")),
    ("serve", dict(init_checkpoint="{url}"))])
def test_scripts_name_a_url_that_has_nothing(server, tmp_path, capsys, script, flags):
    url = f"{server[1]}/nothing.tar.gz"
    with loaded(script) as run:
        assert run(**{name: value.format(url=url, folder=tmp_path) for name, value in flags.items()}) == 1
    assert f"error: {url} cannot be downloaded" in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(archive, "_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/model.tar.gz"
        with pytest.raises(ValueError, match=f"{url} cannot be downloaded: .*timed out"):
            open_source(url)


def test_a_fetched_archive_with_a_member_that_leads_out_is_refused(tmp_path, server):
    folder, url = server
    with tarfile.open(folder / "bad", "w:gz") as archive:
        archive.add(__file__, "../../outside")
    with pytest.raises(ValueError, match=f"^{url}/bad cannot be downloaded: {url}/bad has the member ../../outside"):
        albert_tf.from_pretrained(f"{url}/bad")
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.parametrize("damage", [lambda data: data[:-100], lambda data: data[:-6] + b"\0" + data[-5:]])
def test_a_damaged_archive_is_not_kept(tmp_path, golden, server, damage):
    values = tf1_module(tmp_path / "module", str(golden / "tiny_spm/tiny.model"))
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


def test_an_archive_that_was_kept_is_called_by_its_url(tmp_path, server):
    folder, url = server
    with tarfile.open(folder / "readme.tar.gz", "w:gz") as file:
        file.add(__file__, "readme")
    with pytest.raises(ValueError, match=f"^no checkpoint at {url}/readme.tar.gz"):
        albert_tf.from_pretrained(f"{url}/readme.tar.gz")


def test_an_archive_is_requested_from_a_modules_page_only():
    assert archive._archive_url("https://tfhub.dev/google/albert_base/3") == (
        "https://tfhub.dev/google/albert_base/3?tf-hub-format=compressed")
    assert archive._archive_url("https://host/albert.tar.gz?key=a") == "https://host/albert.tar.gz?key=a"
    assert archive._archive_url("https://host/albert?key=a") == "https://host/albert?key=a&tf-hub-format=compressed"

"""TF-Hub modules by URL: fetched through tensorflow_hub, from a server on this machine."""

import functools
import http.server
import tarfile
import threading

import numpy as np
import pytest
from hub_modules import tf1_module, values_of

import albert_tf


@pytest.fixture
def server(tmp_path, monkeypatch):
    """(folder of what it serves, its URL); what tensorflow_hub fetches is kept in this test's own folder."""
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
def test_a_url_goes_through_tensorflow_hub(tmp_path, golden, server, inside):
    """Modules are packed without a directory, the released tar.gz with one."""
    values = tf1_module(tmp_path / "module", str(golden / "tiny_spm/tiny.model"))
    folder, url = server
    with tarfile.open(folder / "albert_base", "w:gz") as archive:
        archive.add(tmp_path / "module", inside)
    model = albert_tf.from_pretrained(f"{url}/albert_base")
    np.testing.assert_array_equal(values_of(model)["bert/pooler/dense/kernel"], values["bert/pooler/dense/kernel"])


def test_a_url_that_has_nothing_is_one_clear_error(server):
    with pytest.raises(ValueError, match=f"{server[1]}/nothing cannot be fetched: .*404"):
        albert_tf.from_pretrained(f"{server[1]}/nothing")


def test_a_fetched_archive_with_a_member_that_leads_out_is_refused(tmp_path, server):
    folder, url = server
    with tarfile.open(folder / "bad", "w:gz") as archive:
        archive.add(__file__, "../../outside")
    with pytest.raises(ValueError, match="bad cannot be fetched"):
        albert_tf.from_pretrained(f"{url}/bad")
    assert not list(tmp_path.rglob("outside"))

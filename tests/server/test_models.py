"""Served checkpoints: their names, labels and metadata, and the command serve."""

import functools
import http.client
import json
import signal
import urllib.request
from unittest import mock

import pytest
import script_process
from in_process import loaded
from new_head import new_head
from tiny import TINY_TEXT

from albert_tf.commands import serve
from albert_tf.export.conversion import save
from albert_tf.server import models
from albert_tf.server.app import ModelServer
from albert_tf.server.models import model_of_source, names_of
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.vocabulary import VocabularyFiles

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def served(sentence_pieces, tmp_path_factory):
    """A function from the name of a head to the path of a checkpoint."""
    @functools.lru_cache(maxsize=None)
    def make(name):
        path = str(tmp_path_factory.mktemp("served") / name)
        save(new_head(name, TINY_TEXT), path, "tf1", VocabularyFiles.from_tokenizer(sentence_pieces))
        return path

    return make


def test_random_heads_are_warned_of_and_not_served(served, caplog):
    model_of_source("answers", open_model(served("pretrainer")), "span")
    assert f"the variables of the span head start with random values, since {served('pretrainer')}" in caplog.text
    assert not model_of_source("encoder", open_model(served("encoder")), "pretrainer").signatures  # no masked-LM head


@pytest.mark.parametrize("paths, names", [
    (["a/model", "b/model/", "ä b.tar.gz", "/"], ["model", "model-2", "ä_b.tar.gz", "model-3"]),
    (["models/rte/1", "models/rte/2/", "7", "models/v2"], ["rte", "rte-2", "7", "v2"]),  # TensorFlow Serving's layout
    (["a/run", "b/run-2", "c/run"], ["run", "run-2", "run-3"])])
def test_names_are_the_last_parts_of_paths_and_differ(paths, names):
    assert names_of(paths) == names


def test_casing_and_accents_can_be_set_without_a_vocabulary(served, monkeypatch, capsys):
    def report(name, source, *_):
        raise ValueError(f"{name}: {source.vocabulary.do_lower_case}, {source.vocabulary.keep_accents}")

    monkeypatch.setattr(models, "model_of_source", report)
    with loaded("serve") as run:
        assert run(init_checkpoint=served("encoder"), do_lower_case=False, keep_accents=True) == 1
    assert "encoder: False, True" in capsys.readouterr().err


def test_the_script_says_that_it_has_ended_also_if_a_shell_makes_it_ignore_interrupts(served, monkeypatch, caplog):
    def interrupted(server):  # as uvicorn ends then: it raises the signal again, which has no effect
        server.shutdown()

    monkeypatch.setattr(ModelServer, "serve_forever", interrupted)
    monkeypatch.setattr(serve, "signal", mock.Mock())
    with loaded("serve") as run:
        assert run(init_checkpoint=served("encoder"), port=0) == 0
    assert caplog.messages[-1] == "ended"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_answers_under_way_are_sent_before_a_signal_ends_the_script(served, number):
    flags = dict(init_checkpoint=served("sentence_encoder"), port=0, predict_batch_size=1)
    with script_process.start("serve", flags, merged=True) as process:
        url = process.wait_for("Ctrl-C ends").split("open ")[-1].split()[0]
        connections = [http.client.HTTPConnection(url.split("/")[2], timeout=60) for _ in range(4)]
        body = json.dumps(dict(instances=["the name of the file"] * 200))
        for connection in connections:
            connection.request("POST", "/v1/models/sentence_encoder:predict", body)
        with urllib.request.urlopen(url + "v1/models", timeout=60):  # the requests before it have been received
            process.send_signal(number)
        for connection in connections:
            assert len(json.loads(connection.getresponse().read())["predictions"]) == 200
        printed, _ = process.communicate()
        assert process.returncode == 0 and printed.splitlines()[-1].endswith("] ended")

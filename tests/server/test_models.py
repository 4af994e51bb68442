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
from saved_models import served_saved_model
from server_running import post, running
from tiny import TINY_TEXT

from albert_tf.commands import serve
from albert_tf.export.conversion import save
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.server import models
from albert_tf.server.app import ModelServer
from albert_tf.server.models import model_of_source, names_of
from albert_tf.tasks.classification.answers import export_classification
from albert_tf.weights.stored_model import open_source
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


def described(server, path):
    with urllib.request.urlopen(f"{server.url}v1/models/{path}", timeout=60) as response:
        return json.load(response)


def test_the_names_of_all_labels_are_in_the_export_and_in_every_answer(sentence_pieces, tmp_path, capsys):
    """In its assets, for any program, and in the outputs; serve finds them there."""
    names = ("licence", "ä b", "other")
    model = AlbertClassifier(TINY_TEXT, 3, label_names=names)
    export_classification(str(tmp_path / "topics/1"), model, sentence_pieces, 12, has_pairs=False)
    assert (tmp_path / "topics/1/assets/label_names.txt").read_text(encoding="utf-8").splitlines() == list(names)
    served_model = served_saved_model("topics", str(tmp_path / "topics/1"))
    with running([served_model]) as server:
        texts = ["the name", "a file"]
        answers = post(server, "topics:predict", instances=texts)
        assert [answer["label_names"] for answer in answers] == [list(names)] * 2
        assert described(server, "topics")["signatures"]["serving_default"]["labels"] == list(names)
        assert described(server, "topics/metadata")["labels"]["serving_default"] == list(names)
        results = post(server, "topics:classify", examples=[dict(text_a=text) for text in texts])
        assert results == [[list(pair) for pair in zip(names, answer["probabilities"])] for answer in answers]
    with loaded("serve") as run:
        assert run(init_checkpoint=tmp_path / "topics/1") == 1
    assert f"serve: error: {tmp_path}/topics/1 is a SavedModel" in capsys.readouterr().err


def test_the_stored_head_tells_a_regression_from_a_multiple_choice(sentence_pieces, tmp_path):
    path, vocabulary = tmp_path / "score", VocabularyFiles.from_tokenizer(sentence_pieces)
    save(AlbertClassifier(TINY_TEXT, 1), str(path), "tf1", vocabulary)
    assert model_of_source("score", open_source(str(path))).description.startswith("classifier from score: ")
    (path / "albert_tf.json").write_text("{}")
    with pytest.raises(ValueError, match="regression or a multiple-choice model"):
        model_of_source("score", open_source(str(path)))


def test_metadata_has_the_shapes_of_the_graph_and_random_heads_are_warned_of(served, caplog):
    source = open_source(served("pretrainer"))
    with running([model_of_source("pretrainer", source, top_k=3)]) as server:
        signatures = described(server, "pretrainer/metadata")["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) == {"serving_default", "ids", "examples", "sentence_order"}
    shapes = {name: [size["size"] for size in output["tensor_shape"]["dim"]]
              for name, output in signatures["serving_default"]["outputs"].items()}
    assert shapes == dict(pieces=["-1", "-1", "3"], probabilities=["-1", "-1", "3"])
    model_of_source("answers", source, "span")
    assert f"the variables of the span head start with random values, since {served('pretrainer')}" in caplog.text
    assert not model_of_source("encoder", open_source(served("encoder")), "pretrainer").signatures  # no masked-LM head


@pytest.mark.parametrize("paths, names", [
    (["a/model", "b/model/", "c/model", "ä b.tar.gz", "/"], ["model", "model-2", "model-3", "ä_b.tar.gz", "model-4"]),
    (["models/rte/1", "models/rte/2/", "7", "models/v2"], ["rte", "rte-2", "7", "v2"]),  # TensorFlow Serving's layout
    (["a/run", "b/run-3", "c/run", "d/run", "e/run-3"], ["run", "run-3", "run-2", "run-4", "run-3-2"])])
def test_names_are_the_last_parts_of_paths_and_differ(paths, names):
    assert names_of(paths) == names


@pytest.mark.parametrize("casing", [False, True])
def test_casing_and_accents_can_be_set_without_a_vocabulary(served, monkeypatch, capsys, casing):
    def report(name, source, *_):
        raise ValueError(f"{name}: {source.vocabulary.do_lower_case}, {source.vocabulary.keep_accents}")

    monkeypatch.setattr(models, "model_of_source", report)
    with loaded("serve") as run:
        assert run(init_checkpoint=served("encoder"), do_lower_case=casing, keep_accents=not casing) == 1
    assert f"encoder: {casing}, {not casing}" in capsys.readouterr().err


def test_the_script_serves_until_it_is_interrupted(served):
    with script_process.start("serve", dict(init_checkpoint=served("encoder"), port=0), merged=True) as process:
        url = process.wait_for("Ctrl-C ends").split("open ")[-1].split()[0]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url + "v1/models", timeout=60) as response:
            assert json.load(response)["models"][0]["name"] == "encoder"
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 0


def test_the_script_says_that_it_has_ended_also_if_a_shell_makes_it_ignore_interrupts(served, monkeypatch, caplog):
    def interrupted(server):  # as uvicorn ends then: it raises the signal again, which has no effect
        server.shutdown()

    monkeypatch.setattr(ModelServer, "serve_forever", interrupted)
    monkeypatch.setattr(serve, "signal", mock.Mock())
    with loaded("serve") as run:
        assert run(init_checkpoint=served("encoder"), port=0) == 0
    assert caplog.messages[-1] == "ended"


def test_answers_under_way_are_sent_before_a_signal_ends_the_script(served):
    flags = dict(init_checkpoint=served("sentence_encoder"), port=0, predict_batch_size=1)
    with script_process.start("serve", flags, merged=True) as process:
        url = process.wait_for("Ctrl-C ends").split("open ")[-1].split()[0]
        connections = [http.client.HTTPConnection(url.split("/")[2], timeout=60) for _ in range(4)]
        body = json.dumps(dict(instances=["the name of the file"] * 200))
        for connection in connections:
            connection.request("POST", "/v1/models/sentence_encoder:predict", body)
        with urllib.request.urlopen(url + "v1/models", timeout=60):  # the requests before it have been received
            process.send_signal(signal.SIGTERM)
        for connection in connections:
            assert len(json.loads(connection.getresponse().read())["predictions"]) == 200
        printed, _ = process.communicate()
        assert process.returncode == 0 and printed.splitlines()[-1].endswith("] ended")


def test_a_port_that_is_taken_is_named():
    with running([]) as server:
        done = script_process.run("serve", dict(init_checkpoint="no such model", port=server.server_address[1]),
                                  merged=True)  # before it loads
    assert done.returncode == 1
    assert f"error: --host=127.0.0.1 --port={server.server_address[1]} cannot be used: " in done.stdout

"""Served checkpoints and SavedModels: the signatures of each head, and the same predictions as the library's."""

import http.client
import json
import re
import signal
import urllib.request
from unittest import mock

import numpy as np
import pytest
import script_process
import tensorflow as tf
from in_process import loaded
from saved_models import served_saved_model
from server_running import running

from albert_tf import keras
from albert_tf.commands import serve
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.server import models
from albert_tf.server.batching import Batcher
from albert_tf.server.models import model_of_source, names_of
from albert_tf.server.server import ModelServer
from albert_tf.tasks.classification.answers import export_classification
from albert_tf.tasks.masked_lm.fill_mask import fill_masks
from albert_tf.tasks.multiple_choice.data import MultipleChoiceExample, convert_examples_to_features
from albert_tf.tasks.squad.answers import AnswerOptions, QuestionAnswerer
from albert_tf.tasks.squad.features import FeatureOptions
from albert_tf.tasks.tagging.data import Sentence, TaggingFeatureOptions, convert_sentences_to_features
from albert_tf.weights.heads import HEADS, head_named
from albert_tf.weights.settings import VocabularyFiles
from albert_tf.weights.stored_model import open_source

pytestmark = pytest.mark.long

CONTEXT = "The name of the file is known. The number of the line is not."


@pytest.fixture(scope="module")
def config(sentence_pieces):
    return AlbertConfig(vocab_size=sentence_pieces.vocab_size, embedding_size=8, hidden_size=16, num_hidden_layers=2,
                        num_attention_heads=2, intermediate_size=32, max_position_embeddings=48)


@pytest.fixture(scope="module")
def served(config, sentence_pieces, tmp_path_factory):
    """A function from the name of a head to a model, the served model of its checkpoint, and the checkpoint's path."""
    made = {}

    def make(name):
        if name not in made:
            head, = [head for head in HEADS if head.name == name]
            keras.utils.set_random_seed(1)
            labels = dict(num_labels=3) if head.label_weights else {}
            model = head.model(config.replace(initializer_range=0.5), **labels)
            path = str(tmp_path_factory.mktemp("served") / name)
            save(model, path, "tf1", VocabularyFiles.from_tokenizer(sentence_pieces))
            made[name] = model, model_of_source(name, open_source(path), name, top_k=3), path
        return made[name]

    return make


@pytest.fixture
def with_settings(config, sentence_pieces, tmp_path):
    """A function from the name of a head and its arguments to a model, and the served model of its checkpoint."""
    def make(name, **arguments):
        keras.utils.set_random_seed(1)
        model = head_named(name).model(config.replace(initializer_range=0.5), **arguments)
        save(model, str(tmp_path / name), "tf1", VocabularyFiles.from_tokenizer(sentence_pieces))
        return model, model_of_source(name, open_source(str(tmp_path / name)))

    return make


def predict(server, name, **body):
    return post(server, f"{name}:predict", **body)["predictions"]


def post(server, path, **body):
    request = urllib.request.Request(f"{server.url}v1/models/{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def described(server, path):
    with urllib.request.urlopen(f"{server.url}v1/models/{path}", timeout=60) as response:
        return json.load(response)


@pytest.mark.both_stacks
def test_a_pretrained_model_fills_masks_and_knows_the_order(served, sentence_pieces):
    model, served_model, _ = served("pretrainer")
    texts = ["the [MASK] of the [MASK]", "a [MASK] name"]
    with running([served_model]) as server:
        answers = predict(server, "pretrainer", instances=texts)
        order, = predict(server, "pretrainer", signature_name="sentence_order",
                         instances=[dict(text_a="the name", text_b="of the file")])
    for text, answer in zip(texts, answers):
        expected = fill_masks(model, sentence_pieces, text, 3)
        assert answer["pieces"] == [[filling.piece for filling in mask] for mask in expected]
        np.testing.assert_allclose(answer["probabilities"], [[each.probability for each in mask] for mask in expected],
                                   atol=1e-5)
    inputs = sentence_pieces(["the name"], ["of the file"])
    logits = np.asarray(model(dict(inputs, masked_lm_positions=np.zeros([1, 1], np.int32)))["sop_logits"][0])
    np.testing.assert_allclose(order, np.exp(logits) / np.exp(logits).sum(), atol=1e-5)


def test_a_text_without_a_mask_has_no_fillings_alone_or_with_others(served):
    with running([served("pretrainer")[1]]) as server:
        alone, = predict(server, "pretrainer", instances=["the name"])
        together, other = predict(server, "pretrainer", instances=["the name", "the [MASK]"])
    assert alone == together == dict(pieces=[], probabilities=[]) and len(other["pieces"]) == 1


@pytest.mark.both_stacks
def test_a_sentence_encoder_gives_vectors(served, sentence_pieces):
    model, served_model, _ = served("sentence_encoder")
    with running([served_model]) as server:
        answers = predict(server, "sentence_encoder", instances=["the name of the file", "a"])
    for answer, text in zip(answers, ["the name of the file", "a"]):
        np.testing.assert_allclose(answer, model(sentence_pieces([text]))["sentence_embedding"][0], atol=1e-5)


@pytest.mark.both_stacks
def test_a_classifier_takes_one_text_or_two(served, sentence_pieces):
    model, served_model, _ = served("classifier")
    with running([served_model]) as server:
        answers = predict(server, "classifier", instances=[
            dict(text_a="the name"), dict(text_a="the name", text_b="of the file")])
    for answer, inputs in zip(answers, (sentence_pieces(["the name"]), sentence_pieces(["the name"], ["of the file"]))):
        logits = np.asarray(model(inputs)["logits"][0])
        np.testing.assert_allclose(answer["probabilities"], np.exp(logits) / np.exp(logits).sum(), atol=1e-5)
        assert answer["predictions"] == logits.argmax()


def test_a_classifier_with_names_answers_with_the_name_of_the_label(config, sentence_pieces, tmp_path):
    model = AlbertClassifier(config.replace(initializer_range=0.5), 2, label_names=("bad", "good"))
    save(model, str(tmp_path / "films"), "tf1", VocabularyFiles.from_tokenizer(sentence_pieces))
    with running([model_of_source("films", open_source(str(tmp_path / "films")))]) as server:
        answer, = predict(server, "films", instances=[dict(text_a="the name")])
    assert set(answer) == {"probabilities", "predictions", "labels", "label_names"}
    assert answer["labels"] == ("bad", "good")[answer["predictions"]] and answer["label_names"] == ["bad", "good"]


def test_the_names_of_all_labels_are_in_the_export_and_in_every_answer(config, sentence_pieces, tmp_path):
    """In its assets, for any program, and in the outputs; serve finds them there."""
    names = ("licence", "ä b", "other")
    model = AlbertClassifier(config.replace(initializer_range=0.5), 3, label_names=names)
    export_classification(str(tmp_path / "topics" / "1"), model, sentence_pieces, 12, has_pairs=False)
    assert (tmp_path / "topics/1/assets/label_names.txt").read_text(encoding="utf-8").splitlines() == list(names)
    served_model = served_saved_model("topics", str(tmp_path / "topics/1"))
    with running([served_model]) as server:
        texts = ["the name", "a file"]
        answers = predict(server, "topics", instances=texts)
        assert [answer["label_names"] for answer in answers] == [list(names)] * 2
        assert described(server, "topics")["signatures"]["serving_default"]["labels"] == list(names)
        assert described(server, "topics/metadata")["labels"]["serving_default"] == list(names)
        results = post(server, "topics:classify", examples=[dict(text_a=text) for text in texts])["results"]
        assert results == [[list(pair) for pair in zip(names, answer["probabilities"])] for answer in answers]


def test_a_tagger_exports_its_tags(config, sentence_pieces, tmp_path):
    model = head_named("token_classifier").model(config, num_labels=2, label_names=("O", "B-PER"))
    save(model, str(tmp_path / "tagger"), "tf1", VocabularyFiles.from_tokenizer(sentence_pieces))
    served_model = model_of_source("tagger", open_source(str(tmp_path / "tagger")))
    assert served_model.signatures["serving_default"].labels == ("O", "B-PER")


def test_the_stored_head_tells_a_regression_from_a_multiple_choice(config, sentence_pieces, tmp_path):
    path = tmp_path / "score"
    save(head_named("classifier").model(config, num_labels=1), str(path), "tf1",
         VocabularyFiles.from_tokenizer(sentence_pieces))
    assert model_of_source("score", open_source(str(path))).description.startswith("classifier from score: ")
    (path / "albert_tf.json").write_text("{}")
    with pytest.raises(ValueError, match="can be a regression or a multiple-choice model: set the model to classifier"):
        model_of_source("score", open_source(str(path)))


def test_metadata_has_the_shapes_of_the_graph(served):
    with running([served("pretrainer")[1]]) as server:
        signatures = described(server, "pretrainer/metadata")["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) == {"serving_default", "ids", "examples", "sentence_order"}
    shapes = {name: [size["size"] for size in output["tensor_shape"]["dim"]]
              for name, output in signatures["serving_default"]["outputs"].items()}
    assert shapes == dict(pieces=["-1", "-1", "3"], probabilities=["-1", "-1", "3"])


@pytest.mark.both_stacks
def test_words_are_tagged_at_their_offsets(served):
    with running([served("token_classifier")[1]]) as server:
        long, short = predict(server, "token_classifier", instances=["the name of the file", "ß name"])
    assert short["words"] == ["ß", "name"] and [short["start"], short["end"]] == [[0, 2], [1, 6]]
    assert len(long["tags"]) == 5 and set(long["tags"]) <= {"label 0", "label 1", "label 2"}


@pytest.mark.both_stacks
@pytest.mark.parametrize("name", ["span", "conditional_span"])
def test_answers_are_where_their_offsets_say(served, name):
    with running([served(name)[1]]) as server:
        answer, = predict(server, name, instances=[dict(question="which name?", context=f"ß\U0001F6A2 {CONTEXT}")])
    assert f"ß\U0001F6A2 {CONTEXT}"[answer["start"] : answer["end"]] == answer["answer"] != ""
    assert ("no_answer_score" in answer) == (name == "conditional_span")


@pytest.mark.both_stacks
def test_a_multiple_choice_model_chooses(served, sentence_pieces):
    model, served_model, _ = served("multiple_choice")
    options = ["the file", "the line", "of the name", ""]
    with running([served_model]) as server:
        answer, = predict(server, "multiple_choice", instances=[
            dict(context=CONTEXT, question="what is known?", options=options)])
    assert answer["probabilities"][3] == 0 and abs(sum(answer["probabilities"]) - 1) < 1e-5
    example = MultipleChoiceExample("id", CONTEXT, "what is known?", tuple(options[:3]), 0)
    features, = convert_examples_to_features([example], sentence_pieces, 48, 128)
    inputs = {key: np.array([features[key]], np.int32) for key in ("input_ids", "input_mask", "segment_ids")}
    logits = np.asarray(model(inputs)["logits"])[0, :3]
    np.testing.assert_allclose(answer["probabilities"][:3], np.exp(logits) / np.exp(logits).sum(), atol=1e-5)


def test_a_fifth_option_is_answered_by_a_model_that_was_trained_with_five(with_settings, sentence_pieces):
    model, served_model = with_settings("multiple_choice", num_choices=5, max_seq_length=20, max_qa_length=4)
    options = ("the file", "the line", "of the name", "no file", "known")
    with running([served_model]) as server:
        answer, = predict(server, "multiple_choice", instances=[
            dict(context=CONTEXT, question="what is known?", options=options)])
    example = MultipleChoiceExample("id", CONTEXT, "what is known?", options, 0)
    features, = convert_examples_to_features([example], sentence_pieces, 20, 4)
    inputs = {key: np.array([features[key]], np.int32) for key in ("input_ids", "input_mask", "segment_ids")}
    expected = np.asarray(tf.nn.softmax(model(inputs)["logits"]))[0]
    assert expected.shape == (5,)
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)


def test_a_tagger_reads_windows_of_the_length_that_it_was_trained_with(with_settings, sentence_pieces):
    model, served_model = with_settings("token_classifier", num_labels=3, max_seq_length=12, doc_stride=3)
    sentence = Sentence(re.findall(r"\w+|\.", CONTEXT), None, ())
    rows = convert_sentences_to_features([sentence], (), sentence_pieces, TaggingFeatureOptions(12, 3))
    expected = []
    for row in rows:
        inputs = {name: np.array([row[name]], np.int32) for name in ("input_ids", "input_mask", "segment_ids")}
        probabilities = np.asarray(tf.nn.softmax(model(inputs)["logits"]))[0]
        expected += [each.max() for each, piece in zip(probabilities, row["word_pieces"]) if piece]
    with running([served_model]) as server:
        answer, = predict(server, "token_classifier", signature_name="words", instances=[dict(words=sentence.words)])
    np.testing.assert_allclose(answer["scores"], expected, atol=1e-5)


def test_words_have_the_same_tags_whatever_is_asked_at_the_same_time(with_settings):
    _, served_model = with_settings("token_classifier", num_labels=3)
    with running([served_model]) as server:
        alone, = predict(server, "token_classifier", signature_name="words", instances=[dict(words=["name", "", ""])])
        together = predict(server, "token_classifier", signature_name="words", instances=[
            dict(words=["name", "", ""]), dict(words=["of", "the", "file"])])
    assert len(alone["tags"]) == 1 and together[0]["tags"] == alone["tags"] and len(together[1]["tags"]) == 3


def test_a_server_of_answers_reads_windows_of_the_length_that_it_was_trained_with(with_settings, sentence_pieces):
    model, served_model = with_settings("span", max_seq_length=16, doc_stride=3, max_query_length=4)
    answerer = QuestionAnswerer(model, sentence_pieces, FeatureOptions(16, 3, 4, False), AnswerOptions("1.1"))
    expected = answerer.ask("which name?", CONTEXT).n_best[0]
    with running([served_model]) as server:
        answer, = predict(server, "span", instances=[dict(question="which name?", context=CONTEXT)])
    assert answer["answer"] == expected.text
    np.testing.assert_allclose(answer["score"], expected.score, atol=1e-5)


def test_weights_without_a_masked_lm_head_fill_no_masks(config, sentence_pieces, tmp_path):
    save(AlbertModel(config), str(tmp_path / "encoder"), "tf1", VocabularyFiles.from_tokenizer(sentence_pieces))
    served_model = model_of_source("encoder", open_source(str(tmp_path / "encoder")), "pretrainer")
    assert not served_model.signatures


def test_requests_of_several_texts_need_not_fit_a_batch(served, sentence_pieces):
    with running([served("pretrainer")[1]], batcher=lambda: Batcher(batch_size=2)) as server:
        answers = predict(server, "pretrainer", instances=["the [MASK]", "no mask", "[MASK] [MASK] of", "[MASK]"])
    assert [len(answer["pieces"]) for answer in answers] == [1, 0, 2, 1]


@pytest.mark.parametrize("paths, names", [
    (["a/model", "b/model/", "c/model", "ä b.tar.gz", "/"], ["model", "model-2", "model-3", "ä_b.tar.gz", "model-4"]),
    (["models/rte/1", "models/rte/2/", "7", "models/v2"], ["rte", "rte-2", "7", "v2"]),  # TensorFlow Serving's layout
    (["a/run", "b/run-3", "c/run", "d/run", "e/run-3"], ["run", "run-3", "run-2", "run-4", "run-3-2"])])
def test_names_are_the_last_parts_of_paths_and_differ(paths, names):
    assert names_of(paths) == names


def test_casing_and_accents_can_be_set_without_a_vocabulary(config, sentence_pieces, tmp_path, monkeypatch, capsys):
    save(AlbertModel(config), str(tmp_path / "model"), "tf1", VocabularyFiles.from_tokenizer(sentence_pieces))

    def report(name, source, *_):
        raise ValueError(f"{name}: {source.vocabulary.do_lower_case}, {source.vocabulary.keep_accents}")

    monkeypatch.setattr(models, "model_of_source", report)
    for casing in (False, True):
        with loaded("serve") as run:
            assert run(init_checkpoint=tmp_path / "model", do_lower_case=casing, keep_accents=not casing) == 1
        assert f"model: {casing}, {not casing}" in capsys.readouterr().err


def test_an_exported_saved_model_is_no_init_checkpoint(served, sentence_pieces, tmp_path, capsys):
    export_classification(str(tmp_path / "1"), served("classifier")[0], sentence_pieces, 12, has_pairs=False)
    with loaded("serve") as run:
        assert run(init_checkpoint=tmp_path / "1") == 1
    assert f"serve: error: {tmp_path}/1 is a SavedModel, which TensorFlow Serving serves: " in capsys.readouterr().err


def test_the_script_serves_until_it_is_interrupted(served):
    with script_process.start("serve", dict(init_checkpoint=served("encoder")[2], port=0), merged=True) as process:
        printed = process.wait_for("Ctrl-C ends")
        url = printed.split("open ")[-1].split()[0]
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
        assert run(init_checkpoint=served("encoder")[2], port=0) == 0
    assert caplog.messages[-1] == "ended"


def test_answers_under_way_are_sent_before_a_signal_ends_the_script(served):
    flags = dict(init_checkpoint=served("sentence_encoder")[2], port=0, predict_batch_size=1)
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


def test_a_head_with_random_values_is_warned_of(served, caplog):
    _, _, path = served("pretrainer")
    model_of_source("answers", open_source(path), "span", top_k=3)
    assert f"the variables of the span head start with random values, since {path}" in caplog.text

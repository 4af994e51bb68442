"""One table of requests: serve answers, in ONNX Runtime and in Keras, as functions in Python and SavedModels do."""

import functools
import importlib.util
import os

import numpy as np
import pytest
import tensorflow as tf
from new_head import new_head
from saved_models import export, served_saved_model
from server_running import ask, assert_same, post, running
from tiny import TINY_TEXT, rows

from albert_tf import keras
from albert_tf.commands import serve
from albert_tf.export.conversion import save
from albert_tf.export.onnx.session import OnnxModel, from_onnx
from albert_tf.export.onnx.writing import to_onnx, write_companions
from albert_tf.server import models
from albert_tf.server.models import model_of_source, served_model
from albert_tf.tasks.classification.answers import text_logits
from albert_tf.tasks.masked_lm import fill_masks
from albert_tf.tasks.multiple_choice.answers import choose_options
from albert_tf.tasks.sentence_vectors.vectors import text_vectors
from albert_tf.tasks.squad.answers import answer_questions
from albert_tf.tasks.tagging.text_tags import split_words, tag_words
from albert_tf.weights.heads import head_named
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.vocabulary import VocabularyFiles

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.both_stacks, pytest.mark.long]

CONTEXT = "The name of the file is known. The number of the line is not. " * 4
# For each head, requests for texts. Those of a list are one batch.
REQUESTS = dict(
    classifier=[dict(text_a="the name"), dict(text_a="the name of the file", text_b="is known"), dict(text_a="")],
    pretrainer=["the [MASK] of the [MASK]", "a name", "[MASK] of\u00a0the line.[MASK]", "of " * 60 + "[MASK]"],
    span=[dict(question="which name?", context=f"ß\U0001F6A2 {CONTEXT}"), dict(question="", context="the file")],
    multiple_choice=[dict(context=CONTEXT, question="what _ known?", options=["the file", "", "of", "a line", "a"]),
                     dict(context="", question="the", options=["name", "file", "line", "number", "of the name"])],
    token_classifier=["ß name, the_file", "", CONTEXT], sentence_encoder=["the name", CONTEXT])
REQUESTS["conditional_span"] = REQUESTS["span"]
ARGUMENTS = dict(
    pretrainer=dict(), sentence_encoder=dict(max_seq_length=20),
    multiple_choice=dict(max_seq_length=20, max_qa_length=4, num_choices=5),
    token_classifier=dict(label_names=("O", "B-ä b", "I-x"), max_seq_length=12, doc_stride=3),
    span=dict(max_seq_length=24, doc_stride=5, max_query_length=7), conditional_span=dict(max_seq_length=24),
    classifier=dict(label_names=("bad", "good", "other"), max_seq_length=16))
CONFIG = TINY_TEXT.replace(vocab_size=2003, num_hidden_layers=2, max_position_embeddings=48, initializer_range=0.5)


def in_python(model, tokenizer, name, request):
    """What a function of the library answers to a request, by the names of the server's answer."""
    if name == "classifier":
        logits = text_logits(model, tokenizer, [request["text_a"]], [request.get("text_b", "")])
        probabilities = model.settings.probabilities(logits).numpy()[0]
        return dict(probabilities=probabilities.tolist(), predictions=int(probabilities.argmax()),
                    labels=model.settings.label_names[probabilities.argmax()],
                    label_names=[*model.settings.label_names])
    if name == "pretrainer":
        masks = fill_masks(model, tokenizer, request, 3) if "[MASK]" in request else []
        return dict(pieces=[[each.piece for each in mask] for mask in masks],
                    probabilities=[[each.probability for each in mask] for mask in masks])
    if name == "multiple_choice":
        probabilities, = choose_options(model, tokenizer, *([value] for value in request.values()))
        return dict(probabilities=probabilities.tolist(), predictions=int(probabilities.argmax()))
    if name == "token_classifier":
        words = split_words(request)
        probabilities, = tag_words(model, tokenizer, [[word.word for word in words]])
        assert all(request[word.start : word.end] == word.word for word in words)
        return dict(words=[word.word for word in words], start=[word.start for word in words],
                    end=[word.end for word in words], scores=probabilities.max(-1, initial=0).tolist(),
                    tags=[model.settings.label_names[row.argmax()] for row in probabilities])
    if name == "sentence_encoder":
        return text_vectors(model, tokenizer, [request])[0].tolist()
    answer, = answer_questions(model, tokenizer, [request["question"]], [request["context"]])
    assert answer.answer == request["context"][answer.start : answer.end]
    return {key: value for key, value in answer._asdict().items() if value is not None}


@pytest.fixture(scope="module")
def made(sentence_pieces, tmp_path_factory):
    """A function from a head and arguments to its SavedModel, its served ONNX model, the folder, and both models."""
    @functools.lru_cache(maxsize=None)
    def make(name, **arguments):
        keras.utils.set_random_seed(1)
        model = head_named(name).model(CONFIG, **arguments)
        folder = tmp_path_factory.mktemp(name)
        vocabulary = VocabularyFiles.from_tokenizer(sentence_pieces)
        save(model, str(folder / "weights"), "ours", vocabulary)
        (folder / "onnx").mkdir()
        (folder / "onnx/model.onnx").write_bytes(to_onnx(model))
        write_companions(model, str(folder / "onnx"), vocabulary)
        onnx = from_onnx(str(folder / "onnx"))
        export(str(folder / "served"), model, sentence_pieces, top_k=3)
        return (served_saved_model("saved_model", str(folder / "served")),
                served_model("onnx", onnx, onnx.tokenizer, top_k=3), str(folder / "onnx"), (model, onnx))

    return make


def with_arguments(name):
    arguments = dict(ARGUMENTS[name])
    return dict(arguments, num_labels=3) if "label_names" in arguments else arguments


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_head_answers_texts_alike_in_python_a_saved_model_and_either_runtime(made, monkeypatch, caplog, name):
    saved_model, onnx, folder, both = made(name, **with_arguments(name))
    weights = of_weights("weights", folder, name)
    with monkeypatch.context() as patched:
        patched.setattr(importlib.util, "find_spec", lambda package: None)
        in_keras = of_weights("keras", folder, name)
    assert "since onnx and onnxruntime is not installed" in caplog.text
    models = [saved_model, onnx, weights, in_keras]
    with running(models) as app:
        expected, *others = (post(app, f"{model.name}:predict", instances=REQUESTS[name]) for model in models)
        alone = post(app, "onnx:predict", instances=REQUESTS[name][1:2])
    for actual in others:
        assert_same(actual, expected)
    assert_same(alone, expected[1:2])
    for request, answer in zip(REQUESTS[name], expected):
        for model in both if "[MASK]" not in str(request)[50:] else ():  # behind the last position
            found = in_python(model, onnx_tokenizer(both), name, request)
            assert_same({key: answer[key] for key in found} if isinstance(found, dict) else answer, found)
    assert set(onnx.signatures) == {*saved_model.signatures, *(["sentence_order"] if name == "pretrainer" else [])}
    for key, expected_signature in saved_model.signatures.items():
        signature = onnx.signatures[key]
        assert dict(signature.inputs) == dict(expected_signature.inputs), key
        assert (signature.view, signature.labels) == (expected_signature.view, expected_signature.labels), key
        assert {output: spec.dtype for output, spec in signature.outputs.items()} == {
            output: spec.dtype for output, spec in expected_signature.outputs.items()}, key
    for key, signature in onnx.signatures.items():
        for other in (weights, in_keras):
            assert signature.inputs == other.signatures[key].inputs
            assert {name: spec.dtype for name, spec in signature.outputs.items()} == {
                name: spec.dtype for name, spec in other.signatures[key].outputs.items()}


def onnx_tokenizer(both):
    return both[1].tokenizer


def of_weights(name, folder, head):
    return model_of_source(name, open_model(os.path.join(os.path.dirname(folder), "weights")), head, top_k=3)


def test_a_classifier_that_was_trained_on_single_texts_takes_no_second_one(made):
    _, onnx, folder, _ = made("classifier", **with_arguments("classifier"), single_texts=True)
    with running([onnx, of_weights("weights", folder, "classifier")]) as app:
        for name in ("onnx", "weights"):
            assert post(app, f"{name}:predict", instances=["the name"])
            status, answer = ask(app, f"v1/models/{name}:predict", dict(
                instances=[dict(text_a="the name", text_b="is known")]))
            assert status == 400 and "text_b" in answer["error"]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_head_takes_ids_and_serialized_examples(made, name):
    saved_model, onnx, *_ = made(name, **with_arguments(name))
    inputs = onnx.signatures["ids"].inputs
    length = dict(span=24, conditional_span=24, pretrainer=48, sentence_encoder=20, multiple_choice=100, classifier=16,
                  token_classifier=12)[name]
    random = np.random.default_rng(1)
    columns = {key: np.zeros([2, 20 if key == "masked_lm_positions" else length], np.int32) for key in inputs}
    columns["input_ids"] = random.integers(0, CONFIG.vocab_size, [2, length], np.int32)
    columns["input_mask"][:, : length - 2] = 1
    example = [tf.train.Example(features=tf.train.Features(feature={
        key: tf.train.Feature(int64_list=tf.train.Int64List(value=values[row])) for key, values in columns.items()}))
        for row in range(2)]
    serialized = np.array([each.SerializeToString() for each in example], object)
    for key, batch in (("ids", columns), ("examples", dict(examples=serialized))):
        expected, actual = (dict(model.signatures[key].run(batch)) for model in (saved_model, onnx))
        assert set(actual) == set(expected), key
        for output, values in expected.items():
            if values.dtype == np.float32:
                np.testing.assert_allclose(actual[output], values, atol=1e-4)
            else:
                np.testing.assert_array_equal(actual[output], values)


@pytest.mark.parametrize("arguments", [
    dict(num_labels=1), dict(num_labels=2), dict(num_labels=3, max_windows=3, window_pooling="max"),
    dict(num_labels=1, max_windows=4, doc_stride=3), dict(num_labels=1, activation_fn="sigmoid")])
def test_regressions_and_long_texts_are_answered_as_by_the_saved_model(made, arguments):
    saved_model, onnx, *_ = made("classifier", max_seq_length=12, **arguments)
    texts = [dict(text_a="the name"), dict(text_a=CONTEXT), dict(text_a=CONTEXT, text_b="the file")]
    form = "regress" if arguments["num_labels"] == 1 else "classify"
    with running([saved_model, onnx]) as app:
        for path, body in (("predict", dict(instances=texts)), (form, dict(examples=texts))):
            expected, actual = (post(app, f"{model}:{path}", **body) for model in ("saved_model", "onnx"))
            assert_same(actual, expected)


def test_ids_that_the_model_does_not_have_are_an_error_of_the_request(made, monkeypatch):
    _, onnx, folder, _ = made("sentence_encoder")
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    ids = np.array([[10**6]], np.int32)
    for model in (onnx, of_weights("keras", folder, "sentence_encoder")):
        with pytest.raises(ValueError, match="refuses its inputs: "):
            model.signatures["ids"].run(dict(input_ids=ids, input_mask=ids, segment_ids=ids * 0))


def test_the_command_serves_an_onnx_file_beside_other_models(made):
    folder = made("classifier", num_labels=2)[2]
    found = serve.load(serve.Options(onnx_model=(f"{folder}/model.onnx", folder), init_checkpoint=("albert_tiny_en",)))
    assert [model.name for model in found] == ["albert_tiny_en", "model", "onnx"]
    assert found[1].description.startswith("classifier from model: ")


def test_an_encoder_takes_ids_and_a_head_without_signatures_is_refused(monkeypatch):
    model = new_head("encoder", CONFIG)
    served = served_model("encoder", OnnxModel(to_onnx(model)), None)
    assert set(served.signatures) == {"ids", "examples"}
    np.testing.assert_allclose(served.signatures["ids"].run(rows(3))["sequence_output"],
                               model(rows(3))["sequence_output"], atol=1e-4)
    monkeypatch.delitem(models._HEADS, "span")
    with pytest.raises(ValueError, match="the head span cannot be served"):
        served_model("span", new_head("span", CONFIG), None)


@pytest.mark.parametrize("of_row", [["name", "", ""], ["of", "the", "file"]], ids=str)
def test_words_are_answered_alike_alone_and_with_others(made, of_row):
    saved_model, onnx, *_ = made("token_classifier", **with_arguments("token_classifier"))
    with running([saved_model, onnx]) as app:
        for model in ("saved_model", "onnx"):
            together, others = (post(app, f"{model}:predict", instances=instances, signature_name="words")
                                for instances in ([of_row, ["the", "name", ""]], [of_row]))
            assert_same(together[:1], others)
            assert len(others[0]["tags"]) == sum(map(bool, of_row))


def test_the_order_of_two_texts_is_that_of_the_head(made, sentence_pieces):
    _, onnx, _, (model, _) = made("pretrainer")
    with running([onnx]) as app:
        found, = post(app, "onnx:predict", signature_name="sentence_order",
                      instances=[dict(text_a="the name", text_b="of the file")])
    inputs = sentence_pieces(["the name"], ["of the file"])
    assert onnx.signatures["sentence_order"].outputs["probabilities"].shape == (None, 2)
    logits = model(dict(inputs, masked_lm_positions=np.zeros([1, 1], np.int32)))["sop_logits"][0]
    np.testing.assert_allclose(found, tf.nn.softmax(logits), atol=1e-5)

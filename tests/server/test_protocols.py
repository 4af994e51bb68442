"""The endpoints of OpenAI and text-embeddings-inference over HTTP, and what the server tells of itself."""

import base64
import json
import queue

import numpy as np
import pytest
import tensorflow as tf
from peers import run_client
from prometheus_client.parser import text_string_to_metric_families
from server_running import ask, running
from tiny import TINY_TEXT

from albert_tf import keras
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.server.batching import Batcher
from albert_tf.server.models import served_model
from albert_tf.server.protocols import ENDPOINTS
from albert_tf.tasks.classification.answers import text_logits
from albert_tf.tasks.sentence_vectors.vectors import text_vectors
from albert_tf.text.tokenization import FullTokenizer

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

TEXTS = ["The name of the file", "is known.", "the name " * 30]
NAMES = ("bad", "good", "other")


@pytest.fixture(scope="module")
def models(sentence_pieces):
    keras.utils.set_random_seed(1)
    config = TINY_TEXT.replace(max_position_embeddings=48, initializer_range=0.5)
    return dict(classifier=AlbertClassifier(config, num_labels=3, label_names=NAMES),
                encoder=AlbertSentenceEncoder(config, max_seq_length=20),
                prompted=AlbertSentenceEncoder(config, normalize=True, prompts=dict(query="find: ", passage="text: "),
                                               default_prompt_name="query"),
                ranker=AlbertClassifier(config, num_labels=1, activation_fn="identity"),
                tags=AlbertClassifier(config, num_labels=2, multi_label=True))


@pytest.fixture(scope="module")
def server(models, sentence_pieces):
    with running([served(name, model, sentence_pieces) for name, model in models.items()],
                 max_body_bytes=20_000) as server:
        yield server


def served(name, model, tokenizer, **options):
    return served_model(name, OnnxModel(to_onnx(model), model.settings), tokenizer, **options)


def of_length_1(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def vectors(models, sentence_pieces):
    return text_vectors(models["encoder"], sentence_pieces, TEXTS)


def test_embeddings_as_openai_and_text_embeddings_inference_have_them(server, vectors, sentence_pieces):
    status, answer = ask(server, "v1/embeddings", dict(input=TEXTS, model="encoder", user="me"))
    lengths = [min(20, 2 + len(sentence_pieces.encode(text))) for text in TEXTS]
    assert status == 200 and answer["usage"] == dict(prompt_tokens=sum(lengths), total_tokens=sum(lengths))
    assert (answer["object"], answer["model"]) == ("list", "encoder")
    assert [(row["object"], row["index"]) for row in answer["data"]] == [("embedding", i) for i in range(3)]
    np.testing.assert_allclose([row["embedding"] for row in answer["data"]], of_length_1(vectors), atol=1e-5)
    _, answer = ask(server, "v1/embeddings", dict(input=TEXTS[0], dimensions=4, encoding_format="base64"))
    decoded = np.frombuffer(base64.b64decode(answer["data"][0]["embedding"]), "<f4")
    np.testing.assert_allclose(decoded, of_length_1(vectors[0, :4]), atol=1e-5)
    assert len(ask(server, "v1/embeddings", dict(input=["a"] * 2048))[1]["data"]) == 2048
    np.testing.assert_allclose(ask(server, "embed", dict(inputs=TEXTS))[1], of_length_1(vectors), atol=1e-5)
    own = ask(server, "embed?model=encoder", dict(inputs=TEXTS[1], normalize=False, truncate=None, dimensions=3))
    np.testing.assert_allclose(own[1], vectors[1:2, :3], atol=1e-5)


def test_similarity_and_the_root_answer_as_the_model_can(server, vectors):
    inputs = dict(source_sentence=TEXTS[0], sentences=TEXTS[1:])
    expected = of_length_1(vectors)[1:] @ of_length_1(vectors)[0]
    for path in ("similarity", "?model=encoder"):
        status, cosines = ask(server, path, dict(inputs=inputs, parameters={}))
        assert status == 200
        np.testing.assert_allclose(cosines, expected, atol=1e-5)
    for wrong in (dict(inputs=dict(inputs, other="")), dict(inputs=inputs, parameters=dict(top_k=1))):
        assert ask(server, "similarity", wrong)[0] == 422
    for name, path in (("encoder", "embed"), ("ranker", "predict"), ("tags", "predict")):
        assert ask(server, f"?model={name}", dict(inputs=TEXTS[0])) == ask(
            server, f"{path}?model={name}", dict(inputs=TEXTS[0]))


def test_equal_texts_have_one_score_and_keep_their_order(server):
    texts = ["the file", "a name", "the file", "the number " * 9, "a name", "the file"] * 7
    ranks = ask(server, "rerank", dict(query="which file", texts=texts))[1]
    for text in set(texts):
        of_text = [rank for rank in ranks if texts[rank["index"]] == text]
        assert len({rank["score"] for rank in of_text}) == 1
        assert [rank["index"] for rank in of_text] == [i for i, each in enumerate(texts) if each == text]


def test_a_long_query_is_encoded_once_for_all_texts(models, sentence_pieces, monkeypatch):
    encoded = []
    encode = FullTokenizer.encode_batch
    monkeypatch.setattr(FullTokenizer, "encode_batch", lambda self, texts: (
        encoded.extend(texts), encode(self, texts))[1])
    query, ranker = "the name " * 200, models["ranker"]
    with running([served("ranker", ranker, sentence_pieces)]) as server:
        ranks = ask(server, "rerank", dict(query=query, texts=[f"file {i}" for i in range(40)], raw_scores=True))[1]
    assert encoded.count(query) == 1 and len(encoded) == 41
    expected = text_logits(ranker, sentence_pieces, [query], [f"file {ranks[0]['index']}"])
    np.testing.assert_allclose(ranks[0]["score"], expected[0, 0], atol=1e-5)


def test_tokenizing_waits_in_the_models_queue_and_has_a_limit(models, sentence_pieces):
    batchers = []

    class Full(Batcher):
        def submit(self, *_):
            raise queue.Full

    def batcher():
        batchers.append(Full())
        return batchers[0]

    with running([served("encoder", models["encoder"], sentence_pieces)], batcher=batcher) as server:
        assert ask(server, "tokenize", dict(inputs="a"))[0] == 429
        assert [ask(server, path)[0] for path in ("health", "metrics", "v1/models")] == [200] * 3
        status, answer = ask(server, "tokenize", dict(inputs=["a" * 60_000] * 2))
        assert status == 422 and "may have 100,000 characters in all" in answer["error"]


@pytest.mark.parametrize("name", [None, "passage", ""])
def test_vectors_and_pieces_behind_prompts(server, models, sentence_pieces, name):
    expected = text_vectors(models["prompted"], sentence_pieces, TEXTS, prompt_name=name)
    own = ask(server, "embed?model=prompted", dict(inputs=TEXTS, prompt_name=name))[1]
    np.testing.assert_allclose(own, expected, atol=1e-5)
    openai = ask(server, "v1/embeddings", dict(input=TEXTS, prompt_name=name, model="prompted"))[1]
    np.testing.assert_allclose([row["embedding"] for row in openai["data"]], expected, atol=1e-5)
    pieces, = ask(server, "tokenize?model=prompted", dict(inputs="a", prompt_name=name))[1]
    prompt = {None: "find: ", "passage": "text: ", "": ""}[name]
    assert [piece["id"] for piece in pieces[1:-1]] == sentence_pieces.encode(prompt + "a")


def test_the_default_prompt_is_the_models_or_the_servers(server, models, sentence_pieces):
    model = models["prompted"]
    answer = ask(server, "v1/models/prompted:predict", dict(instances=TEXTS))[1]["predictions"]
    np.testing.assert_allclose(answer, text_vectors(model, sentence_pieces, TEXTS), atol=1e-5)
    with running([served("prompted", model, sentence_pieces, prompt_name="passage")]) as other:
        expected = text_vectors(model, sentence_pieces, TEXTS, prompt_name="passage")
        np.testing.assert_allclose(ask(other, "embed", dict(inputs=TEXTS))[1], expected, atol=1e-5)
        answer = ask(other, "v1/models/prompted:predict", dict(instances=TEXTS))[1]["predictions"]
        np.testing.assert_allclose(answer, expected, atol=1e-5)
    with pytest.raises(ValueError, match="'other'.*query, passage"):
        served("prompted", model, sentence_pieces, prompt_name="other")


def test_rerank(server, models, sentence_pieces):
    logits = text_logits(models["ranker"], sentence_pieces, ["name"] * 3, TEXTS)[:, 0]
    order = np.argsort(-logits).tolist()
    _, ranks = ask(server, "rerank", dict(query="name", texts=TEXTS))
    assert [rank["index"] for rank in ranks] == order and {*ranks[0]} == {"index", "score"}
    np.testing.assert_allclose([rank["score"] for rank in ranks], tf.sigmoid(logits[order]), atol=1e-5)
    _, ranks = ask(server, "rerank", dict(query="name", texts=TEXTS, raw_scores=True, return_text=True))
    assert [rank["text"] for rank in ranks] == [TEXTS[index] for index in order]
    np.testing.assert_allclose([rank["score"] for rank in ranks], logits[order], atol=1e-5)


def test_predict(server, models, sentence_pieces):
    def expected(name, of, *texts):
        scores = np.asarray(of(text_logits(models[name], sentence_pieces, *([text] for text in texts))))[0]
        names = NAMES if name == "classifier" else [f"LABEL_{i}" for i in range(len(scores))]
        return sorted(zip(scores.tolist(), names), reverse=True)

    def check(answer, pairs):
        assert [row["label"] for row in answer] == [label for _, label in pairs]
        np.testing.assert_allclose([row["score"] for row in answer], [score for score, _ in pairs], atol=1e-5)

    softmax = tf.nn.softmax
    check(ask(server, "predict", dict(inputs=TEXTS[0]))[1], expected("classifier", softmax, TEXTS[0]))
    check(ask(server, "predict", dict(inputs=TEXTS[:2]))[1], expected("classifier", softmax, *TEXTS[:2]))
    batch = ask(server, "predict", dict(inputs=[[TEXTS[0]], TEXTS[:2]], raw_scores=True))[1]
    check(batch[0], expected("classifier", tf.identity, TEXTS[0]))
    check(batch[1], expected("classifier", tf.identity, *TEXTS[:2]))
    check(ask(server, "predict?model=tags", dict(inputs="a"))[1], expected("tags", tf.sigmoid, "a"))
    check(ask(server, "predict?model=ranker", dict(inputs=["a", "b"]))[1], expected("ranker", tf.sigmoid, "a", "b"))


def test_tokenize(server, sentence_pieces):
    text = "The  name\u00a0of, ß"
    _, answer = ask(server, "tokenize", dict(inputs=text))
    (first, *tokens, last), = answer
    assert first == dict(id=sentence_pieces.cls_id, text="[CLS]", special=True, start=None, stop=None)
    assert last["text"] == "[SEP]" and [token["id"] for token in tokens] == sentence_pieces.encode(text)
    assert all(token["text"] == text[token["start"]:token["stop"]] and not token["special"] for token in tokens)
    assert ask(server, "tokenize", dict(inputs=[text, "a"], add_special_tokens=False))[1][0] == tokens


@pytest.mark.parametrize("path, body, status, message", [
    ("v1/embeddings", dict(input=[[1, 2]]), 400, "token ids"),
    ("v1/embeddings", dict(input=[]), 400, '"input"'),
    ("v1/embeddings", dict(input="a", model="gpt"), 404, "'gpt'; the models are classifier,"),
    ("v1/embeddings", dict(input="a", model="ranker"), 400, "kind embedding. Received: ranker (reranker)"),
    ("v1/embeddings", dict(input="a", dimensions=17), 400, "16 dimensions"),
    ("v1/embeddings", dict(input="a", inputs="a"), 400, "input, model"),
    ("v1/embeddings", dict(input=["a"] * 2049), 400, "2,048 rows"),
    ("v1/embeddings", dict(input="a" * 20_001), 413, "20,000 bytes"),
    ("v1/embeddings", "no object", 400, "JSON object"),
    ("embed", dict(inputs="a", truncation_direction="Left"), 422, "Right"),
    ("embed", None, 405, "POST"),
    ("embed?model=prompted", dict(inputs="a", prompt_name="x"), 422, "'x'"),
    ("rerank", dict(query="a", texts="b"), 422, '"texts"'), ("predict", dict(inputs=["a", "b", "c"]), 422, "two texts"),
    ("predict", dict(inputs="a", raw_scores=1), 422, '"raw_scores"'),
    ("tokenize", dict(inputs=["\ud800"]), 422, "surrogate"), ("info?model=x", None, 404, "'x'")])
def test_errors_have_the_form_of_their_protocol(server, path, body, status, message):
    answered, answer = ask(server, path, body)
    if path == "v1/embeddings":
        text = answer["error"]["message"]
        assert answer == dict(error=dict(message=text, type="invalid_request_error", param=None,
                                         code="model_not_found" if status == 404 else None))
    else:
        text = answer["error"]
        assert answer == dict(error=text, error_type="Validation")
    assert answered == status and message in text and "\n" not in text


def test_health_and_info(server):
    assert ask(server, "health") == (200, "")
    _, info = ask(server, "info?model=encoder")
    assert info["model_id"] == "encoder" and info["model_type"] == dict(embedding=dict(pooling="mean"))
    assert info["max_input_length"] == 20 and info["max_client_batch_size"] == 1024
    assert ask(server, "info")[1]["model_type"]["classifier"]["id2label"] == {"0": "bad", "1": "good", "2": "other"}


def test_metrics_count_requests_rows_tokens_and_errors(server, sentence_pieces):
    def values():
        families = text_string_to_metric_families(ask(server, "metrics")[1])
        samples = [sample for family in families for sample in family.samples]
        return {(sample.name, *sample.labels.values()): sample.value for sample in samples}

    before = values()
    ask(server, "embed", dict(inputs=TEXTS[:2]))
    ask(server, "v1/models/encoder:predict", dict(instances=TEXTS[:1]))
    ask(server, "embed", dict(inputs=1))
    ask(server, "x" * 30)
    after = values()

    def added(*key):
        return after[key] - before.get(key, 0)

    assert added("albert_tf_requests_total", "/embed", "200") == 1
    assert added("albert_tf_requests_total", ":predict", "200") == 1
    assert added("albert_tf_requests_total", "/embed", "422") == added("albert_tf_errors_total", "/embed") == 1
    assert added("albert_tf_errors_total", "other") == 1 and after["albert_tf_queue", "encoder"] == 0
    assert added("albert_tf_request_seconds_count", "/embed") == 2
    assert added("albert_tf_batch_rows_sum", "encoder") == 3 and added("albert_tf_batch_rows_count", "encoder") == 2
    assert added("albert_tf_tokens_total", "encoder") == sum(
        2 + len(sentence_pieces.encode(text)) for text in [*TEXTS[:2], TEXTS[0]])


def test_the_description_has_every_endpoint_and_field(server):
    _, description = ask(server, "openapi.json")
    assert description["openapi"] == "3.0.3"
    for path, endpoint in ENDPOINTS.items():
        schema = description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert {*schema["properties"]} == {*endpoint.fields}
    assert schema["required"] == ["inputs"] and schema["properties"]["add_special_tokens"]["default"] is True
    for path, methods in description["paths"].items():
        if "get" in methods:
            assert ask(server, path[1:])[0] == 200


def test_openai_and_huggingface_hub_read_the_answers(server, vectors, sentence_pieces):
    answers = json.loads(run_client("openai", "openai_client.py", server.url, *TEXTS))
    for name in ("default", "float", "sentences"):
        np.testing.assert_allclose(answers[name], of_length_1(vectors), atol=1e-5)
    np.testing.assert_allclose(answers["dimensions"], of_length_1(vectors[0, :4]), atol=1e-5)
    np.testing.assert_allclose(answers["feature_extraction"], vectors[:1], atol=1e-5)
    assert answers["tokens"] == sum(min(20, 2 + len(sentence_pieces.encode(text))) for text in TEXTS)
    assert "encoder" in answers["models"] and answers["model"] == "ranker"
    assert answers["unknown"][:2] == ["NotFoundError", "model_not_found"]
    assert "no model 'other'" in answers["unknown"][2]
    assert answers["unfit"][0] == "BadRequestError" and "a model of the kind embedding" in answers["unfit"][2]

"""The page without a server, in headless Chromium: its answers are those of serve."""

import json
import os

import pytest
from browser import browser
from in_process import loaded
from new_head import head_of_name, new_head
from ordinary_text import sentences
from server_running import assert_same, post, running
from tiny import TINY_TEXT
from web_pages import NODE_MODULES, VOCABULARY, static_site, write_page

import albert_tf
from albert_tf import keras
from albert_tf.export.conversion import save
from albert_tf.export.onnx.session import OnnxModel, from_onnx
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.server import web
from albert_tf.server.models import served_model
from albert_tf.server.web import page_files, scripts
from albert_tf.weights.heads import head_named
from albert_tf.weights.vocabulary import VocabularyFiles

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

CONFIG = TINY_TEXT.replace(vocab_size=8000, embedding_size=16, hidden_size=32, num_hidden_layers=2,
                           initializer_range=0.2)
TEXTS = [*[text for text in sentences(400) if "000" not in text][:40],
         "Schön! 😀 Naïve café – déjà vu…", "我们去北京。", "“Well,” she said — ‘no’.", "x² + y³ = z ½",
         "Привет, мир", "", "  two   spaces ", "ﬁne ＡＢＣ ㎏ e\u0301te\u0301",
         "A long text has more than one window. " * 12]
PAIRS = list(zip(TEXTS, reversed(TEXTS)))
MASKED = ["She opened the [MASK].", "[MASK] of the [MASK], and [MASK]s", "no mask", "“[MASK]!” – 😀 ([MASK])"]


# Arguments of classifiers by the name of a case, and of other heads by theirs.
ARGUMENTS = dict(
    several=dict(num_labels=3, multi_label=True, label_names=("a", "b", "c")),
    labels=dict(num_labels=3, temperature=2.0, label_names=("a", "b", "c"), max_seq_length=32),
    score=dict(num_labels=1), reranker=dict(num_labels=1, activation_fn="sigmoid"), span={},
    multiple_choice=dict(num_choices=3, max_qa_length=8),
    token_classifier=dict(num_labels=3, label_names=("A", "B", "O")),
    sentence_encoder=dict(pooling="mean", normalize=True, prompts=(("query", "find: "),), default_prompt_name="query"))


def new_model(name):
    """A model with random weights, and its labels."""
    keras.utils.set_random_seed(1)
    return head_named(head_of_name(name)).model(CONFIG, **ARGUMENTS[name])


# The signature and the rows by model; the model of masks is albert_tiny_en.
CASES = dict(
    pretrainer=("serving_default", [dict(text=text) for text in MASKED]),
    order=("sentence_order", [dict(text_a=a, text_b=b) for a, b in PAIRS]),
    labels=("serving_default", [dict(text_a=a, text_b=b) for a, b in PAIRS]),
    several=("serving_default", [dict(text_a=text) for text in TEXTS]),
    score=("serving_default", [dict(text_a=text) for text in TEXTS[:5]]),
    reranker=("serving_default", [dict(text_a=a, text_b=b) for a, b in PAIRS[:5]]),
    span=("serving_default", [dict(question=text[:80], context=context) for text, context in PAIRS]),
    multiple_choice=("serving_default", [
        dict(context=a, question=f"{b[:20]} _?" if i % 2 else b[:30], options=["", "a boat", "A kettle, or two"])
        for i, (a, b) in enumerate(PAIRS)]),
    token_classifier=("serving_default", [dict(text=text) for text in TEXTS]),
    sentence_encoder=("serving_default", [dict(text=text) for text in TEXTS]),
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A function from a name in CASES to its folder and the page, which is open in the browser."""
    root, made, node_modules = tmp_path_factory.mktemp("pages"), set(), os.environ.get(NODE_MODULES)
    if not node_modules:
        pytest.skip(f"no JavaScript for the page: {NODE_MODULES} is not set")
    with browser() as page, static_site(root) as url:
        def get(name, model=None, **options):
            if name not in made:
                write_page(root / name, name, model or new_model(name), node_modules, **options)
                made.add(name)
            page.open(f"{url}/{name}/index.html")
            page.wait_for("return document.querySelectorAll('#models button').length === 1")
            return root / name, page

        yield get


def answers(page, folder, signature, rows):
    """The answers to each row by the open page and, in the same outputs, by serve with the same ONNX model."""
    page.script("""
        window.answer = null;
        const request = {signature_name: arguments[0], instances: arguments[1]};
        (async () => {
          const backend = await import("./backend.js");
          const model = (await (await fetch("models.json")).json()).models[0];
          return (await backend.predict(model, request)).predictions;
        })().then((answer) => { window.answer = [answer, ""]; }, (error) => { window.answer = [null, error.stack]; });
        """, signature, rows)
    actual, error = page.wait_for("return window.answer")
    assert not error, error
    model = from_onnx(str(folder))
    with running([served_model("m", model, model.tokenizer)]) as server:
        expected = [post(server, "m:predict", signature_name=signature, instances=[row])[0] for row in rows]
    for ours, theirs in zip(actual, expected, strict=True):
        yield ours, {key: theirs[key] for key in ours} if isinstance(ours, dict) else theirs


def check(page, folder, signature, rows):
    """Checks that the open page answers as serve does."""
    for pair in answers(page, folder, signature, rows):
        assert_same(*pair)


@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_serve(pages, name):
    is_pretrained = name in ("pretrainer", "order")
    model = albert_tf.from_pretrained("albert_tiny_en", model="pretrainer") if is_pretrained else None
    folder, page = pages("pretrainer" if is_pretrained else name, model)
    check(page, folder, *CASES[name])


def test_an_int8_model_fills_masks_as_serve_does_and_the_page_shows_it(pages):
    model = albert_tf.from_pretrained("albert_tiny_en", model="pretrainer")
    folder, page = pages("int8", model, precision="int8")
    for pair in answers(page, folder, *CASES["pretrainer"]):
        for masks in zip(*(zip(each["pieces"], each["probabilities"]) for each in pair), strict=True):
            ours, theirs = (dict(zip(*mask)) for mask in masks)
            # Rounding differences of float32 change integers, so that nearly equal pieces change places. 0.02 is less
            # than what int8 differs from float32.
            for piece in ours | theirs:
                assert abs(ours.get(piece, min(ours.values())) - theirs.get(piece, min(theirs.values()))) < 0.02
    page.fill("text", MASKED[0])
    page.click("Fill", "#form button")
    shown = page.wait_for("return document.getElementById('result').innerText")
    best, = albert_tf.fill_masks(from_onnx(str(folder)), VOCABULARY.tokenizer(), MASKED[0], 1)[0]
    assert shown.split("\n")[:2] == ["Most likely at the mask", best.piece.removeprefix("\u2581")]
    assert not page.script("return document.getElementById('programs').checkVisibility()")  # it is about a server
    assert "sends nothing" in page.script("return document.getElementById('description').textContent")


def test_the_page_is_not_allowed_to_connect_to_other_hosts(pages):
    _, page = pages("score")
    hosts = page.script("return performance.getEntriesByType('resource').map((each) => new URL(each.name).origin)")
    assert set(hosts) == {page.script("return location.origin")} and page.errors() == []
    page.script("fetch('http://127.0.0.1:9/').catch((error) => { window.refused = error.message; })")
    page.wait_for("return window.refused")
    assert any("Content Security Policy" in error for error in page.errors())


@pytest.mark.parametrize("lower", [True, False])
def test_words_of_a_wordpiece_vocabulary_have_their_offsets(golden, pages, lower):
    vocabulary = VocabularyFiles(None, str(golden / "wordpiece/vocab.txt"), lower, not lower)
    config = CONFIG.replace(vocab_size=vocabulary.tokenizer().vocab_size, embedding_size=32)
    folder, page = pages(f"bert_{lower}", new_head("span", config), vocabulary=vocabulary)
    check(page, folder, *CASES["span"])


# --- without a browser ------------------------------------------------------------------------------------------------


def test_what_the_page_cannot_do_is_refused():
    for model, message in [
            (albert_tf.AlbertModel(CONFIG), "no form for a model with the head encoder"),
            (head_named("classifier").model(CONFIG, num_labels=2, max_windows=3), "cannot split long texts")]:
        with pytest.raises(ValueError, match=message):
            page_files("model", OnnxModel(to_onnx(model, separator=3), model.settings, VOCABULARY), "model.onnx")


def test_the_page_shows_the_name_of_the_model_and_no_path_of_the_machine(sentence_pieces, tmp_path, monkeypatch):
    model = head_named("classifier").model(TINY_TEXT, num_labels=2)
    save(model, str(tmp_path / "private/films"), "ours", VocabularyFiles.from_tokenizer(sentence_pieces))
    monkeypatch.setattr(web, "scripts", lambda node_modules: {})
    with loaded("export_to_onnx") as run:
        assert run(init_checkpoint=tmp_path / "private/films", layout="web", output_dir=tmp_path / "page") == 0
    shown, = json.loads((tmp_path / "page/models.json").read_text())["models"]
    assert shown["name"] == "films" and shown["description"].startswith("classifier from films: ")
    for path in (tmp_path / "page").rglob("[!.]*"):
        assert path.is_dir() or b"private" not in path.read_bytes(), path


def test_a_head_without_weights_is_not_shown():
    model = albert_tf.from_pretrained("albert_tiny_en", model="pretrainer")
    onnx = OnnxModel(to_onnx(model, separator=3), model.settings, VOCABULARY)
    files = page_files("model", onnx, "model.onnx", has_sentence_order=False)
    content = json.loads(files["models.json"])
    assert [list(model["signatures"]) for model in content["models"]] == [["serving_default"]]
    assert content["settings"]["top_k"] == 5


def test_missing_and_other_versions_of_the_javascript_are_named_with_the_command_that_installs_them(tmp_path):
    install = "npm install --ignore-scripts onnxruntime-web@1.30.0 @huggingface/tokenizers@0.2.0"
    with pytest.raises(ValueError, match=f"package.json does not exist: run `{install}`"):
        scripts(str(tmp_path))
    (tmp_path / "onnxruntime-web").mkdir()
    (tmp_path / "onnxruntime-web/package.json").write_text('{"version": "1.20.0"}')
    with pytest.raises(ValueError, match=f"must have version 1.30.0. Received: 1.20.0. Run `{install}`"):
        scripts(str(tmp_path))

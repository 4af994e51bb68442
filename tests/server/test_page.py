"""The page in headless Chromium, with models that are functions."""

import numpy as np
import pytest
from browser import browser
from server_running import running

from albert_tf.server.signatures import ServedModel, Signature, Spec

CONTEXT = "\U0001F6A2 Ada sold the <b>boat</b> in May."


def texts(*names):
    return {name: Spec("string", (None,), "" if name == "text_b" else None) for name in names}


def array(*rows):
    return np.array(rows)


def encoded(words):
    values = np.empty((1, len(words)), object)
    values[0] = [word.encode() for word in words]
    return values


def fill(columns):
    if b"[MASK]" not in columns["text"][0]:
        raise ValueError("there is no\n[MASK]")
    return dict(pieces=encoded(["\u2581name", "##s"])[:, None], probabilities=array([[0.75, 0.25]]))


MODELS = [
    ServedModel("pretrained", "a pretrainer", dict(
        serving_default=Signature(texts("text"), fill, "fill_masks"),
        sentence_order=Signature(texts("text_a", "text_b"),
                                 lambda columns: dict(probabilities=array([0.875, 0.125])), "sentence_order"))),
    ServedModel("squad", "answers", dict(serving_default=Signature(
        texts("question", "context"), lambda columns: dict(
            answer=encoded(["boat"])[0], start=array(18), end=array(22), score=array(-1.5), no_answer_score=array(0.0)),
        "answer"))),
    ServedModel("films", "a classifier", dict(serving_default=Signature(
        texts("text_a", "text_b"), lambda columns: dict(probabilities=array([0.1, 0.9]), predictions=array(1)),
        "classify", labels=("bad", "good")))),
    ServedModel("exported", "a SavedModel", dict(serving_default=Signature(
        texts("text_a"), lambda columns: dict(probabilities=array([0.1, 0.9]), predictions=array(1),
                                              labels=encoded(["good"])[0]), "classify"))),
    ServedModel("named", "an export with all names", dict(serving_default=Signature(
        texts("text_b", "text_a"), lambda columns: dict(
            probabilities=array([0.1, 0.9]), predictions=array(1), labels=encoded(["good"])[0],
            label_names=encoded(["bad", "good"])), "classify"))),
    ServedModel("race", "choices", dict(serving_default=Signature(
        dict(texts("context", "question"), options=Spec("string", (None, 3))),
        lambda columns: dict(probabilities=array([0.25, 0.75, 0.0]), predictions=array(1)), "choose"))),
    ServedModel("tags", "names", dict(serving_default=Signature(texts("text"), lambda columns: dict(
        words=encoded(["Ada", "<i>"]), tags=encoded(["B-PER", "O"]), start=array([0, 4]), end=array([3, 7])), "tag"))),
    ServedModel("sentences", "vectors", dict(serving_default=Signature(texts("text"), lambda columns: dict(
        sentence_embedding=np.array([[2.0, 0.0], [-0.8, 0.6], [0.6, 0.8]])), "compare"))),
]


@pytest.fixture(scope="module")
def page():
    with browser() as page, running(MODELS) as server:
        page.open(server.url)
        page.wait_for("return document.querySelectorAll('#models button').length === 8")
        yield page


def ask(page, model, button, **fields):
    """The text of the answer, after choosing a model and sending its form."""
    page.click(model)
    for name, value in fields.items():
        page.fill(name, value)
    page.script("document.getElementById('result').replaceChildren()")
    page.click(button, "#form button")
    return page.wait_for("return document.getElementById('result').innerText")


def test_masks_are_filled_with_bars_of_probabilities(page):
    assert ask(page, "pretrained", "Fill", text="the [MASK]").split() == [
        "Most", "likely", "at", "the", "mask", "name", "75.0", "%", "##s", "25.0", "%"]
    assert page.script("return [...document.querySelectorAll('.bar > i')].map((bar) => bar.style.width)") == [
        "75%", "25%"]


def test_an_answer_is_highlighted_in_place(page):
    result = ask(page, "squad", "Ask", question="What did she sell?", context=CONTEXT)
    assert CONTEXT in result and "Score of the answer: -1.50" in result and "50.0 %" in result
    assert page.script("return document.querySelector('mark').textContent") == "boat"
    assert page.script("return document.querySelector('#result b')") is None  # texts are never HTML


@pytest.mark.parametrize("model, button, fields, shown", [
    ("films", "Classify", dict(text_a="fine"), ["bad", "10.0 %", "good", "90.0 %"]),
    ("exported", "Classify", dict(text_a="fine"), ["Label 0", "10.0 %", "good", "90.0 %"]),
    ("named", "Classify", dict(text_a="fine"), ["bad", "10.0 %", "good", "90.0 %"]),
    ("race", "Choose", dict(options="a boat\n\na kettle"), ["a boat", "25.0 %", "a kettle", "75.0 %"]),
    ("tags", "Tag", dict(text="Ada <i>!"), ["AdaB-PER <i>!"])])
def test_classes_choices_and_tags(page, model, button, fields, shown):
    assert ask(page, model, button, **fields).split("\n") == shown
    assert model != "tags" or page.script("return document.querySelector('#result mark').textContent") == "Ada"


def test_the_signatures_of_a_model_are_tabs_and_the_request_for_programs_is_that_of_the_form(page):
    page.click("pretrained")
    titles = page.script("return [...document.querySelectorAll('#views button')].map((tab) => tab.textContent)")
    assert titles == ["Fill masks", "Sentence order"]
    page.click("Sentence order")
    page.click("Compare", "#form button")
    result = page.wait_for("return document.getElementById('result').innerText")
    assert result.split("\n") == ["In order", "87.5 %", "Swapped", "12.5 %"]
    page.click("films")
    page.fill("text_a", "fine")
    request = page.script("return document.getElementById('request').textContent")
    assert "/v1/models/films:predict" in request and '"text_a": "fine"' in request


@pytest.mark.parametrize("model, field, value, button, shown", [
    ("pretrained", "text", "no mask", "Fill", "there is no [MASK]"),
    ("race", "options", "a\nb\nc\nd", "Choose", "The model takes 3 options at most.")])
def test_an_error_is_shown_in_one_line_until_the_next_answer(page, model, field, value, button, shown):
    page.click(model)
    page.fill(field, value)
    page.click(button, "#form button")
    error = page.wait_for("const error = document.getElementById('error'); return !error.hidden && error.innerText")
    assert error == shown
    ask(page, "pretrained", "Fill", text="a [MASK]")
    assert page.script("return document.getElementById('error').hidden")
    page.script("location.reload()")
    page.wait_for("return document.querySelectorAll('#models button').length === 8")
    # A refused request is logged by the browser itself.
    assert [error for error in page.errors() if "status of 400" not in error] == []


def test_texts_are_compared_with_the_first_and_the_most_similar_comes_first(page):
    assert ask(page, "sentences", "Compare", text="a\nb\n \nc").split("\n") == ["c", "0.600", "b", "-0.800"]
    assert page.script("return [...document.querySelectorAll('.bar > i')].map((bar) => bar.style.width)") == [
        "60%", "0%"]


def test_a_classifier_asks_for_one_text_and_for_a_second_if_wanted(page):
    page.click("named")
    assert page.script("""return [...document.querySelectorAll("#form textarea")]
        .filter((field) => field.checkVisibility()).map((field) => field.name)""") == ["text_a"]
    assert '"text_b"' not in page.script("return document.getElementById('request').textContent")
    page.script("document.querySelector('#form details').open = true")
    page.fill("text_b", "second")
    assert '"text_b": "second"' in page.script("return document.getElementById('request').textContent")


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_window(page, width):
    page.show(width, 800, "light")
    ask(page, "squad", "Ask", question="What did she sell?", context="a" * 500)
    page.script("document.getElementById('programs').open = true")
    assert page.script("return document.documentElement.scrollWidth") <= width



"""SQuAD's losses and official scores."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import from_pretrained
from albert_tf.tasks.squad.metrics import (
    best_threshold,
    character_scores,
    evaluate_v1,
    evaluate_v2,
    has_spaces,
    normalize_answer,
)
from albert_tf.tasks.squad.task import ConditionalSpanObjective, SpanObjective

pytestmark = pytest.mark.both_stacks


INPUTS = ("input_ids", "input_mask", "segment_ids", "p_mask", "start_positions", "end_positions", "is_impossible")


@pytest.fixture(params=["squad_v1", "squad_v2"])
def recorded(request, golden):
    """(task, batch, the release's numbers by their names here)."""
    folder = golden / "finetuned_heads" / request.param
    numbers = np.load(folder / "io.npz")
    batch = {name: tf.constant(numbers[f"in/{name}"]) for name in INPUTS}
    path = str(folder / "model.ckpt")
    if request.param == "squad_v1":
        return SpanObjective(from_pretrained(path, model="span")), batch, dict(loss=numbers["out/training_loss"])
    expected = {name: numbers[f"out/{name}"] for name in ("start_loss", "end_loss", "regression_loss")}
    task = ConditionalSpanObjective(from_pretrained(path, model="conditional_span"))
    return task, batch, dict(expected, loss=numbers["out/total_loss"])


def test_losses_are_those_of_the_release(recorded):
    task, batch, expected = recorded
    loss, parts = task.loss(task.model(batch), batch, task.loss_denominators(batch))
    found = dict(parts, loss=loss)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5, err_msg=name)


def test_losses_of_parts_add_up_to_that_of_the_batch(recorded):
    task, batch, expected = recorded
    parts = [{name: values[rows] for name, values in batch.items()} for rows in (slice(0, 2), slice(2, None))]
    losses = [task.loss(task.model(part), part, task.loss_denominators(batch))[0] for part in parts]
    np.testing.assert_allclose(sum(losses), expected["loss"], atol=1e-5)


def test_logits_do_not_depend_on_the_padding(golden, recorded):
    task, batch, _ = recorded
    inputs = {name: batch[name] for name in ("input_ids", "input_mask", "segment_ids", "p_mask")}
    padded = {name: tf.pad(values, [[0, 0], [0, 8]], constant_values=int(name == "p_mask"))
              for name, values in inputs.items()}
    given = {} if isinstance(task, SpanObjective) else dict(start_positions=batch["start_positions"])
    outputs, longer = task.model(dict(inputs, **given)), task.model(dict(padded, **given))
    names = [name for name in outputs if name.startswith(("start_", "end_", "cls_"))]
    is_token = batch["input_mask"].numpy().astype(bool)
    for name in names:
        one, other = outputs[name].numpy(), longer[name].numpy()
        if one.ndim == 2:
            one, other = one[is_token], other[:, : is_token.shape[1]][is_token]
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5, err_msg=name)
    assert len(names) >= 2


def test_a_sequence_shorter_than_the_n_best_gives_all_its_tokens():
    found = SpanObjective(None).predictions(dict(start_logits=tf.zeros([2, 4]), end_logits=tf.zeros([2, 4])), {})
    assert found["start_top_index"].numpy().tolist() == [[0, 1, 2, 3]] * 2


def dataset(**answers):
    """Questions by id, with their answers' texts."""
    qas = [dict(id=qas_id, question="?", answers=[dict(text=text, answer_start=0) for text in texts])
           for qas_id, texts in answers.items()]
    return [dict(title="", paragraphs=[dict(context="", qas=qas)])]


@pytest.mark.parametrize("text, normal", [
    ("The  Cat, an A-team's!", "cat ateams"), ("theory of a  thing", "theory of thing"), ("...", ""), ("Ä ö", "ä ö")])
def test_answers_are_compared_without_case_punctuation_and_articles(text, normal):
    assert normalize_answer(text) == normal


@pytest.mark.parametrize("answers, predictions, exact, f1", [
    (dict(a=["red cat", "the cat"], b=["two green frogs"]), dict(a="cat", b="green frogs"), 50.0, 90.0),
    (dict(a=["cat cat dog"]), dict(a="cat cat cat"), 0.0, 200 / 3),  # a word counts as often as both have it
    (dict(a=["the"]), dict(a=""), 100.0, 0.0)], ids=["best", "words", "nothing"])
def test_v1_takes_the_best_of_several_answers(answers, predictions, exact, f1):
    assert evaluate_v1(dataset(**answers), predictions) == pytest.approx(dict(exact_match=exact, f1=f1))
    if "" in predictions.values():  # unlike v1, v2 takes nothing for right
        assert evaluate_v2(dataset(**answers), predictions)["f1"] == 100.0


@pytest.mark.parametrize("text, prediction, exact, f1", [
    ("小船在五月", "在五月卖", 0, 2 * 3 / 9),  # 在五月
    ("甲乙丙丁", "甲乙x丙丁", 0, 2 * 2 / 9),  # 甲乙: without a gap
    ("《iPhone》手机。", "IPHONE手机", 1, 1), ("11.42亿元", "42亿元", 0, 2 * 2 / 6),
    ("约1,000人", "1,000人", 0, 2 * 2 / 5),
    ("Terry Gates与同事", "Terry Gates 与", 0, 2 * 3 / 8), ("小船", "红旗", 0, 0), ("", "", 1, 1), ("", "小船", 0, 0),
    ("さくらの木", "の木", 0, 2 * 2 / 7)])
def test_characters_are_counted_as_in_cmrc(text, prediction, exact, f1):
    """By hand from the rule of CMRC 2018: its script has the same values, except for "" and Japanese."""
    scores = character_scores(dataset(a=[text] if text else [], b=["红旗"]), dict(a=prediction, b="红旗"))
    assert scores == pytest.approx(dict(exact_match_characters=50.0 * (1 + exact), f1_characters=50.0 * (1 + f1)))


def test_the_best_of_several_answers_counts_by_characters():
    assert character_scores(dataset(a=["红", "小船"]), dict(a="小船"))["f1_characters"] == 100.0
    with pytest.raises(ValueError, match="1 of 1 questions are missing, such as 'a'"):
        character_scores(dataset(a=["红"]), {})


@pytest.mark.parametrize("context, expected", [("小船在五月由艾达卖掉了", False), ("船 is a boat", True), ("", True)])
def test_text_of_scripts_without_spaces_is_recognized(context, expected):
    assert has_spaces([dict(paragraphs=[dict(context=context, qas=[])])]) is expected


def test_v2_has_scores_of_the_questions_with_and_without_an_answer():
    scores = evaluate_v2(dataset(a=["cat"], b=[], c=[]), dict(a="a cat", b="", c="dog"))
    assert scores == dict(exact=pytest.approx(200 / 3), f1=pytest.approx(200 / 3), total=3, HasAns_exact=100.0,
                          HasAns_f1=100.0, HasAns_total=1, NoAns_exact=50.0, NoAns_f1=50.0, NoAns_total=2)


def test_answers_that_are_null_count_as_missing():
    data = dataset(a=[])
    data[0]["paragraphs"][0]["qas"][0]["answers"] = None
    assert evaluate_v2(data, dict(a=""))["NoAns_exact"] == 100.0
    assert evaluate_v1(data, dict(a="x")) == dict(exact_match=0.0, f1=0.0)


def test_the_best_threshold_is_inclusive():
    data, predictions = dataset(a=["cat"], b=[], c=["dog"], d=[]), dict(a="cat", b="x", c="dog", d="y")
    scores = evaluate_v2(data, predictions, dict(a=-3.0, b=1.0, c=0.5, d=2.0))
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (100.0, 0.5)
    above = evaluate_v2(data, predictions, dict(a=-3.0, b=1.0, c=0.5, d=2.0), na_prob_thresh=0.5)
    assert (above["exact"], above["NoAns_exact"]) == (100.0, 100.0)


def test_the_threshold_is_the_official_zero_if_no_question_has_an_answer():
    found = best_threshold(dict(a="x", b="y"), dict(a=0.0, b=0.0), dict(a=1.0, b=2.0), dict(a=False, b=False))
    assert found == (100.0, 0.0)


@pytest.mark.parametrize("evaluate", [evaluate_v1, evaluate_v2])
def test_missing_predictions_and_questions_are_refused(evaluate):
    with pytest.raises(ValueError, match="predictions: 1 of 2 questions are missing, such as 'b'"):
        evaluate(dataset(a=["x"], b=["y"]), dict(a="x"))
    with pytest.raises(ValueError, match="there are no questions"):
        evaluate([], {})


def test_a_missing_null_score_is_refused():
    with pytest.raises(ValueError, match="na_probs: 1 of 1 questions are missing, such as 'a'"):
        evaluate_v2(dataset(a=["x"]), dict(a="x"), {})

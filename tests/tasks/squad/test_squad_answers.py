"""Answers from candidates: the release's predictions, n-best lists, null odds and scores, with ties."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tasks.squad import convert_examples_to_features, read_squad_examples
from albert_tf.tasks.squad.answers import Answer, AnswerOptions, Candidate, answer_question
from albert_tf.tasks.squad.fine_tuning import SpanTask
from albert_tf.tasks.squad.metrics import Results, evaluate_v1, evaluate_v2, raw_scores
from albert_tf.text.tokenization import FullTokenizer

pytestmark = pytest.mark.both_stacks

V1_CASES = ("single", "single_small", "averaged", "averaged_small", "ties")
V2_CASES = ("single", "single_small", "averaged", "ties")
CANDIDATES = ("start_top_log_probs", "start_top_index", "end_top_log_probs", "end_top_index", "cls_logits")


class Recorded:
    """A case of golden/squad: the release's answers from recorded results, and ours."""

    def __init__(self, golden, version, case):
        name, self.file = ("v1", "dev_v1.json") if version == "1.1" else ("v2", "dev.json")
        self.version, self._folder = version, golden / "squad"
        self.expected = json.loads((self._folder / f"post_{name}.json").read_text())[case]
        self._inputs = np.load(self._folder / f"post_{name}_inputs.npz")
        self._tokenizer = FullTokenizer(spm_model_file=str(golden / "tiny_spm/tiny.model"))
        self.dataset = json.loads((self._folder / self.file).read_text())["data"]

    def answers(self):
        """The answers by question, from features without the windows that the release drops."""
        examples = read_squad_examples(str(self._folder / self.file), is_training=False)
        features = list(convert_examples_to_features(
            examples, self._tokenizer, max_seq_length=64, doc_stride=24, max_query_length=16, is_training=False,
            release_compatible=True))
        assert [feature.unique_id for feature in features] == self._inputs["unique_ids"].tolist()
        options = AnswerOptions(self.version, self.expected["n_best_size"], self.expected["max_answer_length"])
        result_sets = [self._candidates(name) for name in self.expected["result_sets"]]
        answers = {}
        for example in examples:
            rows = [row for row, feature in enumerate(features) if feature.qas_id == example.qas_id]
            of_question = [[{name: values[row] for name, values in results.items()} for row in rows]
                           for results in result_sets]
            answers[example.qas_id] = answer_question(example.qas_id, example.paragraph_text,
                                                      [features[row] for row in rows], of_question, options)
        return answers

    def results(self, release_compatible):
        results = Results(self.version, release_compatible)
        for answer in self.answers().values():
            results.add(answer)
        return results

    def _candidates(self, result_set):
        if self.version == "2.0":
            return {name: self._inputs[f"{name}_{result_set}"] for name in CANDIDATES}
        logits = {f"{name}_logits": tf.constant(self._inputs[f"{name}_log_prob_{result_set}"])
                  for name in ("start", "end")}
        return SpanTask(None, self.expected["n_best_size"]).predictions(logits)


def check_n_best(answers, expected):
    assert list(answers) == list(expected)
    for qas_id, answer in answers.items():
        found = answer.to_json()
        assert [entry["text"] for entry in found] == [entry["text"] for entry in expected[qas_id]], qas_id
        for name in ("probability", "start_log_prob", "end_log_prob"):
            np.testing.assert_allclose([entry[name] for entry in found],
                                       [entry[name] for entry in expected[qas_id]], atol=1e-6, err_msg=qas_id)


@pytest.mark.parametrize("case", V1_CASES)
def test_v1_is_the_releases(golden, case):
    recorded = Recorded(golden, "1.1", case)
    check_n_best(recorded.answers(), recorded.expected["nbest"])
    results = recorded.results(release_compatible=True)
    assert results.predictions(None) == recorded.expected["predictions"]
    official = recorded.expected["evaluate_v1"]
    assert evaluate_v1(recorded.dataset, recorded.expected["predictions"]) == pytest.approx(official)
    scores = results.scores(recorded.dataset)
    assert {name: scores[name] for name in official} == pytest.approx(official)


@pytest.mark.parametrize("case", V2_CASES)
def test_v2_is_the_releases(golden, case):
    recorded = Recorded(golden, "2.0", case)
    expected = recorded.expected
    check_n_best(recorded.answers(), expected["no_threshold"]["nbest"])
    results = recorded.results(release_compatible=True)
    assert results.predictions(None) == expected["no_threshold"]["predictions"]
    assert results.null_odds == pytest.approx(expected["no_threshold"]["null_odds"])
    assert recorded.results(False).predictions(0.0) == expected["threshold_0"]["predictions"]
    exact, f1 = raw_scores(recorded.dataset, expected["no_threshold"]["predictions"])
    assert (exact, f1) == (pytest.approx(expected["exact_raw"]), pytest.approx(expected["f1_raw"]))
    predictions = expected["no_threshold"]["predictions"]
    scores = evaluate_v2(recorded.dataset, predictions, results.null_odds)
    assert scores["f1"] == pytest.approx(100 * np.mean(list(expected["f1_raw"].values())))
    # The official script's threshold for probabilities, which the release leaves in place for its logits.
    scores = evaluate_v2(recorded.dataset, predictions, results.null_odds, na_prob_thresh=1.0)
    assert scores == pytest.approx(expected["best_thresholds"])


@pytest.mark.parametrize("case", V2_CASES)
def test_the_best_threshold_as_in_the_release_and_corrected(golden, case):
    recorded = Recorded(golden, "2.0", case)
    expected = recorded.expected["evaluate_v2"]
    scores = recorded.results(release_compatible=True).scores(recorded.dataset)
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    threshold = scores["null_score_diff_threshold"]
    assert recorded.results(True).predictions(threshold) == recorded.expected["evaluate_v2_predictions"]
    right = recorded.results(release_compatible=False).scores(recorded.dataset)
    assert right["f1"] == pytest.approx(right["best_f1"]) and right["f1"] > scores["f1"]
    for both in (scores, right):
        assert (both["f1_below"], both["f1_up_to"]) == (scores["f1"], right["f1"])


def test_scores_use_the_threshold_that_the_user_sets(golden):
    recorded = Recorded(golden, "2.0", "single")
    results = recorded.results(release_compatible=False)
    threshold = sorted(results.null_odds.values())[3]
    scores = results.scores(recorded.dataset, threshold)
    assert scores["null_score_diff_threshold"] == threshold != scores["best_f1_thresh"]
    expected = evaluate_v2(recorded.dataset, results.predictions(threshold))
    assert {name: scores[name] for name in expected} == expected and scores["f1"] < scores["best_f1"]


@pytest.mark.parametrize("release_compatible, exact", [(False, 100.0), (True, 50.0)])
def test_only_the_release_scores_null_scores_above_1_as_not_answered(release_compatible, exact):
    """The best threshold is 2. The release counts "b", whose null score is 1.5, and "c" as not answered."""
    null_scores, answers = dict(a=-3.0, b=1.5, c=2.0, d=4.0), dict(a=["cat"], b=["dog"], c=["owl"], d=[])
    results = Results("2.0", release_compatible)
    for qas_id, null_score in null_scores.items():
        text = answers[qas_id][0] if answers[qas_id] else "frog"
        results.add(Answer(qas_id, [Candidate(text, 0.0, 0.0)], null_score))
    questions = [dict(id=qas_id, answers=[dict(text=text) for text in texts]) for qas_id, texts in answers.items()]
    scores = results.scores([dict(paragraphs=[dict(qas=questions)])])
    assert scores["null_score_diff_threshold"] == 2.0
    assert (scores["exact"], scores["f1"], scores["best_f1"]) == (exact, exact, 100.0)


# --- by hand ---------------------------------------------------------------------------------------------------------

TEXT = "  one two three"
WINDOW = types.SimpleNamespace(  # a SquadFeature
    doc_offset=3, starts=[0, 5, 9], ends=[4, 8, 14], is_max_context=[True, True, True])


def result(starts, ends, **more):
    """The candidates of SQuAD 1.1 for {token: score}."""
    return dict(start_top_index=list(starts), start_top_log_probs=list(starts.values()), end_top_index=list(ends),
                end_top_log_probs=list(ends.values()), **more)


def texts(answer):
    return [candidate.text for candidate in answer.n_best]


def test_spans_that_are_in_the_question_reversed_or_too_long_are_not_answers():
    found = result({1: 9.0, 5: 3.0, 3: 2.0, 4: 1.0}, {2: 9.0, 3: 2.0, 5: 1.0, 6: 9.0})
    answer = answer_question("q", TEXT, [WINDOW], [[found]], AnswerOptions("1.1", max_answer_length=2))
    assert texts(answer) == ["three", "one", "two three"]
    assert TEXT[answer.n_best[1].first : answer.n_best[1].last + 1] == "one"


def test_an_answer_is_taken_from_the_window_with_the_most_context():
    elsewhere = types.SimpleNamespace(**dict(vars(WINDOW), is_max_context=[True, False, True]))
    found = result({4: 9.0, 3: 1.0}, {4: 1.0})
    answer = answer_question("q", TEXT, [elsewhere], [[found]], AnswerOptions("1.1"))
    assert texts(answer) == ["one two"]


def test_result_sets_are_averaged_over_those_that_have_the_span():
    found = [[result({3: 4.0}, {3: 4.0})], [result({3: 2.0, 4: 2.5}, {3: 0.0, 4: 2.5})]]
    answer = answer_question("q", TEXT, [WINDOW], found, AnswerOptions("1.1"))
    assert [(c.text, c.start_log_prob, c.end_log_prob) for c in answer.n_best] == [
        ("one", 3.0, 2.0), ("two", 2.5, 2.5), ("one two", 2.0, 2.5)]


def test_the_null_score_is_the_least_of_a_question_averaged_over_sets():
    def beam(null_score):
        return result({3: 0.0}, {3: 0.0}, cls_logits=null_score)

    found = [[beam(3.0), beam(-1.0)], [beam(2.0), beam(5.0)]]
    answer = answer_question("q", TEXT, [WINDOW, WINDOW], found, AnswerOptions("2.0"))
    assert answer.null_score == 0.5


@pytest.mark.parametrize("version, text, null_score", [("1.1", "empty", None), ("2.0", "", 1e6)])
def test_a_question_without_features_has_an_entry(version, text, null_score):
    answer = answer_question("q", "", [], [[]], AnswerOptions(version))
    assert texts(answer) == [text] and answer.null_score == null_score
    assert [entry["probability"] for entry in answer.to_json()] == [1.0]


def test_scores_far_apart_do_not_overflow():
    found = result({3: 2000.0, 4: -2000.0}, {3: 0.0, 4: 0.0})
    answer = answer_question("q", TEXT, [WINDOW], [[found]], AnswerOptions("1.1"))
    assert answer.probabilities[0] == pytest.approx(0.5) and sum(answer.probabilities) == pytest.approx(1.0)

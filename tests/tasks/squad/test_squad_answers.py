"""Answers to questions: from files, from raw texts, and in a graph."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_TEXT

from albert_tf import keras
from albert_tf.modeling.span import AlbertConditionalSpan, AlbertSpan
from albert_tf.tasks.squad import SquadExample, convert_examples_to_features, read_squad_examples
from albert_tf.tasks.squad.answers import (
    Answer,
    AnswerOptions,
    Candidate,
    QuestionAnswerer,
    answer_question,
    candidates,
    describe,
    feature_options,
)
from albert_tf.tasks.squad.export import MODEL_INPUTS, best_answers, pack_windows
from albert_tf.tasks.squad.features import FeatureOptions, feature_blocks, features_of_blocks
from albert_tf.tasks.squad.metrics import Results, evaluate_v1, evaluate_v2, raw_scores
from albert_tf.tasks.squad.task import SpanObjective
from albert_tf.text.graph.tokenization import GraphTokenizer
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
        options = AnswerOptions(self.version, self.expected["n_best_size"], self.expected["max_answer_length"],
                                release_compatible=True)
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
        return Results(self.version, self.answers().values(), release_compatible)

    def _candidates(self, result_set):
        if self.version == "2.0":
            return {name: self._inputs[f"{name}_{result_set}"] for name in CANDIDATES}
        logits = {f"{name}_logits": tf.constant(self._inputs[f"{name}_log_prob_{result_set}"])
                  for name in ("start", "end")}
        return SpanObjective(None, self.expected["n_best_size"]).predictions(logits, {})


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
    results, between = recorded.results(False), right["null_score_diff_threshold"]
    assert results.predictions(between) == results.predictions(threshold) and between not in results.null_odds.values()
    for both in (scores, right):
        assert (both["f1_below"], both["f1_up_to"]) == (scores["f1"], right["f1"])


@pytest.mark.parametrize("release_compatible, exact", [(False, 100.0), (True, 50.0)])
def test_only_the_release_scores_null_scores_above_1_as_not_answered(release_compatible, exact):
    """The best threshold is 2. The release counts "b", whose null score is 1.5, and "c" as not answered."""
    null_scores, answers = dict(a=-3.0, b=1.5, c=2.0, d=4.0), dict(a=["cat"], b=["dog"], c=["owl"], d=[])
    results = Results("2.0", [
        Answer(qas_id, [Candidate(answers[qas_id][0] if answers[qas_id] else "frog", 0.0, 0.0)], null_score)
        for qas_id, null_score in null_scores.items()], release_compatible)
    questions = [dict(id=qas_id, answers=[dict(text=text) for text in texts]) for qas_id, texts in answers.items()]
    scores = results.scores([dict(paragraphs=[dict(qas=questions)])])
    assert scores["null_score_diff_threshold"] == (2.0 if release_compatible else 2.5)
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


@pytest.mark.parametrize("version, text, null_score", [("1.1", "empty", None), ("2.0", "", 1e6)])
def test_a_question_without_features_has_an_entry(version, text, null_score):
    answer = answer_question("q", "", [], [[]], AnswerOptions(version))
    assert texts(answer) == [text] and answer.null_score == null_score
    assert [entry["probability"] for entry in answer.to_json()] == [1.0]


def test_scores_far_apart_do_not_overflow():
    found = result({3: 2000.0, 4: -2000.0}, {3: 0.0, 4: 0.0})
    answer = answer_question("q", TEXT, [WINDOW], [[found]], AnswerOptions("1.1"))
    assert answer.probabilities[0] == pytest.approx(0.5) and sum(answer.probabilities) == pytest.approx(1.0)


LONG_TEXT = "Ada built the clock in 1,908 days.  Zoë Brånström ate ½ of it… and the frogs sang. " * 30


@pytest.fixture(params=["1.1", "2.0"])
def parts(request, sentence_pieces):
    """The arguments of QuestionAnswerer."""
    keras.utils.set_random_seed(1)
    model = (AlbertSpan if request.param == "1.1" else AlbertConditionalSpan)(TINY_TEXT)
    return model, sentence_pieces, FeatureOptions(40, 12, 10, is_training=False), AnswerOptions(request.param)


@pytest.fixture
def answerer(parts):
    return QuestionAnswerer(*parts)


def test_the_answers_about_a_long_text_are_those_from_its_features_one_by_one(parts):
    """The text has more windows than a batch of the answerer."""
    model, tokenizer, _, options = parts
    question, text = "Who built it?", " ".join(f"Ada built clock {i} in {37 * i} days." for i in range(60))
    windows = list(convert_examples_to_features(
        [SquadExample("question", question, text)], tokenizer, max_seq_length=40, doc_stride=12,
        max_query_length=10, is_training=False))
    assert len(windows) > 16
    results = []
    for window in windows:
        inputs = {name: tf.constant([getattr(window, name)], tf.int32)
                  for name in ("input_ids", "input_mask", "segment_ids", "p_mask")}
        predictions = candidates(model(inputs, training=False), options)
        results.append({name: values.numpy()[0] for name, values in predictions.items()})
    expected = answer_question("question", text, windows, [results], options)
    answer = QuestionAnswerer(*parts).ask(question, text)
    assert len(expected.n_best) == 20
    assert [(one.text, one.first, one.last) for one in answer.n_best] == [
        (one.text, one.first, one.last) for one in expected.n_best]
    assert [one.score for one in answer.n_best] == pytest.approx([one.score for one in expected.n_best], abs=1e-5)
    assert answer.null_score == pytest.approx(expected.null_score, abs=1e-5)


class FirstOccurrence:
    """A model whose best answer is the first occurrence of some pieces in a row."""

    def __init__(self, pieces):
        self._pieces = pieces

    def __call__(self, batch):
        rows, size = batch["input_ids"].tolist(), len(self._pieces)
        starts = np.array([next(i for i in range(len(row)) if row[i : i + size] == self._pieces) for row in rows])
        return {f"{name}_logits": tf.one_hot(places, len(rows[0])) for name, places in (
            ("start", starts), ("end", starts + size - 1))}


@pytest.mark.parametrize("answer", ["½", "Zoë Brånström", "1,908 days.  Zoë", "cafe\u0301"])
def test_answers_have_the_offsets_of_their_text(sentence_pieces, answer):
    text = LONG_TEXT[: len(LONG_TEXT) // 30] * 2 + " cafe\u0301"
    windows = FeatureOptions(300, 100, 10, is_training=False)
    model = FirstOccurrence(list(sentence_pieces.encode(answer)))
    best = QuestionAnswerer(model, sentence_pieces, windows, AnswerOptions("1.1")).ask("?", text).n_best[0]
    place = text.index(answer)
    assert (best.text, best.first, best.last) == (answer, place, place + len(answer) - 1)


@pytest.mark.parametrize("question, text, missing", [(" ", "text", "question"), ("Who?", "\n", "text")])
def test_an_empty_question_or_text_is_refused(answerer, question, text, missing):
    with pytest.raises(ValueError, match=f"the {missing} is empty"):
        answerer.ask(question, text)


def test_a_text_without_pieces_has_no_answer(answerer):
    (candidate,) = answerer.ask("Who built it?", "\u0301\u0300").n_best
    assert candidate.text in ("", "empty") and candidate.first == -1


def test_a_short_text_is_padded_to_the_width_of_the_beam(sentence_pieces):
    model = AlbertConditionalSpan(TINY_TEXT.replace(max_position_embeddings=128), start_n_top=70)
    features = FeatureOptions(128, 12, 10, is_training=False)
    answerer = QuestionAnswerer(model, sentence_pieces, features, AnswerOptions("2.0"))
    candidates = answerer.ask("Who?", "Ada.").n_best
    assert candidates and all(candidate.text in "Ada." for candidate in candidates)


def test_answers_are_shown_with_the_offsets_of_exported_models():
    text = "Ada built the clo\nck."
    candidates = [Candidate("Ada", 1.0, 1.0, 0, 2), Candidate("clo\nck", 0.0, 1.0, 14, 19), Candidate("", -9, 0)]
    assert [text[0:3], text[14:20]] == ["Ada", "clo\nck"]
    assert describe(Answer("q", candidates, null_score=0.0)).splitlines() == [
        "share  start  end  answer",
        "73.1%      0    3  Ada",
        "26.9%     14   20  clo ck",
        " 0.0%      -    -",
        "no answer: 50.0% (score 0.00)"]


@pytest.mark.parametrize("length, arguments, expected", [
    (384, {}, (128, 64)),
    (384, dict(doc_stride=200, max_query_length=40), (200, 40)),
    (64, dict(doc_stride=128, max_query_length=40), (21, 40)),  # all pieces of a window
    (64, dict(doc_stride=128, max_query_length=64), (29, 32)),  # and half of the row for the question
])
def test_a_model_reads_texts_by_its_arguments_as_far_as_they_fit_in_rows(length, arguments, expected):
    config = TINY_TEXT.replace(max_position_embeddings=384)
    options = feature_options(AlbertSpan(config, max_seq_length=length, **arguments))
    assert (options.doc_stride, options.max_query_length) == expected and options.max_seq_length == length


OPTIONS = FeatureOptions(max_seq_length=40, doc_stride=12, max_query_length=10, is_training=False)
BEAM = 3


@pytest.fixture(scope="module", params=["sentence_pieces", pytest.param("word_pieces", marks=pytest.mark.long)])
def tokenizer(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def pairs(golden):
    """The questions of golden/squad with their contexts, and short ones."""
    data = json.loads((golden / "squad/dev.json").read_text(encoding="utf-8"))["data"]
    found = [(question["question"], paragraph["context"]) for article in data for paragraph in article["paragraphs"]
             for question in paragraph["qas"]]
    return [*found, ("", "a few words"), ("Who?", "x")]


@pytest.fixture(scope="module")
def blocks(tokenizer, pairs):
    """The features of each pair."""
    examples = [SquadExample(str(i), question, context) for i, (question, context) in enumerate(pairs)]
    return [next(feature_blocks([[example]], tokenizer, OPTIONS)) for example in examples]


@pytest.fixture(scope="module")
def windows(tokenizer, pairs):
    graph_tokenizer = GraphTokenizer(tokenizer)
    pack = tf.function(lambda question, context: pack_windows(graph_tokenizer, OPTIONS, question, context))
    return pack(*(tf.constant(texts) for texts in zip(*pairs)))


def test_windows_are_the_features_of_prediction(tokenizer, blocks, windows):
    seq = windows["input_ids"].shape[1]
    assert seq == 40 and windows["pair"].shape[0] > len(blocks)
    for pair, block in enumerate(blocks):
        rows = windows["pair"].numpy() == pair
        padded = block.padded(seq, tokenizer.pad_id)
        for name in MODEL_INPUTS:
            np.testing.assert_array_equal(windows[name].numpy()[rows], padded[name], err_msg=name)
        in_window = windows["starts"].numpy()[rows] >= 0
        np.testing.assert_array_equal(windows["is_max_context"].numpy()[rows][in_window], block.is_max_context)


def found_by_model(version, windows):
    """Outputs as of a model: random logits, or beams of tokens of the text."""
    rng, shape = np.random.default_rng(1), windows["input_ids"].shape
    if version == "1.1":
        return {f"{name}_logits": tf.constant(rng.normal(size=shape), tf.float32) for name in ("start", "end")}
    starts = rng.random(shape).argsort(axis=1)[:, :BEAM]
    ends = (starts[:, :, None] - 2 + rng.random([shape[0], BEAM, 10]).argsort(axis=2)[:, :, :BEAM]) % shape[1]
    return dict(start_top_index=tf.constant(starts, tf.int32),
                end_top_index=tf.constant(ends.reshape(-1, BEAM**2), tf.int32),
                start_top_log_probs=tf.constant(rng.normal(size=starts.shape), tf.float32),
                end_top_log_probs=tf.constant(rng.normal(size=[shape[0], BEAM**2]), tf.float32),
                cls_logits=tf.constant(rng.normal(size=shape[0]), tf.float32))


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_answers_are_those_of_prediction(tokenizer, pairs, blocks, windows, version):
    options, found = AnswerOptions(version, n_best_size=6, max_answer_length=9), found_by_model(version, windows)
    served = best_answers(tf.constant([context for _, context in pairs]), windows, found, options)
    served = {name: values.numpy() for name, values in served.items()}
    candidates = SpanObjective(None, options.n_best_size).predictions(found, {}) if version == "1.1" else found
    candidates, answered = {name: values.numpy() for name, values in candidates.items()}, 0
    for i, ((_, context), block) in enumerate(zip(pairs, blocks)):
        results = [{name: values[row] for name, values in candidates.items()}
                   for row in np.flatnonzero(windows["pair"].numpy() == i)]
        features = list(features_of_blocks([block], tokenizer, OPTIONS))
        expected = answer_question(str(i), context, features, [results], options)
        if version == "2.0":
            np.testing.assert_allclose(served["no_answer_score"][i], expected.null_score)
        text, best = served["answer"][i].decode(), expected.n_best[0]
        assert context[served["start"][i] : served["end"][i]] == text
        if best.first < 0:  # there was no candidate
            assert text == ""
            continue
        assert text.strip() == best.text, context
        np.testing.assert_allclose(served["score"][i], best.score, atol=1e-6)
        answered += 1
    assert answered > len(pairs) // 2


def test_rows_are_at_least_as_long_as_requested(tokenizer):
    windows = pack_windows(GraphTokenizer(tokenizer), OPTIONS, tf.constant([""]), tf.constant([""]), shortest=8)
    specials = [tokenizer.cls_id, tokenizer.sep_id, tokenizer.sep_id]
    assert windows["input_ids"].numpy().tolist() == [specials + 5 * [tokenizer.pad_id]]
    assert windows["p_mask"].numpy().tolist() == [[0] + 7 * [1]]

"""Chooses the n best answers of a question, and writes them (release: squad_utils.write_predictions_v1 and _v2).

The candidates of a feature are the predictions of task.py, as arrays. Each checkpoint gives one result set. With
several checkpoints, the score of a span is its mean over the result sets that have the span. Of all questions, only
the best text and the null score are kept in memory (see Results).
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import os
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.tasks.squad.features import SquadFeature
from albert_tf.tasks.squad.metrics import evaluate_v1, evaluate_v2
from albert_tf.tasks.squad.tables import QuestionWindows
from albert_tf.training.evaluation import check_finite_outputs
from albert_tf.utils.outputs import output, write_text

NO_FEATURES_NULL_SCORE = 1000000.0  # of a question that has no features, in SQuAD 2.0


class Candidate(NamedTuple):
    """A span with its text and scores."""

    text: str
    start_log_prob: float
    end_log_prob: float
    first: int = -1  # offsets of the first and the last character in the paragraph
    last: int = -1

    @property
    def score(self) -> float:
        """The sum of both log probabilities."""
        return self.start_log_prob + self.end_log_prob


# The answer to a question without candidates, as in the release.
_NOTHING = {"1.1": Candidate("empty", 0.0, 0.0), "2.0": Candidate("", -1e6, -1e6)}


@dataclasses.dataclass(frozen=True)
class AnswerOptions:
    """How answers are chosen. The length of an answer is in tokens."""

    squad_version: str
    n_best_size: int = 20
    max_answer_length: int = 30


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answers to a question."""

    qas_id: str
    n_best: list[Candidate]  # with different texts, best first; at least one
    null_score: float | None  # the logit that there is no answer; None for SQuAD 1.1

    @property
    def probabilities(self) -> list[float]:
        """The probabilities of the n best candidates, which add up to 1."""
        best = max(candidate.score for candidate in self.n_best)
        weights = [math.exp(candidate.score - best) for candidate in self.n_best]
        return [weight / sum(weights) for weight in weights]

    def to_json(self) -> list[dict[str, Any]]:
        """An entry of nbest_predictions.json."""
        return [dict(text=candidate.text, probability=probability, start_log_prob=candidate.start_log_prob,
                     end_log_prob=candidate.end_log_prob)
                for candidate, probability in zip(self.n_best, self.probabilities)]


def answers(
    questions: Iterable[QuestionWindows], result_sets: Sequence[Mapping[str, Sequence[np.ndarray]]],
    options: AnswerOptions,
) -> Iterator[Answer]:
    """The answers to all questions of a file, in order.

    A result set has the candidates of all features in order, by name (see answer_question), for one checkpoint.
    """
    for results in result_sets:
        for window_scores in itertools.chain.from_iterable(results.values()):
            check_finite_outputs(window_scores)
    row = 0
    for question in questions:
        rows = range(row, row + len(question.windows))
        question_results = [[{name: values[i] for name, values in results.items()} for i in rows]
                            for results in result_sets]
        row = rows.stop
        yield answer_question(question.qas_id, question.paragraph_text, question.windows, question_results, options)


def answer_question(
    qas_id: str, paragraph_text: str, features: Sequence[SquadFeature],
    result_sets: Sequence[Sequence[Mapping[str, np.ndarray]]], options: AnswerOptions,
) -> Answer:
    """Chooses the answers of a question.

    Each result set has the candidates of each feature: start_top_log_probs and start_top_index [starts];
    end_top_log_probs and end_top_index, [ends] in 1.1 and [starts * ends] in 2.0; and in 2.0 cls_logits [].
    """
    candidates = []
    for place, feature in enumerate(features):
        candidates += _averaged_spans(feature, [results[place] for results in result_sets], options)
    candidates.sort(key=lambda candidate: candidate[2] + candidate[3], reverse=True)  # stable: on a tie, the first wins
    n_best = list(_different_texts(paragraph_text, candidates, options.n_best_size))
    null_score = _null_score(result_sets) if options.squad_version == "2.0" else None
    return Answer(qas_id, n_best or [_NOTHING[options.squad_version]], null_score)


def _averaged_spans(
    feature: SquadFeature, results: Sequence[Mapping[str, np.ndarray]], options: AnswerOptions
) -> list:
    """(first character, last character, start_log_prob, end_log_prob) of each span that may be an answer."""
    scores = collections.defaultdict(list)
    for result in results:
        for start, end, *log_probs in _spans(feature, result, options):
            scores[start, end].append(log_probs)
    return [(int(feature.starts[start]), int(feature.ends[end]), *(sum(column) / len(pairs) for column in zip(*pairs)))
            for (start, end), pairs in scores.items()]


def _spans(feature: SquadFeature, result: Mapping[str, np.ndarray], options: AnswerOptions) -> Iterator[tuple]:
    """(first piece, last piece, start_log_prob, end_log_prob) of the spans in the window, by start, then by end."""
    starts = np.asarray(result["start_top_index"], np.int64) - feature.doc_offset  # [starts]
    ends = np.asarray(result["end_top_index"], np.int64) - feature.doc_offset
    end_log_probs = np.asarray(result["end_top_log_probs"], np.float64)
    shape = [len(starts), -1]
    if options.squad_version == "1.1":  # all starts have the same ends
        shape = [len(starts), len(ends)]
        ends, end_log_probs = np.broadcast_to(ends, shape), np.broadcast_to(end_log_probs, shape)
    ends, end_log_probs = ends.reshape(shape), end_log_probs.reshape(shape)  # [starts, ends]
    lengths = ends - starts[:, None] + 1
    fits = (lengths >= 1) & (lengths <= options.max_answer_length) & (ends < len(feature.starts))
    begins = (starts >= 0) & (starts < len(feature.starts))
    begins[begins] = np.asarray(feature.is_max_context, bool)[starts[begins]]
    for i, j in np.argwhere(fits & begins[:, None]).tolist():
        yield int(starts[i]), int(ends[i, j]), float(result["start_top_log_probs"][i]), float(end_log_probs[i, j])


def _different_texts(paragraph_text: str, candidates: list, count: int) -> Iterator[Candidate]:
    """The first `count` candidates with different texts."""
    seen: set[str] = set()
    for first, last, start_log_prob, end_log_prob in candidates:
        if len(seen) >= count:
            return
        raw = paragraph_text[first : last + 1]
        text = raw.strip()
        if text not in seen:
            seen.add(text)
            yield Candidate(text, start_log_prob, end_log_prob, first + len(raw) - len(raw.lstrip()),
                            last - (len(raw) - len(raw.rstrip())))


def _null_score(result_sets: Sequence[Sequence[Mapping[str, np.ndarray]]]) -> float:
    """The smallest null score of a question's features, averaged over the result sets."""
    scores = [min((float(result["cls_logits"]) for result in results), default=NO_FEATURES_NULL_SCORE)
              for results in result_sets]
    return sum(scores) / len(scores)


# --- the results of all questions -------------------------------------------------------------------------------------


PREDICTIONS, N_BEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"


class Results:
    """The best text and the null score of each question.

    With release_compatible, a question counts as not answered if its null score equals the threshold, and in the scores
    if its null score is above 1.
    """

    def __init__(self, squad_version: str, release_compatible: bool = False):
        self._version, self._release_compatible = squad_version, release_compatible
        self._texts: dict[str, str] = {}
        self.null_odds: dict[str, float] = {}

    def add(self, answer: Answer) -> None:
        """Adds the answer of a question."""
        self._texts[answer.qas_id] = answer.n_best[0].text
        if answer.null_score is not None:
            self.null_odds[answer.qas_id] = answer.null_score

    def predictions(self, threshold: float | None) -> dict[str, str]:
        """The text for each question, or "" if its null score is above the threshold. None: no threshold."""
        return self._answered_up_to(threshold, self._release_compatible)

    def scores(self, dataset: list, threshold: float | None = None) -> dict[str, float]:
        """The official scores with a threshold; None for the threshold with the best F1. SQuAD 1.1 has none.

        For 2.0 they are null_score_diff_threshold (the threshold); evaluate_v2's scores of the predictions with that
        threshold; best_exact, best_f1 and their thresholds; and the scores for both ways to compare with the threshold:
        the release's "<" (exact_below, f1_below) and the intended "<=" (exact_up_to, f1_up_to).
        """
        if self._version == "1.1":
            return evaluate_v1(dataset, self._texts)
        scores = evaluate_v2(dataset, self._texts, self.null_odds)
        threshold = self._threshold(scores) if threshold is None else threshold
        up_to = evaluate_v2(dataset, self._answered_up_to(threshold, excluded=False))
        # The release applies the official script's threshold for probabilities to its null scores, too.
        below = evaluate_v2(dataset, self._answered_up_to(threshold, excluded=True), self.null_odds,
                            na_prob_thresh=1.0 if self._release_compatible else None)
        best = {name: value for name, value in scores.items() if name.startswith("best_")}
        return dict(below if self._release_compatible else up_to, **best, null_score_diff_threshold=threshold,
                    exact_below=below["exact"], f1_below=below["f1"], exact_up_to=up_to["exact"], f1_up_to=up_to["f1"])

    def _threshold(self, scores: Mapping[str, float]) -> float:
        """The threshold with the best F1.

        If it is best to answer no question, the official script's threshold is 0.0. Logits can be smaller than that, so
        here the threshold is then below all of them.
        """
        threshold, lowest = scores["best_f1_thresh"], min(self.null_odds.values())
        answers_none = scores["best_f1"] * scores["total"] <= 100.0 * scores.get("NoAns_total", 0) + 1e-9
        if threshold == 0.0 and answers_none and lowest <= 0.0 and not self._release_compatible:
            return lowest - 1.0
        return threshold

    def _answered_up_to(self, threshold: float | None, excluded: bool) -> dict[str, str]:
        if threshold is None or self._version == "1.1":
            return dict(self._texts)
        return {qas_id: text if self.null_odds[qas_id] < threshold or
                (not excluded and self.null_odds[qas_id] == threshold) else ""
                for qas_id, text in self._texts.items()}


def write_n_best(directory: str, answers: Iterable[Answer]) -> Iterator[Answer]:
    """Yields the answers unchanged and writes them to nbest_predictions.json, which appears after the last answer."""
    with output(os.path.join(directory, N_BEST)) as temporary:
        with tf.io.gfile.GFile(temporary, "w") as file:
            separator = "{"
            for answer in answers:
                file.write(f"{separator}\n{json.dumps(answer.qas_id)}: {json.dumps(answer.to_json(), indent=4)}")
                separator = ","
                yield answer
            file.write("\n}\n")


def write_predictions(directory: str, results: Results, threshold: float | None) -> None:
    """Writes predictions.json, and for SQuAD 2.0 null_odds.json."""
    for name, content in ((PREDICTIONS, results.predictions(threshold)), (NULL_ODDS, results.null_odds)):
        if content:
            write_text(os.path.join(directory, name), json.dumps(content, indent=4) + "\n")

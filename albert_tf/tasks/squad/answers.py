"""Chooses the n best answers of a question (release: squad_utils.write_predictions_v1 and _v2).

The candidates of a feature are the predictions of task.py, as arrays. Each checkpoint gives one result set. With
several checkpoints, the score of a span is its mean over the result sets that have the span.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from albert_tf.tasks.squad.features import SquadFeature
from albert_tf.tasks.squad.tables import QuestionWindows
from albert_tf.training.evaluation import check_finite_outputs

# The null score of a question that has no features, in SQuAD 2.0.
NO_FEATURES_NULL_SCORE = 1000000.0


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
    """How answers are chosen.

    Args:
      squad_version: "1.1" or "2.0".
      n_best_size: number of candidates to keep.
      max_answer_length: the largest number of tokens of an answer.
    """

    squad_version: str
    n_best_size: int = 20
    max_answer_length: int = 30


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answers to a question.

    Args:
      qas_id: id of the question.
      n_best: candidates with different texts, best first; at least one.
      null_score: the logit that there is no answer; None for SQuAD 1.1.
    """

    qas_id: str
    n_best: list[Candidate]
    null_score: float | None

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

    Args:
      questions: the questions with their windows, which are the rows of the table (see prediction_table).
      result_sets: for each checkpoint, the candidates of all features in order, by name (see answer_question).
      options: how answers are chosen.

    Raises:
      ValueError: a score is NaN or infinite.
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

    Args:
      qas_id: id of the question.
      paragraph_text: the question's paragraph.
      features: the question's windows; empty if the paragraph is empty.
      result_sets: for each checkpoint, the candidates of each feature: start_top_log_probs and start_top_index
        [starts]; end_top_log_probs and end_top_index, [ends] in 1.1 and [starts * ends] in 2.0; and in 2.0 cls_logits
        [].
      options: how answers are chosen.
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

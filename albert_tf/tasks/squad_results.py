"""Answers for a whole file, one question at a time: scores, thresholds and the release's result files.

However many questions there are, what is kept of each is its best text and its null score.
"""

from __future__ import annotations

import json
import os
from typing import Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.squad.question_windows import read_questions
from albert_tf.files import write_text, written_whole
from albert_tf.tasks.squad_answers import Answer, AnswerOptions, answer_question
from albert_tf.tasks.squad_metrics import evaluate_v1, evaluate_v2

PREDICTIONS, N_BEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"
BEST_METRIC = "f1"


def answers(
    questions_path: str, result_sets: Sequence[Mapping[str, Sequence[np.ndarray]]], options: AnswerOptions
) -> Iterator[Answer]:
    """The answer of every question of a file, in order.

    Args:
      questions_path: see data/squad/question_windows.py.
      result_sets: of each checkpoint, by name, the candidates of each feature in order; see answer_question.
      options: how answers are chosen.
    """
    row = 0
    for question in read_questions(questions_path):
        rows = range(row, row + len(question.windows))
        of_question = [[{name: values[i] for name, values in results.items()} for i in rows] for results in result_sets]
        row = rows.stop
        yield answer_question(question.qas_id, question.paragraph_text, question.windows, of_question, options)


class Results:
    """What is kept of the answers.

    Args:
      squad_version: "1.1" or "2.0".
      release_compatible: whether a question whose null score is the threshold itself counts as not answered.
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
        """The text for each question; "" where its null score is above the threshold, if there is one."""
        return self._answered_up_to(threshold, self._release_compatible)

    def scores(self, dataset: list, threshold: float | None = None) -> dict[str, float]:
        """The official scores.

        Args:
          dataset: the JSON's "data" list.
          threshold: see `predictions`; default: the one with which F1 is best. SQuAD 1.1 has none.

        Returns:
          1.1: exact_match and f1. 2.0: null_score_diff_threshold, the threshold; exact, f1, total and the like
          of the predictions with that threshold; best_exact, best_f1 and their thresholds; and both ways to use the
          threshold, the release's "<" (exact_below, f1_below) and the "<=" that it is meant for (exact_up_to,
          f1_up_to).
        """
        if self._version == "1.1":
            return evaluate_v1(dataset, self._texts)
        found = evaluate_v2(dataset, self._texts, self.null_odds)
        threshold = self._threshold(found) if threshold is None else threshold
        below, up_to = (evaluate_v2(dataset, self._answered_up_to(threshold, excluded)) for excluded in (True, False))
        best = {name: value for name, value in found.items() if name.startswith("best_")}
        return dict(below if self._release_compatible else up_to, **best, null_score_diff_threshold=threshold,
                    exact_below=below["exact"], f1_below=below["f1"], exact_up_to=up_to["exact"], f1_up_to=up_to["f1"])

    def _threshold(self, found: Mapping[str, float]) -> float:
        """Where F1 is best. Answering nothing is the official script's 0.0, which logits may lie below."""
        threshold, lowest = found["best_f1_thresh"], min(self.null_odds.values())
        answers_none = found["best_f1"] * found["total"] <= 100.0 * found.get("NoAns_total", 0) + 1e-9
        if threshold == 0.0 and answers_none and lowest <= 0.0 and not self._release_compatible:
            return lowest - 1.0
        return threshold

    def _answered_up_to(self, threshold: float | None, excluded: bool) -> dict[str, str]:
        if threshold is None or self._version == "1.1":
            return dict(self._texts)
        return {qas_id: text if self.null_odds[qas_id] < threshold or
                (not excluded and self.null_odds[qas_id] == threshold) else ""
                for qas_id, text in self._texts.items()}


def write_n_best(directory: str, found: Iterable[Answer]) -> Iterator[Answer]:
    """Passes answers on while nbest_predictions.json is written, which is there when they are through."""
    with written_whole(os.path.join(directory, N_BEST)) as temporary:
        with tf.io.gfile.GFile(temporary, "w") as file:
            separator = "{"
            for answer in found:
                file.write(f"{separator}\n{json.dumps(answer.qas_id)}: {json.dumps(answer.to_json(), indent=4)}")
                separator = ","
                yield answer
            file.write("\n}\n")


def write_predictions(directory: str, results: Results, threshold: float | None) -> None:
    """Writes predictions.json, and for SQuAD 2.0 null_odds.json."""
    for name, content in ((PREDICTIONS, results.predictions(threshold)), (NULL_ODDS, results.null_odds)):
        if content:
            write_text(os.path.join(directory, name), json.dumps(content, indent=4) + "\n")

"""Results: the best texts of all questions with their scores, and the release's result files.

Only the best text and the null score of each question are kept in memory.
"""

from __future__ import annotations

import json
import os
from typing import Iterable, Iterator, Mapping

import tensorflow as tf

from albert_tf.tasks.squad.answers import Answer
from albert_tf.tasks.squad.metrics import evaluate_v1, evaluate_v2
from albert_tf.utils.writing import atomic_write, write_text

PREDICTIONS, N_BEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"


class Results:
    """The best text and the null score of each question.

    Args:
      squad_version: "1.1" or "2.0".
      release_compatible: whether a question counts as not answered if its null score equals the threshold, and in the
        scores if its null score is above 1.
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
        """The official scores.

        Args:
          dataset: the "data" list of a SQuAD file.
          threshold: see `predictions`; None for the threshold with the best F1. Ignored for SQuAD 1.1.

        Returns:
          1.1: exact_match and f1. 2.0: null_score_diff_threshold (the threshold); evaluate_v2's scores of the
          predictions with that threshold; best_exact, best_f1 and their thresholds; and the scores for both ways to
          compare with the threshold: the release's "<" (exact_below, f1_below) and the intended "<=" (exact_up_to,
          f1_up_to).
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
    with atomic_write(os.path.join(directory, N_BEST)) as temporary:
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

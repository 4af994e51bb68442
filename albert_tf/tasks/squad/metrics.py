"""The official scores of SQuAD 1.1 and 2.0 (evaluate-v1.1.py, evaluate-v2.0.py).

In this module, a dataset is the "data" list of a SQuAD file.
"""

from __future__ import annotations

import collections
import re
import string
from typing import Iterator, Mapping

BEST_METRIC = "f1"
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def evaluate_v1(dataset: list, predictions: Mapping[str, str]) -> dict[str, float]:
    """Exact match and F1 of SQuAD 1.1, in per cent.

    Args:
      dataset: the "data" list of a SQuAD file.
      predictions: the predicted answer of each question, by id.

    Returns:
      exact_match, f1.

    Raises:
      ValueError: a question has no prediction, or there are no questions.
    """
    golds = {qas_id: _texts(question) for qas_id, question in _questions(dataset)}
    check_predictions(golds, predictions)
    exact = [max(map(float, (_is_exact(gold, predictions[qas_id]) for gold in texts)), default=0.0)
             for qas_id, texts in golds.items()]
    f1 = [max((_f1(gold, predictions[qas_id]) for gold in texts), default=0.0) for qas_id, texts in golds.items()]
    return dict(exact_match=100.0 * sum(exact) / len(golds), f1=100.0 * sum(f1) / len(golds))


def evaluate_v2(
    dataset: list, predictions: Mapping[str, str], na_probs: Mapping[str, float] | None = None,
    na_prob_thresh: float | None = None,
) -> dict[str, float]:
    """The official scores of SQuAD 2.0, in per cent.

    Args:
      dataset: the "data" list of a SQuAD file.
      predictions: the predicted answer of each question, by id; "" for no answer.
      na_probs: the probability that a question has no answer, by id. Any score that grows with it can be used.
      na_prob_thresh: questions with a larger na_prob count as not answered. The official script has 1.0, which no
        probability exceeds. None: predictions are not changed.

    Returns:
      exact, f1, total; the same three with the prefixes `HasAns_` and `NoAns_`, for the questions with and without an
      answer. With na_probs also best_exact and best_f1, the best scores for any threshold, and these thresholds,
      best_exact_thresh and best_f1_thresh: a question counts as answered if its na_prob is at most the threshold.

    Raises:
      ValueError: a question has no prediction or na_prob, or there are no questions.
    """
    has_answer = {qas_id: bool(question.get("answers")) for qas_id, question in _questions(dataset)}
    exact, f1 = raw_scores(dataset, predictions)
    best = {}
    if na_probs is not None:
        check_predictions(has_answer, na_probs, "na_probs")
        for name, scores in (("exact", exact), ("f1", f1)):
            best_score, threshold = best_threshold(predictions, scores, na_probs, has_answer)
            best[f"best_{name}"], best[f"best_{name}_thresh"] = best_score, threshold
        if na_prob_thresh is not None:
            not_answered = {qas_id for qas_id, value in na_probs.items() if value > na_prob_thresh}
            exact, f1 = ({qas_id: float(not has_answer[qas_id]) if qas_id in not_answered else score
                          for qas_id, score in scores.items()} for scores in (exact, f1))
    results = _means(exact, f1, list(has_answer))
    for prefix, wanted in (("HasAns", True), ("NoAns", False)):
        qas_ids = [qas_id for qas_id, value in has_answer.items() if value == wanted]
        if qas_ids:
            results.update({f"{prefix}_{name}": value for name, value in _means(exact, f1, qas_ids).items()})
    return dict(results, **best)


def raw_scores(dataset: list, predictions: Mapping[str, str]) -> tuple[dict[str, float], dict[str, float]]:
    """Exact match and F1 of each question in SQuAD 2.0, by id: the best over its answers ("" if it has none)."""
    golds = {}
    for qas_id, question in _questions(dataset):
        texts = [text for text in _texts(question) if normalize_answer(text)]
        golds[qas_id] = texts or [""]
    check_predictions(golds, predictions)
    exact, f1 = {}, {}
    for qas_id, texts in golds.items():
        exact[qas_id] = max(float(_is_exact(gold, predictions[qas_id])) for gold in texts)
        f1[qas_id] = max(_f1(gold, predictions[qas_id], both_empty=1.0) for gold in texts)
    return exact, f1


def best_threshold(
    predictions: Mapping[str, str], scores: Mapping[str, float], na_probs: Mapping[str, float],
    has_answer: Mapping[str, bool],
) -> tuple[float, float]:
    """The best mean score, in per cent, if only questions with na_prob up to a threshold are answered; the threshold.

    The threshold is 0.0 if it is best to answer no question, as in the official script.
    """
    score = best_score = float(sum(not value for value in has_answer.values()))
    threshold = 0.0
    for qas_id in sorted((qas_id for qas_id in na_probs if qas_id in scores), key=lambda qas_id: na_probs[qas_id]):
        if has_answer[qas_id]:
            score += scores[qas_id]
        else:
            score -= bool(predictions[qas_id])
        if score > best_score:
            best_score, threshold = score, na_probs[qas_id]
    return 100.0 * best_score / len(scores), threshold


def normalize_answer(text: str) -> str:
    """Lower-cases a text, removes punctuation and articles, and replaces white space by single spaces."""
    without_punctuation = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", without_punctuation).split())


def check_predictions(questions: Mapping[str, object], values: Mapping[str, object], what: str = "predictions") -> None:
    """Raises ValueError if there are no questions, or if `values` has no entry for one of them."""
    if not questions:
        raise ValueError("there are no questions to evaluate")
    missing = [qas_id for qas_id in questions if qas_id not in values]
    if missing:
        raise ValueError(f"{what}: {len(missing):,} of {len(questions):,} questions are missing, "
                         f"such as {missing[0]!r}")


def _questions(dataset: list) -> Iterator[tuple[str, dict]]:
    for article in dataset:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield question["id"], question


def _texts(question: dict) -> list[str]:
    texts = [answer.get("text") for answer in question.get("answers") or ()]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"question {question['id']}: an answer has no \"text\"")
    return texts


def _is_exact(gold: str, prediction: str) -> bool:
    return normalize_answer(gold) == normalize_answer(prediction)


def _f1(gold: str, prediction: str, both_empty: float = 0.0) -> float:
    """F1 of the words of two answers; two answers without words have `both_empty`: 0 in SQuAD 1.1, 1 in SQuAD 2.0."""
    gold_words, words = normalize_answer(gold).split(), normalize_answer(prediction).split()
    if not gold_words and not words:
        return both_empty
    common = sum((collections.Counter(gold_words) & collections.Counter(words)).values())
    if not common:
        return 0.0
    precision, recall = common / len(words), common / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def _means(exact: Mapping[str, float], f1: Mapping[str, float], qas_ids: list[str]) -> dict[str, float]:
    total = len(qas_ids)
    return dict(exact=100.0 * sum(exact[qas_id] for qas_id in qas_ids) / total,
                f1=100.0 * sum(f1[qas_id] for qas_id in qas_ids) / total, total=total)

"""The official scores of SQuAD 1.1 and 2.0 (evaluate-v1.1.py, evaluate-v2.0.py), and the results of all questions.

In this module, a dataset is the "data" list of a SQuAD file. Only the best text and the null score of each question
are kept in memory (see Results).
"""

from __future__ import annotations

import collections
import difflib
import itertools
import json
import operator
import os
import re
import string
import unicodedata
from typing import TYPE_CHECKING, Iterable, Iterator, Mapping

from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.outputs import output, write_text

if TYPE_CHECKING:
    from albert_tf.tasks.squad.answers import Answer

BEST_METRIC, BEST_CHARACTER_METRIC = "f1", "f1_characters"
THRESHOLD = "null_score_diff_threshold"  # a score, which a run stores for texts without a right answer
PREDICTIONS, N_BEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Of Chinese and Japanese, which have no spaces between words.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_CHARACTER = re.compile(f"[{_UNSPACED}]")
_CHARACTER_OR_WORD = re.compile(rf'[{_UNSPACED}]|(?:[^\s{_UNSPACED},;@#$%&?!()\[\]{{}}<>"]|,(?=\d))+|\S')
_CMRC_PUNCTUATION = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")


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
    golds = {qas_id: _gold_texts(question) for qas_id, question in _questions(dataset)}
    exact, f1 = _best_scores(golds, predictions, both_empty=0.0)
    return dict(exact_match=100.0 * sum(exact.values()) / len(golds), f1=100.0 * sum(f1.values()) / len(golds))


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
    golds = {qas_id: [text for text in _gold_texts(question) if normalize_answer(text)] or [""]
             for qas_id, question in _questions(dataset)}
    return _best_scores(golds, predictions, both_empty=1.0)


def _best_scores(
    golds: Mapping[str, list[str]], predictions: Mapping[str, str], both_empty: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Exact match and F1 of each question, by id: the best over its answers, 0 if it has none."""
    check_predictions(golds, predictions)
    exact, f1 = {}, {}
    for qas_id, texts in golds.items():
        prediction = predictions[qas_id]
        exact[qas_id] = float(any(normalize_answer(gold) == normalize_answer(prediction) for gold in texts))
        f1[qas_id] = max((_f1(gold, prediction, both_empty) for gold in texts), default=0.0)
    return exact, f1


def character_scores(dataset: list, predictions: Mapping[str, str]) -> dict[str, float]:
    """Exact match and F1 as CMRC 2018 counts them for Chinese (Cui et al., 2019), in per cent.

    Each Chinese or Japanese character is a token, and so is each word of other scripts. Precision and recall are the
    shares of the longest sequence of tokens that prediction and answer have in common without a gap. Case and CMRC's
    punctuation do not count. CMRC's script has NLTK's words of other scripts, so a few scores differ (7 of its 3,219
    questions). For the arguments and errors see evaluate_v1.
    """
    golds = {qas_id: _gold_texts(question) or [""] for qas_id, question in _questions(dataset)}
    check_predictions(golds, predictions)
    pairs = [(list(map(_without_cmrc_punctuation, texts)), _without_cmrc_punctuation(predictions[qas_id]))
             for qas_id, texts in golds.items()]
    exact = sum(prediction in texts for texts, prediction in pairs)
    f1 = sum(max(_character_f1(text, prediction) for text in texts) for texts, prediction in pairs)
    return dict(exact_match_characters=100.0 * exact / len(pairs), f1_characters=100.0 * f1 / len(pairs))


def _without_cmrc_punctuation(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower().strip().translate(_CMRC_PUNCTUATION)


def _character_f1(text: str, prediction: str) -> float:
    if not text:
        return float(not prediction)
    tokens, predicted = (_CHARACTER_OR_WORD.findall(each) for each in (text, prediction))
    common = difflib.SequenceMatcher(None, tokens, predicted, autojunk=False).find_longest_match().size
    return 2 * common / (len(tokens) + len(predicted)) if common else 0.0


def has_spaces(dataset: list) -> bool:
    """Whether most letters of the contexts are of scripts with spaces between words."""
    text = "".join(itertools.islice((paragraph["context"] for article in dataset
                                     for paragraph in article["paragraphs"]), 100))
    return 2 * len(_CHARACTER.findall(text)) <= sum(map(str.isalpha, text))


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
    """Lower-cases a text, removes punctuation and articles, and replaces white space by single spaces.

    Texts that differ only in Unicode normalization are equal, though not in the official scripts.
    """
    without_punctuation = unicodedata.normalize("NFC", text).lower().translate(_PUNCTUATION)
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
                yield str(question["id"]), question  # a whole number in some files


def _gold_texts(question: dict) -> list[str]:
    texts = [answer.get("text") for answer in question.get("answers") or ()]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"question {question['id']}: an answer has no \"text\"")
    return texts


def _f1(gold: str, prediction: str, both_empty: float) -> float:
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


class Results:
    """The best text and the null score of each question.

    With release_compatible, a question counts as not answered if its null score equals the threshold, and in the scores
    if its null score is above 1.
    """

    def __init__(self, squad_version: str, answers: Iterable[Answer], release_compatible: bool = False):
        self._version, self._release_compatible = squad_version, release_compatible
        self._texts: dict[str, str] = {}
        self.null_odds: dict[str, float] = {}
        for answer in answers:
            self._texts[answer.qas_id] = answer.n_best[0].text
            if answer.null_score is not None:
                self.null_odds[answer.qas_id] = answer.null_score

    def predictions(self, threshold: float | None, excluded: bool | None = None) -> dict[str, str]:
        """The text for each question, or "" if its null score is above the threshold. None: no threshold.

        `excluded` says whether a null score that equals the threshold counts as above it; None: if release_compatible.
        """
        if threshold is None or self._version == "1.1":
            return dict(self._texts)
        excluded = self._release_compatible if excluded is None else excluded
        is_answered = operator.lt if excluded else operator.le
        return {qas_id: text if is_answered(self.null_odds[qas_id], threshold) else ""
                for qas_id, text in self._texts.items()}

    def scores(self, dataset: list, threshold: float | None = None) -> dict[str, float]:
        """The official scores with a threshold; None for the threshold with the best F1. SQuAD 1.1 has none.

        For 2.0 they are null_score_diff_threshold (the threshold); evaluate_v2's scores of the predictions with that
        threshold; best_exact, best_f1 and their thresholds; and the scores for both ways to compare with the best
        threshold: the release's "<" (exact_below, f1_below) and the intended "<=" (exact_up_to, f1_up_to). Unless
        release_compatible, null_score_diff_threshold is the middle of the null scores on both sides of the one with the
        best F1: it answers the same questions, and the rounding of an export changes no answer.
        """
        if self._version == "1.1":
            return evaluate_v1(dataset, self._texts)
        scores = evaluate_v2(dataset, self._texts, self.null_odds)
        requested, threshold = threshold, self._threshold(scores) if threshold is None else threshold
        up_to = evaluate_v2(dataset, self.predictions(threshold, excluded=False))
        # The release applies the official script's threshold for probabilities to its null scores, too.
        below = evaluate_v2(dataset, self.predictions(threshold, excluded=True), self.null_odds,
                            na_prob_thresh=1.0 if self._release_compatible else None)
        best = {name: value for name, value in scores.items() if name.startswith("best_")}
        if requested is None and not self._release_compatible:
            answered = [score for score in self.null_odds.values() if score <= threshold]
            declined = [score for score in self.null_odds.values() if score > threshold]
            threshold = (max([threshold - 1.0, *answered]) + min([threshold + 1.0, *declined])) / 2.0
        return dict(below if self._release_compatible else up_to, **best, **{THRESHOLD: threshold},
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

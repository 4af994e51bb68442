"""Answers: the n best spans of a question (release: squad_utils), for files of questions and for raw texts.

`candidates` computes the candidates of a feature, as arrays. Each checkpoint gives one result set. With several
checkpoints, the score of a span is its mean over the result sets that have the span.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.modeling.settings import ConditionalSpanSettings, PredictingModel, SpanSettings
from albert_tf.tasks.squad.features import (
    SPECIAL_TOKENS,
    FeatureBlock,
    FeatureOptions,
    QuestionWindows,
    SquadFeature,
    default_doc_stride,
    feature_blocks,
    question_windows,
)
from albert_tf.tasks.squad.reading import SquadExample, end_of_character
from albert_tf.text.tokenization import FullTokenizer, list_of_strings
from albert_tf.training.prediction import check_finite_outputs
from albert_tf.weights.heads import checked_settings

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
    """How answers are chosen. The length of an answer is in tokens.

    In SQuAD 2.0, a question with a null score above `threshold` has no answer; None: every question has one.
    With release_compatible, answers end before the combining marks of their last character.
    """

    squad_version: str
    n_best_size: int = 20
    max_answer_length: int = 30
    threshold: float | None = None
    release_compatible: bool = False

    @classmethod
    def of(cls, model: PredictingModel) -> AnswerOptions:
        """The options of a model's head, with its threshold."""
        return cls(VERSION_OF_HEAD[model.settings.head], threshold=(
            model.settings.of_class(ConditionalSpanSettings).null_score_diff_threshold))

    def declines(self, null_score: float | None) -> bool:
        """Whether a question with this null score has no answer."""
        return self.threshold is not None and null_score is not None and null_score > self.threshold


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


def candidates(outputs: Mapping[str, tf.Tensor], options: AnswerOptions) -> dict[str, tf.Tensor]:
    """The candidates for answers in each window, from the outputs of a model.

    SQuAD 1.1: the best starts and the best ends, [batch, n_best_size], with logits as log_probs, as in the release.
    SQuAD 2.0: the beam (starts, best first, and the ends of each), and the logit that there is no answer.
    """
    if options.squad_version == "2.0":
        names = ("start_top_log_probs", "start_top_index", "end_top_log_probs", "end_top_index", "cls_logits")
        return {name: outputs[name] for name in names}
    best = {}
    for name in ("start", "end"):
        logits = outputs[f"{name}_logits"]
        seq = logits.shape[1]  # None in a graph for any length
        count = min(options.n_best_size, seq) if seq else tf.minimum(options.n_best_size, tf.shape(logits)[1])
        best[f"{name}_top_log_probs"], best[f"{name}_top_index"] = tf.math.top_k(logits, count)
    return best


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
    rows = [(dict(zip(results, row)) for row in zip(*results.values())) for results in result_sets]
    for question in questions:
        question_results = [list(itertools.islice(each, len(question.windows))) for each in rows]
        yield answer_question(question.qas_id, question.paragraph_text, question.windows, question_results, options)


def answer_question(
    qas_id: str, paragraph_text: str, features: Sequence[SquadFeature],
    result_sets: Sequence[Sequence[Mapping[str, np.ndarray]]], options: AnswerOptions,
) -> Answer:
    """Chooses the answers of a question.

    Each result set has the candidates of each feature: start_top_log_probs and start_top_index [starts];
    end_top_log_probs and end_top_index, [ends] in 1.1 and [starts * ends] in 2.0; and in 2.0 cls_logits [].
    """
    spans = []
    for index, feature in enumerate(features):
        spans += _averaged_spans(feature, [results[index] for results in result_sets], options)
    spans.sort(key=lambda span: span[2] + span[3], reverse=True)  # stable: on a tie, the first wins
    n_best = list(_different_texts(paragraph_text, spans, options))
    null_score = None
    if options.squad_version == "2.0":  # the smallest of the windows, averaged over the result sets
        null_score = sum(min((float(result["cls_logits"]) for result in results), default=NO_FEATURES_NULL_SCORE)
                         for results in result_sets) / len(result_sets)
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


def _different_texts(paragraph_text: str, spans: list, options: AnswerOptions) -> Iterator[Candidate]:
    """The candidates of the first n_best_size spans with different texts."""
    seen: set[str] = set()
    for first, last, start_log_prob, end_log_prob in spans:
        if len(seen) >= options.n_best_size:
            return
        if not options.release_compatible:
            last = end_of_character(paragraph_text, last + 1) - 1
        raw = paragraph_text[first : last + 1]
        text = raw.strip()
        if text not in seen:
            seen.add(text)
            yield Candidate(text, start_log_prob, end_log_prob, first + len(raw) - len(raw.lstrip()),
                            last - (len(raw) - len(raw.rstrip())))


# The score of an answer where there is no span at all, as in an exported SavedModel.
NO_SCORE = float(np.finfo(np.float32).min)
VERSION_OF_HEAD = dict(span="1.1", conditional_span="2.0")
# QuestionAnswerer: the number of windows of a batch. Lengths are padded to a multiple of the second number.
_BATCH, _LENGTH_STEP = 16, 64


class TextAnswer(NamedTuple):
    """The best answer to a question.

    Attributes:
      answer: context[start:end], or "" if there is none.
      start, end: positions of characters in the context.
      score: the sum of the scores of start and end of the best span, also if the model declines.
      no_answer_score: the logit that there is no answer; None for a model of SQuAD 1.1. The model declines if it is
        above the null_score_diff_threshold of its settings.
    """

    answer: str
    start: int
    end: int
    score: float
    no_answer_score: float | None


def answer_questions(
    model: PredictingModel, tokenizer: FullTokenizer, questions: Sequence[str], contexts: Sequence[str],
) -> list[TextAnswer]:
    """The best answer to each question. Contexts can have any length: they are divided into windows.

    Args:
      model: a fine-tuned AlbertSpan or AlbertConditionalSpan, or an exported one (from_onnx).
      tokenizer: the model's tokenizer.
      questions, contexts: as many contexts as questions.

    Raises:
      ValueError: the model has another head; the tokenizer is not the model's; an argument is not a list of strings; or
        their numbers differ.

    Example::

      model = albert_tf.from_onnx("squad_onnx")
      albert_tf.answer_questions(model, model.tokenizer, ["Who sold it?"], ["Ada sold the boat."])[0].answer
    """
    questions, contexts = list_of_strings("questions", questions), list_of_strings("contexts", contexts)
    if len(questions) != len(contexts):
        raise ValueError(f"there are {len(questions)} questions and {len(contexts)} contexts")
    checked_settings(model, tokenizer, SpanSettings)
    options = AnswerOptions.of(model)
    answerer = QuestionAnswerer(model, tokenizer, feature_options(model), options, length_step=1)
    results = []
    for answer in answerer.ask_all(list(zip(questions, contexts))):
        best, null_score = answer.n_best[0], answer.null_score
        score = NO_SCORE if best.first < 0 else best.score
        results.append(TextAnswer("", 0, 0, score, null_score) if best.first < 0 or options.declines(null_score) else
                       TextAnswer(best.text, best.first, best.last + 1, score, null_score))
    return results


def feature_options(model: PredictingModel) -> FeatureOptions:
    """How a model reads texts: by its arguments as far as they fit in its rows, or else in rows of 384 tokens."""
    settings = model.settings
    length = min(settings.max_seq_length or 384, model.config.max_position_embeddings)
    max_query_length = settings.max_query_length
    if not max_query_length or length <= max_query_length + SPECIAL_TOKENS:
        max_query_length = min(64, length // 2)
    doc_stride = default_doc_stride(length, max_query_length, settings.doc_stride or 128)
    return FeatureOptions(length, doc_stride, max_query_length, is_training=False)


class QuestionAnswerer:
    """Answers questions about texts of any length. Batches are padded to a multiple of length_step, for few graphs."""

    def __init__(self, model: PredictingModel, tokenizer: FullTokenizer, features: FeatureOptions,
                 options: AnswerOptions, length_step: int = _LENGTH_STEP):
        self._model, self._tokenizer, self._features, self._options = model, tokenizer, features, options
        self._length_step = length_step

    def ask(self, question: str, text: str) -> Answer:
        """The best answers to a question, with their offsets in the text."""
        if not question.strip() or not text.strip():
            raise ValueError(f"the {'text' if question.strip() else 'question'} is empty")
        return self.ask_all([(question, text)])[0]

    def ask_all(self, questions: Sequence[tuple[str, str]]) -> list[Answer]:
        """The best answers to each of several questions, which are given with their texts."""
        examples = [SquadExample(str(number), *question) for number, question in enumerate(questions)]
        blocks = list(feature_blocks([[example] for example in examples], self._tokenizer, self._features))
        results = itertools.chain.from_iterable(map(self._candidates, blocks))
        return [answer_question(each.qas_id, each.paragraph_text, each.windows,
                                [list(itertools.islice(results, len(each.windows)))], self._options)
                for each in question_windows(examples, blocks, self._tokenizer, self._features)]

    def _candidates(self, block: FeatureBlock) -> Iterator[dict[str, np.ndarray]]:
        """The candidates of each window, by name."""
        shortest = getattr(self._model, "beam_width", 1)
        longest = int(block.scalars["length"].max(initial=shortest))
        length = min(-(-longest // self._length_step) * self._length_step, self._features.max_seq_length)
        inputs = block.padded(length, self._tokenizer.pad_id)
        for first in range(0, len(block), _BATCH):
            batch = {name: values[first : first + _BATCH] for name, values in inputs.items()}
            outputs = candidates(self._model(batch), self._options)
            yield from (dict(zip(outputs, row)) for row in zip(*map(np.asarray, outputs.values())))


def describe(answer: Answer, count: int = 5, is_declined: bool = False) -> str:
    """The best answers as readable lines: probability (among the n best), start, end and text[start:end]."""
    rows: list[tuple[str, ...]] = [("share", "start", "end", "answer")]
    for candidate, probability in zip(answer.n_best[:count], answer.probabilities):
        offsets = (candidate.first, candidate.last + 1) if candidate.first >= 0 else ("-", "-")
        rows.append((f"{probability:.1%}", *map(str, offsets), " ".join(candidate.text.split())))
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join([*(cell.rjust(width) for cell, width in zip(row[:-1], widths)), row[-1]]).rstrip()
             for row in rows]
    if answer.null_score is not None:
        lines.append(f"no answer: {1 / (1 + np.exp(-answer.null_score)):.1%} (score {answer.null_score:.2f}"
                     f"{', so the model does not answer' if is_declined else ''})")
    return "\n".join(lines)

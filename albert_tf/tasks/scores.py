"""Scores Keras and exported models on a dev file of their task, to measure what an export loses by its precision."""

from __future__ import annotations

import dataclasses
import functools
from typing import Callable, Iterable, Mapping, NamedTuple

import numpy as np

from albert_tf.modeling.settings import PredictingModel
from albert_tf.tasks.classification import metrics as text_metrics
from albert_tf.tasks.classification.answers import text_logits
from albert_tf.tasks.classification.data import read_examples
from albert_tf.tasks.classification.table_format import TableFormat
from albert_tf.tasks.multiple_choice import answers as choices
from albert_tf.tasks.multiple_choice.data import read_json_examples
from albert_tf.tasks.sentence_vectors.vectors import text_vectors
from albert_tf.tasks.squad.answers import VERSION_OF_HEAD, answer_questions
from albert_tf.tasks.squad.metrics import evaluate_v1, evaluate_v2
from albert_tf.tasks.squad.reading import read_squad_file
from albert_tf.tasks.tagging import metrics as tag_metrics
from albert_tf.tasks.tagging.reading import read_tagged_text
from albert_tf.tasks.tagging.text_tags import tag_words
from albert_tf.text.tokenization import FullTokenizer

_ROUNDING = 1e-6  # of float32: the same outputs in another order of additions


class Score(NamedTuple):
    """The score of a model: the name of the metric and its value; higher is better."""

    name: str
    value: float

    def drop_to(self, other: Score) -> float:
        """By how much another score is lower, as a share of this one; negative if it is higher."""
        return (self.value - other.value) / abs(self.value) if self.value else -other.value


Scorer = Callable[[PredictingModel], Score]


def scorer(head: str, path: str, tokenizer: FullTokenizer, format: TableFormat | None = None) -> Scorer:
    """Reads a dev file. Returns a function from a model to its score on it.

    The file is one in the format of the task's dev file for a classifier or a sentence encoder, SQuAD's JSON for a span
    model, CoNLL for a tagger, and JSON lines for multiple choice. The score is the first metric of the task
    (classifier), Spearman's correlation of cosines with the labels (sentence encoder), F1 (SQuAD, and tags that mark
    entities) or accuracy (multiple choice, other tags).
    """
    heads = ("classifier", "sentence_encoder", *_WITHOUT_TASK)
    if head not in heads:
        raise ValueError(f"a model with the head {head} has no score: --score_data is for {', '.join(heads)}")
    if head in _WITHOUT_TASK:
        return _WITHOUT_TASK[head](path, tokenizer)
    if format is None:
        raise ValueError(f"--score_data={path} needs the task of its columns and labels: set --task_name or "
                         "--task_config")
    if head == "sentence_encoder":
        return _of_vectors(path, tokenizer, format)
    return _of_labels(path, tokenizer, format)


def _labelled(path: str, format: TableFormat) -> tuple[list[str], list[str | None], np.ndarray]:
    """The first texts, the second texts and the label ids of a file that has the format of the task's dev file."""
    source = dataclasses.replace(format.source("dev"), path=path)
    if "label" not in source.columns:
        raise ValueError(f"--score_data={path}: the dev file of {format.name} has no labels")
    try:
        examples = read_examples(dataclasses.replace(format, sources={"dev": source}), "", "dev")
    except ValueError as error:
        raise ValueError(f"--score_data must have labels, in the columns of {format.name}'s dev file: "
                         f"{error}") from error
    return ([example.text_a for example in examples], [example.text_b for example in examples],
            np.array([format.label_id(example.label) for example in examples]))


def _of_labels(path: str, tokenizer: FullTokenizer, format: TableFormat) -> Scorer:
    texts, pairs, label_ids = _labelled(path, format)

    def score(model: PredictingModel) -> Score:
        _check_labels(model, format)
        logits, name = text_logits(model, tokenizer, texts, [pair or "" for pair in pairs]), format.metrics[0]
        probabilities = logits if format.is_regression else model.settings.probabilities(logits).numpy()
        thresholds = model.settings.thresholds if format.multi_label else None
        return Score(name, text_metrics.evaluate(format, probabilities, label_ids, thresholds)[name])

    return score


def _check_labels(model: PredictingModel, format: TableFormat) -> None:
    """Raises ValueError if the model's labels cannot be the task's. The names may differ."""
    difference, settings = None, model.settings
    if model.num_labels != format.num_labels:
        difference = f"the model has {model.num_labels} labels and {format.name} has {format.num_labels}"
    elif settings.multi_label != format.multi_label:
        difference = (f"the model gives a text {'several labels' if settings.multi_label else 'one label'}, and "
                      f"{format.name} {'several' if format.multi_label else 'one'}")
    elif settings.label_names and settings.label_names != format.labels and sorted(settings.label_names) == sorted(
            format.labels or ()):
        difference = (f"the model's labels are {', '.join(settings.label_names)}, and those of {format.name} "
                      f"{', '.join(format.labels or ())}")
    if difference:
        raise ValueError(f"{difference}: set the task that the model was fine-tuned on")


def _of_vectors(path: str, tokenizer: FullTokenizer, format: TableFormat) -> Scorer:
    texts, pairs, expected = _labelled(path, format)
    if not format.is_regression or pairs[0] is None:
        raise ValueError(f"the task {format.name} must be a regression of two texts, as sts-b is")

    def score(model: PredictingModel) -> Score:
        first, second = (text_vectors(model, tokenizer, each) for each in (texts, [pair or "" for pair in pairs]))
        lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        cosines = np.sum(first * second, axis=1) / np.maximum(lengths, np.finfo(np.float32).tiny)
        return Score("spearman", text_metrics.correlations(expected, cosines)["spearman"])

    return score


def _of_answers(head: str, path: str, tokenizer: FullTokenizer) -> Scorer:
    file = read_squad_file(path)
    if not file.summary.has_answers:
        raise ValueError(f"--score_data={path} has no answers, so that predictions cannot be scored")
    questions = {question["id"]: (question["question"], paragraph["context"]) for article in file.articles
                 for paragraph in article["paragraphs"] for question in paragraph["qas"]}

    def score(model: PredictingModel) -> Score:
        answers = dict(zip(questions, answer_questions(
            model, tokenizer, *(list(column) for column in zip(*questions.values())))))
        predictions = {qas_id: answer.answer for qas_id, answer in answers.items()}
        if VERSION_OF_HEAD[head] == "1.1":
            return Score("f1", evaluate_v1(file.articles, predictions)["f1"])
        null_scores = {qas_id: answer.no_answer_score or 0.0 for qas_id, answer in answers.items()}
        return Score("best_f1", evaluate_v2(file.articles, predictions, null_scores)["best_f1"])

    return score


def _of_tags(path: str, tokenizer: FullTokenizer) -> Scorer:
    text = read_tagged_text(path)
    text.check_has_tags()

    def score(model: PredictingModel) -> Score:
        names = model.settings.label_names
        if not names:
            raise ValueError("the model has no names of its tags, so that they cannot be compared with the tags of "
                             f"--score_data={path}")
        probabilities = np.concatenate(tag_words(model, tokenizer, [each.words for each in text.sentences]))
        name = tag_metrics.best_metric(names)
        return Score(name, tag_metrics.evaluate(text, probabilities, names)[name])

    return score


def _of_choices(path: str, tokenizer: FullTokenizer) -> Scorer:
    examples = read_json_examples(path)
    unlabelled = next((number for number, example in enumerate(examples, start=1) if example.label is None), None)
    if unlabelled:
        raise ValueError(f"--score_data={path}: question {unlabelled} has no answer")

    def score(model: PredictingModel) -> Score:
        most = max(len(example.options) for example in examples)
        num_choices = model.settings.num_choices
        if most > num_choices:
            raise ValueError(f"--score_data={path} has a question with {most} options, and the model chooses one of "
                             f"{num_choices}")
        options = [[*example.options, *[""] * (num_choices - len(example.options))] for example in examples]
        probabilities = choices.choose_options(model, tokenizer, [example.context for example in examples],
                                               [example.question for example in examples], options)
        name = choices.BEST_METRIC
        return Score(name, choices.evaluate(examples, probabilities)[name])

    return score


_WITHOUT_TASK: Mapping[str, Callable[[str, FullTokenizer], Scorer]] = dict(
    token_classifier=_of_tags, multiple_choice=_of_choices,
    **{head: functools.partial(_of_answers, head) for head in VERSION_OF_HEAD})


def check_scores(
    score: Scorer, model: PredictingModel, exports: Iterable[tuple[str, Callable[[], PredictingModel]]],
    max_score_drop: float | None,
) -> None:
    """Prints the scores of a model and of each export.

    Args:
      exports: the name of each precision, and a function that opens the export.
      max_score_drop: the largest loss that is allowed, as a share of the model's score; None for any.
    """
    before = score(model)
    print(f"{before.name} of the model: {before.value:.4f}", flush=True)
    for precision, opened in exports:
        after = score(opened())
        drop = before.drop_to(after)
        print(f"{after.name} in {precision}: {after.value:.4f} ({round(-drop, 4) + 0.0:+.2%})", flush=True)
        if max_score_drop is not None and drop > max_score_drop + _ROUNDING:
            raise ValueError(f"in {precision}, {after.name} is {after.value:.4f}, {drop:.2%} below the model's "
                             f"{before.value:.4f}, and --max_score_drop={max_score_drop:g} allows "
                             f"{max_score_drop:.2%}: nothing is written. Export without this precision, or allow more")

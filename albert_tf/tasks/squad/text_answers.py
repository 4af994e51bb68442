"""Answers questions about raw texts with a fine-tuned model, Keras or exported."""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from albert_tf.modeling.predicting_model import PredictingModel
from albert_tf.tasks.squad.answers import Answer, AnswerOptions, QuestionAnswerer
from albert_tf.tasks.squad.features import SPECIAL_TOKENS, FeatureOptions, default_doc_stride
from albert_tf.tasks.squad.task import ConditionalSpanTask, SpanTask
from albert_tf.text.tokenization import FullTokenizer, list_of_strings
from albert_tf.weights.heads import check_reads_texts, head_of

# The score of an answer where there is no span at all, as in an exported SavedModel.
NO_SCORE = float(np.finfo(np.float32).min)
VERSION_OF_HEAD = dict(span="1.1", conditional_span="2.0")


class TextAnswer(NamedTuple):
    """The best answer to a question.

    Args:
      answer: a part of the context; "" if there is none.
      start, end: the answer's first character in the context and one past its last: context[start:end] is the answer.
      score: the sum of the scores of start and end.
      no_answer_score: the logit that there is no answer; None for a model of SQuAD 1.1.
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
    return [_text_answer(answer) for answer in answerer_of(model, tokenizer).ask_all(list(zip(questions, contexts)))]


def answerer_of(model: PredictingModel, tokenizer: FullTokenizer) -> QuestionAnswerer:
    """A QuestionAnswerer with the settings of a model.

    Raises:
      ValueError: the model has another head, or the tokenizer is not the model's.
    """
    check_reads_texts(model, tokenizer, *VERSION_OF_HEAD)
    version = VERSION_OF_HEAD[head_of(model).name]
    task = SpanTask(model) if version == "1.1" else ConditionalSpanTask(model)  # type: ignore[arg-type]
    return QuestionAnswerer(task, tokenizer, feature_options(model), AnswerOptions(version), length_step=1)


def feature_options(model: PredictingModel) -> FeatureOptions:
    """How a model reads questions and contexts: by its arguments, or else in rows of at most 384 tokens.

    Windows and questions that are too long for the rows were stored for longer rows, and get their defaults.
    """
    length = min(model.max_seq_length or 384, model.config.max_position_embeddings)
    max_query_length = model.max_query_length
    if not max_query_length or length <= max_query_length + SPECIAL_TOKENS:
        max_query_length = min(64, length // 2)
    doc_stride = default_doc_stride(length, max_query_length, model.doc_stride or 128)
    return FeatureOptions(length, doc_stride, max_query_length, is_training=False)


def _text_answer(answer: Answer) -> TextAnswer:
    best = answer.n_best[0]
    if best.first < 0:
        return TextAnswer("", 0, 0, NO_SCORE, answer.null_score)
    return TextAnswer(best.text, best.first, best.last + 1, best.score, answer.null_score)

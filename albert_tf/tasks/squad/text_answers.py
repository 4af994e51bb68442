"""Answers questions about raw texts with a fine-tuned model, Keras or exported.

QuestionAnswerer also answers them one by one (run_squad.py --ask).
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from albert_tf.modeling.arguments import PredictingModel
from albert_tf.tasks.squad.answers import Answer, AnswerOptions, answer_question
from albert_tf.tasks.squad.features import (
    SPECIAL_TOKENS,
    FeatureBlock,
    FeatureOptions,
    SquadFeature,
    default_doc_stride,
    feature_blocks,
)
from albert_tf.tasks.squad.reading import SquadExample
from albert_tf.tasks.squad.task import ConditionalSpanTask, SpanTask
from albert_tf.text.tokenization import FullTokenizer, list_of_strings
from albert_tf.weights.heads import check_reads_texts, head_of

# The score of an answer where there is no span at all, as in an exported SavedModel.
NO_SCORE = float(np.finfo(np.float32).min)
VERSION_OF_HEAD = dict(span="1.1", conditional_span="2.0")
# QuestionAnswerer: the number of windows of a batch. Lengths are padded to a multiple of the second number.
_BATCH, _LENGTH_STEP = 16, 64


class TextAnswer(NamedTuple):
    """The best answer to a question.

    The answer is context[start:end], or "" if there is none. The score is the sum of the scores of start and end. The
    no_answer_score is the logit that there is no answer; None for a model of SQuAD 1.1.
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
    check_reads_texts(model, tokenizer, *VERSION_OF_HEAD)
    version = VERSION_OF_HEAD[head_of(model).name]
    task = SpanTask(model) if version == "1.1" else ConditionalSpanTask(model)  # type: ignore[arg-type]
    answerer = QuestionAnswerer(task, tokenizer, feature_options(model), AnswerOptions(version), length_step=1)
    results = []
    for answer in answerer.ask_all(list(zip(questions, contexts))):
        best, null_score = answer.n_best[0], answer.null_score
        results.append(TextAnswer("", 0, 0, NO_SCORE, null_score) if best.first < 0 else
                       TextAnswer(best.text, best.first, best.last + 1, best.score, null_score))
    return results


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


# --- single questions ------------------------------------------------------------------------------------------------


class QuestionAnswerer:
    """Answers questions about texts of any length.

    Batches are padded to a multiple of length_step. Few lengths are faster in TensorFlow.
    """

    def __init__(self, task, tokenizer: FullTokenizer, features: FeatureOptions, options: AnswerOptions,
                 length_step: int = _LENGTH_STEP):
        self._task, self._tokenizer, self._features, self._options = task, tokenizer, features, options
        self._length_step = length_step

    def ask(self, question: str, text: str) -> Answer:
        """The best answers to a question, with their offsets in the text."""
        if not question.strip() or not text.strip():
            raise ValueError(f"the {'text' if question.strip() else 'question'} is empty")
        return self.ask_all([(question, text)])[0]

    def ask_all(self, questions: Sequence[tuple[str, str]]) -> list[Answer]:
        """The best answers to each of several questions, which are given with their texts."""
        examples = [SquadExample(str(number), *question) for number, question in enumerate(questions)]
        windows: dict[str, list[SquadFeature]] = {example.qas_id: [] for example in examples}
        results: dict[str, list[dict[str, np.ndarray]]] = {example.qas_id: [] for example in examples}
        for block in feature_blocks([[example] for example in examples], self._tokenizer, self._features):
            if not len(block):
                continue
            for feature in block.features(self._tokenizer, self._features.max_seq_length, 0, is_training=False):
                windows[feature.qas_id].append(feature)
            for qas_id, result in zip(block.qas_ids, self._candidates(block)):
                results[qas_id].append(result)
        return [answer_question(example.qas_id, example.paragraph_text, windows[example.qas_id],
                                [results[example.qas_id]], self._options) for example in examples]

    def _candidates(self, block: FeatureBlock) -> list[dict[str, np.ndarray]]:
        """The candidates of each window, by name."""
        shortest = getattr(self._task.model, "beam_width", 1)
        longest = int(block.scalars["length"].max(initial=shortest))
        length = min(-(-longest // self._length_step) * self._length_step, self._features.max_seq_length)
        inputs = block.padded(length, self._tokenizer.pad_id)
        results: list[dict[str, np.ndarray]] = []
        for first in range(0, len(block), _BATCH):
            batch = {name: values[first : first + _BATCH] for name, values in inputs.items()}
            outputs = self._task.predictions(self._task.model(batch, training=False))
            columns = [np.asarray(values) for values in outputs.values()]
            results += [dict(zip(outputs, row)) for row in zip(*columns)]
        return results


def describe(answer: Answer, count: int = 5) -> str:
    """The best answers as readable lines: probability (among the n best), start, end and text.

    start and end are those of an exported model: text[start:end] is the answer. An empty answer has neither.
    """
    rows: list[tuple[str, ...]] = [("share", "start", "end", "answer")]
    for candidate, probability in zip(answer.n_best[:count], answer.probabilities):
        offsets = (candidate.first, candidate.last + 1) if candidate.first >= 0 else ("-", "-")
        rows.append((f"{probability:.1%}", *map(str, offsets), " ".join(candidate.text.split())))
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join([*(cell.rjust(width) for cell, width in zip(row[:-1], widths)), row[-1]]).rstrip()
             for row in rows]
    if answer.null_score is not None:
        lines.append(f"no answer: {1 / (1 + np.exp(-answer.null_score)):.1%} (score {answer.null_score:.2f})")
    return "\n".join(lines)

"""SquadReader: answers questions about a text, one by one (run_squad.py --ask)."""

from __future__ import annotations

import numpy as np

from albert_tf.tasks.squad.answers import Answer, AnswerOptions, Candidate, answer_question
from albert_tf.tasks.squad.features import FeatureOptions, feature_blocks
from albert_tf.tasks.squad.reading import SquadExample
from albert_tf.text.tokenization import FullTokenizer

# The number of windows of a batch. Lengths are padded to a multiple of the second number.
_BATCH, _LENGTH_STEP = 16, 64


class SquadReader:
    """Answers questions about texts of any length.

    Args:
      task: SpanTask or ConditionalSpanTask with a fine-tuned model.
      tokenizer: the model's tokenizer.
      features: how the text is divided into windows; is_training must be False.
      options: how answers are chosen.
    """

    def __init__(self, task, tokenizer: FullTokenizer, features: FeatureOptions, options: AnswerOptions):
        self._task, self._tokenizer, self._features, self._options = task, tokenizer, features, options

    def ask(self, question: str, text: str) -> Answer:
        """The best answers to a question, with their offsets in the text.

        Raises:
          ValueError: the question or the text is empty.
        """
        if not question.strip() or not text.strip():
            raise ValueError(f"the {'text' if question.strip() else 'question'} is empty")
        example = SquadExample("question", question, text)
        (block,) = feature_blocks([[example]], self._tokenizer, self._features)
        windows = list(block.features(self._tokenizer, self._features.max_seq_length, 0, is_training=False))
        shortest = getattr(self._task.model, "beam_width", 1)
        longest = int(block.lengths.max(initial=shortest))
        length = min(-(-longest // _LENGTH_STEP) * _LENGTH_STEP, self._features.max_seq_length)
        inputs = block.padded(length, self._tokenizer.pad_id)
        results = []
        for first in range(0, len(block), _BATCH):
            batch = {name: values[first : first + _BATCH] for name, values in inputs.items()}
            outputs = self._task.predictions(self._task.model(batch, training=False))
            columns = [np.asarray(values) for values in outputs.values()]
            results += [dict(zip(outputs, row)) for row in zip(*columns)]
        return answer_question(example.qas_id, text, windows, [results], self._options)


def describe(answer: Answer, count: int = 5) -> str:
    """The best answers as readable lines: probability (among the n best), start, end and text.

    start and end are those of an exported model: text[start:end] is the answer. An empty answer has neither.
    """
    rows = [(f"{probability:.1%}", *(map(str, _offsets(candidate))), " ".join(candidate.text.split()))
            for candidate, probability in zip(answer.n_best[:count], answer.probabilities)]
    rows.insert(0, ("share", "start", "end", "answer"))
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join([*(cell.rjust(width) for cell, width in zip(row[:-1], widths)), row[-1]]).rstrip()
             for row in rows]
    if answer.null_score is not None:
        lines.append(f"no answer: {1 / (1 + np.exp(-answer.null_score)):.1%} (score {answer.null_score:.2f})")
    return "\n".join(lines)


def _offsets(candidate: Candidate) -> tuple[int | str, int | str]:
    """The first character of a candidate, and one past its last."""
    return (candidate.first, candidate.last + 1) if candidate.first >= 0 else ("-", "-")

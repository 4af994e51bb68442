"""A multiple-choice question as it is in a data set."""

from __future__ import annotations

import string
from typing import Any, NamedTuple

FEWEST_CHOICES, MOST_CHOICES = 2, 10
# In a question, this character is replaced by the option.
BLANK = "_"
# The name that results of all questions have in the place of a level's: eval_accuracy.
ALL_LEVELS = "eval"


class MultipleChoiceExample(NamedTuple):
    """A multiple-choice question. Its texts are those of the file.

    Args:
      example_id: the id of its passage.
      context: the passage; "" if there is none.
      question: the question. An option replaces each "_" in it, or is appended if it has none.
      options: the choices.
      label: the index of the correct option, from 0; None if unknown.
      level: the group in which the question is also scored ("middle" or "high" in RACE); "" for no group.
    """

    example_id: str
    context: str
    question: str
    options: tuple[str, ...]
    label: int | None = None
    level: str = ""

    @property
    def endings(self) -> tuple[str, ...]:
        """The question joined with each option."""
        return tuple(join(self.question, option) for option in self.options)


def join(question: str, option: str) -> str:
    """Joins question and option: the option replaces each "_", or is appended if there is none."""
    return question.replace(BLANK, option) if BLANK in question else f"{question} {option}"


def checked_example(
    place: str, example_id: Any, context: Any, question: Any, options: Any, answer: Any, level: str = ""
) -> MultipleChoiceExample:
    """Checks values that were read from a file and returns them as an example.

    Args:
      place: file and line of the values, for error messages.
      example_id, context, question, options, level: see MultipleChoiceExample.
      answer: the letter of the correct option, or None.

    Raises:
      ValueError: a value has the wrong type, there are too few or too many options, the answer is not one of them, or
        the level is "eval", whose accuracy would have the name of the accuracy of all.
    """
    for name, text in (("question", question), ("context", context)):
        if not isinstance(text, str):
            raise ValueError(f"{place}: the {name} must be a text. Received: {_shown(text)}")
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        raise ValueError(f"{place}: the options must be a list of texts. Received: {_shown(options)}")
    if not FEWEST_CHOICES <= len(options) <= MOST_CHOICES:
        raise ValueError(f"{place}: a question must have {FEWEST_CHOICES} to {MOST_CHOICES} options. "
                         f"Received: {len(options)} options")
    if level == ALL_LEVELS:
        raise ValueError(f"{place}: the level must not be {level!r}, since {level}_accuracy is the accuracy of all "
                         "questions: give it another name")
    label = None if answer is None else _label(place, answer, len(options))
    return MultipleChoiceExample(str(example_id), context, question, tuple(options), label, level)


def letters(num_options: int) -> str:
    """The letters of the options in answers: "ABCD" for four options."""
    return string.ascii_uppercase[:num_options]


def _label(place: str, answer: Any, num_options: int) -> int:
    names = letters(num_options)
    letter = answer.strip().upper() if isinstance(answer, str) else ""
    if len(letter) != 1 or letter not in names:
        raise ValueError(f"{place}: the answer must be a letter from A to {names[-1]}. Received: {_shown(answer)}")
    return names.index(letter)


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:40]

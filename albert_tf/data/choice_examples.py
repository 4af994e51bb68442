"""A question with choices, as it stands in a data set."""

from __future__ import annotations

import string
from typing import Any, NamedTuple

FEWEST_CHOICES, MOST_CHOICES = 2, 10
# In a question it stands for the option.
BLANK = "_"


class MultipleChoiceExample(NamedTuple):
    """A question, its texts as they are in the file.

    Args:
      example_id: the name of its passage.
      context: the passage; "" where there is none.
      question: where it has a "_", an option is put in its place, else behind it.
      options: the choices.
      label: the right one, from 0; None where nobody says.
      level: what it is scored together with: "middle" or "high"; "" for nothing.
    """

    example_id: str
    context: str
    question: str
    options: tuple[str, ...]
    label: int | None = None
    level: str = ""

    @property
    def endings(self) -> tuple[str, ...]:
        """The question with each option in it."""
        return tuple(join(self.question, option) for option in self.options)


def join(question: str, option: str) -> str:
    """The question with the option in the place of every "_", or behind it where there is none."""
    return question.replace(BLANK, option) if BLANK in question else f"{question} {option}"


def checked_example(
    place: str, example_id: Any, context: Any, question: Any, options: Any, answer: Any, level: str = ""
) -> MultipleChoiceExample:
    """An example of values that were read.

    Args:
      place: where they stand, for errors.
      example_id, context, question, options, level: see MultipleChoiceExample.
      answer: the letter of the right option, or None.

    Raises:
      ValueError: a value is of another kind, there are too few or too many options, or the answer is none of them.
    """
    for name, text in (("question", question), ("context", context)):
        if not isinstance(text, str):
            raise ValueError(f"{place}: the {name} must be a text. Received: {_shown(text)}")
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        raise ValueError(f"{place}: the options must be a list of texts. Received: {_shown(options)}")
    if not FEWEST_CHOICES <= len(options) <= MOST_CHOICES:
        raise ValueError(f"{place}: there are {len(options)} options, and there must be {FEWEST_CHOICES} to "
                         f"{MOST_CHOICES}")
    label = None if answer is None else _label(place, answer, len(options))
    return MultipleChoiceExample(str(example_id), context, question, tuple(options), label, level)


def letters(num_options: int) -> str:
    """What the options are called in answers: "ABCD" for four."""
    return string.ascii_uppercase[:num_options]


def _label(place: str, answer: Any, num_options: int) -> int:
    names = letters(num_options)
    letter = answer.strip().upper() if isinstance(answer, str) else ""
    if len(letter) != 1 or letter not in names:
        raise ValueError(f"{place}: the answer must be a letter from A to {names[-1]}. Received: {_shown(answer)}")
    return names.index(letter)


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:40]

"""SQuAD files -> paragraphs with their questions (release: squad_utils.read_squad_examples).

A file is checked as it is read: what is wrong is named by its place, "data[3].paragraphs[0].qas[2]". What a person may
want to know about the questions and need not stop for is counted in ReadingNotes.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Iterator, NamedTuple, Sequence

from absl import logging

from albert_tf.data.squad.json_stream import stream_array
from albert_tf.json_files import check_characters

VERSIONS = ("1.1", "2.0")
MISPLACED_ANSWERS = ("find", "leave_out")
_SHOWN = 5


@dataclasses.dataclass
class SquadExample:
    """A question about a paragraph.

    Args:
      qas_id: its id.
      question_text, paragraph_text: as in the file.
      orig_answer_text: the answer, in training; "" where there is none.
      start_position: the answer's first character in the paragraph, in training; -1 where there is none.
      end_position: None, as in the release.
      is_impossible: whether, in training, there is no answer.
    """

    qas_id: str
    question_text: str
    paragraph_text: str
    orig_answer_text: str | None = None
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False

    @property
    def answer(self) -> tuple[str, int]:
        """The answer's text and its first character in the paragraph.

        Raises:
          ValueError: the example was read for prediction, without an answer.
        """
        if self.orig_answer_text is None or self.start_position is None:
            raise ValueError(f"question {self.qas_id} has no answer: read the examples with is_training=True")
        return self.orig_answer_text, self.start_position


@dataclasses.dataclass
class ReadingNotes:
    """What happened to questions on the way; the first few of each kind are shown as they come."""

    questions: int = 0
    found_nearby: int = 0
    left_out: int = 0
    empty: int = 0

    def note(self, kind: str, message: str) -> None:
        """Counts a question of a kind (a field's name), and logs the message of the first few."""
        count = getattr(self, kind) + 1
        setattr(self, kind, count)
        if count <= _SHOWN:
            logging.warning("%s", message)

    def __str__(self):
        parts = [f"{self.questions:,} questions"]
        parts += [f"{self.found_nearby:,} answers found beside their answer_start"] if self.found_nearby else []
        parts += [f"{self.left_out:,} left out: their answer is not where it should be"] if self.left_out else []
        parts += [f"{self.empty:,} with an empty context or question"] if self.empty else []
        return "; ".join(parts)


def read_squad_examples(input_file: str, is_training: bool, misplaced_answers: str = "find") -> list[SquadExample]:
    """The questions of a file, in order.

    Args:
      input_file: JSON of SQuAD 1.1 or 2.0.
      is_training: whether answers are read. Of several, the first one counts.
      misplaced_answers: in training, what is done where answer_start does not match the answer's text: "find" takes the
        nearest place where it stands, "leave_out" leaves the question out. One that stands nowhere is left out.

    Raises:
      ValueError: the file is no SQuAD file, an id is there twice, or there are no questions; file and place are named.
    """
    notes = ReadingNotes()
    paragraphs = read_paragraphs(input_file, is_training, misplaced_answers, notes)
    examples = [example for paragraph in paragraphs for example in paragraph]
    logging.info("%s: %s", input_file, notes)
    return examples


def read_paragraphs(
    input_file: str, is_training: bool, misplaced_answers: str = "find", notes: ReadingNotes | None = None
) -> Iterator[list[SquadExample]]:
    """The questions of each paragraph that has some, one article in memory at a time.

    Args:
      input_file, is_training, misplaced_answers: see read_squad_examples.
      notes: are added to.

    Raises: as read_squad_examples, when the place is met.
    """
    if misplaced_answers not in MISPLACED_ANSWERS:
        raise ValueError(f"misplaced_answers must be one of {', '.join(MISPLACED_ANSWERS)}. "
                         f"Received: {misplaced_answers}")
    notes, ids = ReadingNotes() if notes is None else notes, set()
    for place, paragraph in _raw_paragraphs(input_file):
        context, examples = _field(paragraph, "context", str, place), []
        for i, question in enumerate(_field(paragraph, "qas", list, place)):
            example = _example(question, context, f"{place}.qas[{i}]", is_training)
            if example.qas_id in ids:
                raise ValueError(f"{place}.qas[{i}]: the id {example.qas_id!r} is there twice")
            ids.add(example.qas_id)
            notes.questions += 1
            if not context.strip() or not example.question_text.strip():
                notes.note("empty", f"question {example.qas_id}: its context or the question itself is empty")
            if not is_training or _has_place(example, misplaced_answers, notes):
                examples.append(example)
        if examples:
            yield examples
    _check_not_empty(input_file, articles=1, questions=len(ids))


class Survey(NamedTuple):
    """What a file is.

    Args:
      version: "1.1" or "2.0": what the file says, else 2.0 where a question has is_impossible.
      questions: their number.
      has_answers: whether there are answers to score with.
      dataset: with with_answers, a "data" list for tasks/squad_metrics.py that has nothing but what scores depend on:
        the questions' ids and the texts of their answers.
    """

    version: str
    questions: int
    has_answers: bool
    dataset: Sequence[dict] = ()


def survey(input_file: str, with_answers: bool = False) -> Survey:
    """Looks through a file.

    Args:
      input_file: the JSON.
      with_answers: whether to keep what scores depend on.

    Raises:
      ValueError: it is no SQuAD file, has no questions, or an answer has no text.
    """
    said, article, questions, has_is_impossible, has_answers, scored = None, 0, 0, False, False, []
    for key, value in stream_array(input_file, "data"):
        if key == "version":
            said = str(value).lstrip("v")
        elif key == "data":
            for place, paragraph in _paragraphs_of(value, f"{input_file}: data[{article}]"):
                for i, question in enumerate(_field(paragraph, "qas", list, place)):
                    questions += 1
                    fields = question if isinstance(question, dict) else {}  # reading it tells what is wrong
                    texts = _answer_texts(fields, f"{place}.qas[{i}]")
                    has_is_impossible |= "is_impossible" in fields
                    has_answers |= bool(texts)
                    if with_answers:
                        answers = [dict(text=text) for text in dict.fromkeys(texts)]
                        scored.append(dict(id=fields.get("id"), answers=answers))
            article += 1
    _check_not_empty(input_file, article, questions)
    version = said if said in VERSIONS else "2.0" if has_is_impossible else "1.1"
    dataset = (dict(paragraphs=[dict(qas=scored)]),) if with_answers else ()
    return Survey(version, questions, has_answers, dataset)


def _raw_paragraphs(input_file: str) -> Iterator[tuple[str, dict]]:
    """Each paragraph with the name of its place."""
    article = 0
    for key, value in stream_array(input_file, "data"):
        if key == "data":
            yield from _paragraphs_of(value, f"{input_file}: data[{article}]")
            article += 1
    _check_not_empty(input_file, article)


def _check_not_empty(input_file: str, articles: int, questions: int | None = None) -> None:
    if not articles:
        raise ValueError(f"{input_file} is no SQuAD file: it has no articles in \"data\"")
    if questions == 0:
        raise ValueError(f"{input_file} has no questions")


def _paragraphs_of(article: Any, place: str) -> Iterator[tuple[str, dict]]:
    for i, paragraph in enumerate(_field(article, "paragraphs", list, place)):
        yield f"{place}.paragraphs[{i}]", paragraph


def _answer_texts(question: dict, place: str) -> list[str]:
    """What there is to score with. What is no answer is told here, and not when training is over."""
    if question.get("answers") is None:
        return []
    return [_field(answer, "text", str, f"{place}.answers[{i}]")
            for i, answer in enumerate(_field(question, "answers", list, place))]


def _example(question: Any, context: str, place: str, is_training: bool) -> SquadExample:
    qas_id, text = _field(question, "id", str, place), _field(question, "question", str, place)
    example = SquadExample(qas_id, text, context)
    if not is_training:
        return example
    if "is_impossible" in question and _field(question, "is_impossible", bool, place):
        return dataclasses.replace(example, orig_answer_text="", start_position=-1, is_impossible=True)
    answers = _field(question, "answers", list, place)
    if not answers:
        raise ValueError(f"{place}: no answer to train on; one without an answer has \"is_impossible\": true")
    answer, start = (_field(answers[0], name, kind, f"{place}.answers[0]")
                     for name, kind in (("text", str), ("answer_start", int)))
    return dataclasses.replace(example, orig_answer_text=answer, start_position=start)


def _has_place(example: SquadExample, misplaced_answers: str, notes: ReadingNotes) -> bool:
    """Whether the answer stands where it should, or else is put where it stands nearby."""
    (answer, start), context = example.answer, example.paragraph_text
    if example.is_impossible:
        return bool(context.strip())
    if answer and start >= 0 and context.startswith(answer, start):
        return True
    where = f"question {example.qas_id}: {answer!r} does not stand at answer_start {start}"
    start = max(0, min(start, len(context)))
    before, after = context.rfind(answer, 0, start + len(answer)), context.find(answer, start)
    places = [place for place in (before, after) if place >= 0]
    if misplaced_answers == "leave_out" or not places or not answer:
        notes.note("left_out", f"{where}: left out")
        return False
    example.start_position = min(places, key=lambda place: abs(place - start))
    notes.note("found_nearby", f"{where}: found at {example.start_position}")
    return True


def _field(value: Any, name: str, kind: type, place: str) -> Any:
    found = value.get(name) if isinstance(value, dict) else None
    if type(found) is not kind:  # not isinstance: true is no whole number
        names = {str: "a text", list: "a list", int: "a whole number", bool: "true or false"}
        raise ValueError(f"{place}: {name!r} should be {names[kind]}. Received: {str(found)[:40]!r}")
    if isinstance(found, str):
        check_characters(found, f"{place}: {name!r}")
    return found

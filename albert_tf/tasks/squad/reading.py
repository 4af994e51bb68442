"""Reads SQuAD files (release: squad_utils.read_squad_examples).

A file is SQuAD's JSON, or has a row for each question, as data sets of Hugging Face: JSON lines, Parquet, or a JSON
list, which may be the value of "data". A row has id, context, question, and answers: an object with the lists text and
answer_start.

A file is read once, as a whole. An error has the path of the wrong value, such as "data[3].paragraphs[0].qas[2]", or
the line of the row. Problems that need not stop the run are counted in ReadingNotes.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import re
import reprlib
import unicodedata
from typing import Any, Iterator, NamedTuple

from absl import logging

from albert_tf.data.rows import is_of_objects, read_objects
from albert_tf.utils.files import check_characters, decode_utf8, parse_unchecked, read_bytes

VERSIONS = ("1.1", "2.0")
_MOST_WARNINGS = 5  # of each problem
FOUND_NEARBY, LEFT_OUT = "answers found near their answer_start", "left out: their answer is not at answer_start"
EMPTY = "with an empty context or question"


@dataclasses.dataclass
class SquadExample:
    """A question about a paragraph. The answer and is_impossible are of training."""

    qas_id: str
    question_text: str
    paragraph_text: str
    orig_answer_text: str | None = None  # "" if there is none
    start_position: int | None = None  # the offset of the answer in the paragraph, -1 if there is none
    end_position: int | None = None  # as in the release
    is_impossible: bool = False

    @property
    def answer(self) -> tuple[str, int]:
        """The answer's text and its offset in the paragraph."""
        if self.orig_answer_text is None or self.start_position is None:
            raise ValueError(f"question {self.qas_id} has no answer: read the examples with is_training=True")
        return self.orig_answer_text, self.start_position


class ReadingNotes(collections.Counter):
    """Numbers of questions, and of questions with problems. The first few of each problem are also logged."""

    def note(self, problem: str, message: str) -> None:
        """Counts a problem, and logs the message of the first few."""
        self[problem] += 1
        if self[problem] <= _MOST_WARNINGS:
            logging.warning("%s", message)

    def __str__(self) -> str:
        return "; ".join(f"{count:,} {what}" for what, count in self.items())


class DatasetSummary(NamedTuple):
    """A summary of a file. If the file has no version, it is "2.0" if any question has is_impossible."""

    version: str
    questions: int
    has_answers: bool


class SquadFile(NamedTuple):
    """A SQuAD file: the digest of its bytes, its "data" list and a summary of the list.

    Rows are made to such a list; `locations` has the file and line of each row, for error messages.
    """

    path: str
    sha256: str
    articles: list
    summary: DatasetSummary
    locations: list[str] | None = None


def read_squad_file(path: str) -> SquadFile:
    """Reads a SQuAD 1.1 or 2.0 file. read_paragraphs checks its questions."""
    content = read_bytes(path)
    sha256 = hashlib.sha256(content).hexdigest()
    has_lines = is_of_objects(path) and not path.endswith(".json") or _has_lines(content)
    text = "" if has_lines else decode_utf8(content, path)
    del content  # with the text and its values, the bytes would be a third copy
    root = None if has_lines else parse_unchecked(text, path)
    rows, version = _rows(path, root), root.get("version") if isinstance(root, dict) else None
    if rows is not None:
        articles, locations = _of_rows(rows), [location for location, _ in rows]
        return SquadFile(path, sha256, articles, _summary(path, articles, version, locations), locations)
    if not isinstance(root, dict):
        raise ValueError(f"{path} is not a SQuAD file: expected '{{', got {text.strip()[:40]!r}")
    articles = root.get("data", [])
    articles = articles if isinstance(articles, list) else [articles]  # reported as data[0]
    return SquadFile(path, sha256, articles, _summary(path, articles, version))


def _rows(path: str, root: Any) -> list[tuple[str, Any]] | None:
    """The rows of a JSON value, or of the file's lines if it is None, as (where it is, row); None for other JSON."""
    if root is None:
        return [(f"{path} line {line}", row) for line, row in read_objects(path)]
    values = root.get("data") if isinstance(root, dict) else root
    if isinstance(values, list) and values and isinstance(values[0], dict) and "question" in values[0]:
        return [(f"{path}: data[{i}]", row) for i, row in enumerate(values)]
    return None


def _has_lines(content: bytes) -> bool:
    """Whether the first of several lines is a question, as in JSON lines."""
    first, _, rest = content.strip().partition(b"\n")
    try:
        return bool(rest) and "question" in json.loads(first)
    except (ValueError, TypeError, RecursionError):
        return False


def _of_rows(rows: list[tuple[str, Any]]) -> list:
    """The "data" list of (where it is in the file, row). If some have no answer, those are impossible (SQuAD 2.0)."""
    paragraphs: list[dict] = []
    questions = []
    for location, row in rows:
        context, question = _field(row, "context", str, location), dict(row)
        if isinstance(question.get("answers"), dict):
            question["answers"] = _listed(question["answers"], location)
        if not paragraphs or paragraphs[-1]["context"] != context:
            paragraphs.append(dict(context=context, qas=[]))
        paragraphs[-1]["qas"].append(question)
        questions.append(question)
    if len({bool(question.get("answers")) for question in questions}) == 2:
        for question in questions:
            question.setdefault("is_impossible", not question.get("answers"))
    return [dict(title="", paragraphs=paragraphs)]


def _listed(answers: dict, location: str) -> list[dict]:
    """The answers of a row as a list of objects."""
    columns = list(answers.values())
    if not all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        raise ValueError(f"{location}: 'answers' must have lists of the same length. Received: {reprlib.repr(answers)}")
    return [dict(zip(answers, values)) for values in zip(*columns)]


def _summary(path: str, articles: list, version: Any, locations: list[str] | None = None) -> DatasetSummary:
    questions, has_is_impossible, has_answers = 0, False, False
    for _, paragraph_questions in _raw_paragraphs(path, articles, locations):
        for location, question in paragraph_questions:
            questions += 1
            fields = question if isinstance(question, dict) else {}  # read_paragraphs reports the error
            has_is_impossible |= "is_impossible" in fields
            has_answers |= bool(_answer_texts(fields, location))
    if not articles:
        raise ValueError(f"{path} is not a SQuAD file: it has no articles in \"data\"")
    if not questions:
        raise ValueError(f"{path} has no questions")
    said = str(version).lstrip("v")
    return DatasetSummary(said if said in VERSIONS else "2.0" if has_is_impossible else "1.1", questions, has_answers)


def read_squad_examples(input_file: str, is_training: bool) -> list[SquadExample]:
    """The questions of a file, in order.

    Args:
      input_file: path of a SQuAD 1.1 or 2.0 file.
      is_training: whether to read answers. Of several answers, the first one is used. If it is not at answer_start, its
        nearest occurrence is used. If it does not occur in the paragraph, the question is left out.

    Raises:
      ValueError: the file is not a SQuAD file, two questions have the same id, or there are no questions; the message
        names the file and the wrong value.
    """
    notes = ReadingNotes()
    paragraphs = read_paragraphs(read_squad_file(input_file), is_training, notes)
    examples = [example for paragraph in paragraphs for example in paragraph]
    logging.info("%s: %s", input_file, notes)
    return examples


def read_paragraphs(
    file: SquadFile, is_training: bool, notes: ReadingNotes | None = None
) -> Iterator[list[SquadExample]]:
    """The questions of each paragraph that has any. A wrong value raises ValueError when it is met."""
    notes, ids = ReadingNotes() if notes is None else notes, set()
    for context, questions in _raw_paragraphs(file.path, file.articles, file.locations):
        examples = []
        for location, question in questions:
            example = _example(question, context, location, is_training)
            if example.qas_id in ids:
                raise ValueError(f"{location}: another question has the same id, {example.qas_id!r}")
            ids.add(example.qas_id)
            notes["questions"] += 1
            if not context.strip() or not example.question_text.strip():
                notes.note(EMPTY, f"question {example.qas_id}: the context or the question is empty")
            if not is_training or _is_usable(example, notes):
                examples.append(example)
        if examples:
            yield examples


def _raw_paragraphs(
    path: str, articles: list, locations: list[str] | None
) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """The context of each paragraph, and its questions, each with where it is in the file (for error messages)."""
    rows = iter(locations or ())
    for a, article in enumerate(articles):
        for i, paragraph in enumerate(_field(article, "paragraphs", list, f"{path}: data[{a}]")):
            location = f"{path}: data[{a}].paragraphs[{i}]"
            context, questions = _field(paragraph, "context", str, location), _field(paragraph, "qas", list, location)
            yield context, [(next(rows) if locations else f"{location}.qas[{number}]", question)
                            for number, question in enumerate(questions)]


def _answer_texts(question: dict, location: str) -> list[str]:
    """The texts of a question's answers. Malformed answers raise an error here, before and not after training."""
    if question.get("answers") is None:
        return []
    return [_field(answer, "text", str, f"{location}.answers[{i}]")
            for i, answer in enumerate(_field(question, "answers", list, location))]


def _example(question: Any, context: str, location: str, is_training: bool) -> SquadExample:
    has_number = isinstance(question, dict) and type(question.get("id")) is int
    qas_id, text = (_field(question, name, kind, location)
                    for name, kind in (("id", int if has_number else str), ("question", str)))
    example = SquadExample(str(qas_id), text, context)
    if not is_training:
        return example
    if "is_impossible" in question and _field(question, "is_impossible", bool, location):
        return dataclasses.replace(example, orig_answer_text="", start_position=-1, is_impossible=True)
    answers = _field(question, "answers", list, location)
    if not answers:
        raise ValueError(f"{location}: no answer to train on; a question without an answer needs "
                         '"is_impossible": true')
    answer, start = (_field(answers[0], name, kind, f"{location}.answers[0]")
                     for name, kind in (("text", str), ("answer_start", int)))
    return dataclasses.replace(example, orig_answer_text=answer, start_position=start)


def _is_usable(example: SquadExample, notes: ReadingNotes) -> bool:
    """Whether the question can be used. A misplaced answer is moved to its nearest occurrence."""
    (answer, start), context = example.answer, example.paragraph_text
    if example.is_impossible:
        return True
    if answer and start >= 0 and context.startswith(answer, start):
        return True
    problem = f"question {example.qas_id}: {answer!r} is not at answer_start {start}"
    start = max(0, min(start, len(context)))
    before, after = context.rfind(answer, 0, start + len(answer)), context.find(answer, start)
    spans = [(first, first + len(answer)) for first in (before, after) if first >= 0]
    spans += find_equivalent(answer, context)
    if not spans or not answer:
        notes.note(LEFT_OUT, f"{problem}: left out")
        return False
    example.start_position, end = min(spans, key=lambda span: abs(span[0] - start))
    example.orig_answer_text = context[example.start_position : end]
    notes.note(FOUND_NEARBY, f"{problem}: found at {example.start_position}")
    return True


def _field(value: Any, name: str, kind: type, location: str) -> Any:
    field = value.get(name) if isinstance(value, dict) else None
    if type(field) is not kind:  # not isinstance: true is not a whole number
        names = {str: "a string", list: "a list", int: "a whole number", bool: "true or false"}
        raise ValueError(f"{location}: {name!r} must be {names[kind]}. Received: {reprlib.repr(field)}")
    if isinstance(field, str):
        check_characters(field, f"{location}: {name!r}")
    return field


def end_of_character(text: str, end: int) -> int:
    """The end of a span that ends at `end`, with the combining marks of its last character."""
    while 0 < end < len(text) and unicodedata.category(text[end])[0] == "M":
        end += 1
    return end


def find_equivalent(wanted: str, text: str) -> list[tuple[int, int]]:
    """The spans of a text that are canonically equivalent to another text."""
    pattern, searched = (unicodedata.normalize("NFD", each) for each in (wanted, text))
    origins = [i for i, character in enumerate(text) for _ in unicodedata.normalize("NFD", character)]
    spans = [(origins[match.start()], origins[match.end() - 1] + 1)
             for match in re.finditer(re.escape(pattern), searched) if pattern]
    return [(start, end) for start, end in spans if end_of_character(text, end) == end]

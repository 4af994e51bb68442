"""The questions file: JSON lines with the paragraphs of a SQuAD file, and the offsets of their windows' pieces.

The texts of answers are read from this file, so that the SQuAD file is not read again (release:
predict_feature_left_file, a pickle). A line is a question. If "context" is missing, it is that of the line before::

    {"id": "a", "context": "Ada wrote it.", "windows": [{"doc_offset": 6, "starts": [0, 4], "ends": [3, 9],
     "is_max_context": "11"}]}
"""

from __future__ import annotations

import contextlib
import json
from typing import Any, Iterable, Iterator, NamedTuple, Union

import tensorflow as tf

from albert_tf.tasks.squad.feature_block import SquadFeature
from albert_tf.tasks.squad.reading import SquadExample
from albert_tf.utils.manifests import read_manifest, written_with_manifest

# Increase this number when the content of the lines changes.
_VERSION = 2


class WindowPlaces(NamedTuple):
    """The offsets of a feature's pieces in the original paragraph. A SquadFeature has the same fields.

    Args:
      doc_offset: index of the paragraph's first token.
      starts, ends: [pieces of the window], the offsets of each piece's first and last original character.
      is_max_context: [pieces of the window], whether a piece has more context in this window than in others.
    """

    doc_offset: int
    starts: list[int]
    ends: list[int]
    is_max_context: list[bool]


FeaturePlaces = Union[WindowPlaces, SquadFeature]


class QuestionWindows(NamedTuple):
    """A question with the windows of its paragraph, one per feature and in the same order.

    Args:
      qas_id: id of the question.
      paragraph_text: the question's paragraph.
      windows: the windows; empty if the paragraph is empty or the question was left out.
    """

    qas_id: str
    paragraph_text: str
    windows: list[WindowPlaces]


class QuestionWriter:
    """Writes the lines of questions to a file."""

    def __init__(self, file: tf.io.gfile.GFile):
        self._file = file
        self._paragraph_text: str | None = None
        self.num_windows = 0

    def write(self, paragraphs: Iterable[list[SquadExample]], features: Iterable[SquadFeature]) -> None:
        """Adds questions.

        Args:
          paragraphs: the questions of each paragraph.
          features: the features of all these questions, in the same order.
        """
        features = iter(features)
        feature = next(features, None)
        for example in (example for examples in paragraphs for example in examples):
            windows = []
            while feature is not None and feature.qas_id == example.qas_id:
                windows.append(_window_json(feature))
                feature = next(features, None)
            context = {} if example.paragraph_text == self._paragraph_text else dict(context=example.paragraph_text)
            self._file.write(json.dumps(dict(id=example.qas_id, **context, windows=windows)) + "\n")
            self._paragraph_text = example.paragraph_text
            self.num_windows += len(windows)


@contextlib.contextmanager
def question_writer(path: str, made_from: dict) -> Iterator[QuestionWriter]:
    """Yields a writer of the file at `path`. File and manifest appear when the block ends without an error.

    Raises:
      ValueError: there is a file at `path` that is not an earlier output (see check_output).
    """
    with written_with_manifest(path, dict(made_from, version=_VERSION)) as (temporary, manifest):
        with tf.io.gfile.GFile(temporary, "w") as file:
            writer = QuestionWriter(file)
            yield writer
        manifest["num_windows"] = writer.num_windows


def count_windows(path: str, made_from: dict) -> int | None:
    """The number of windows in the file at `path`; None if it is missing, damaged or made from something else."""
    manifest = read_manifest(path)
    if not manifest or manifest["made_from"] != dict(made_from, version=_VERSION):
        return None
    if not tf.io.gfile.exists(path) or tf.io.gfile.stat(path).length != manifest["size"]:
        return None
    return manifest.get("num_windows")


def read_questions(path: str) -> Iterator[QuestionWindows]:
    """Reads the questions that a QuestionWriter wrote, one at a time."""
    paragraph_text = ""
    with tf.io.gfile.GFile(path) as file:
        for line in file:
            question = json.loads(line)
            paragraph_text = question.get("context", paragraph_text)
            yield QuestionWindows(question["id"], paragraph_text, list(map(_window, question["windows"])))


def _window_json(feature: SquadFeature) -> dict[str, Any]:
    marks = "".join("1" if mark else "0" for mark in feature.is_max_context.tolist())
    return dict(doc_offset=feature.doc_offset, starts=feature.starts.tolist(), ends=feature.ends.tolist(),
                is_max_context=marks)


def _window(values: dict[str, Any]) -> WindowPlaces:
    return WindowPlaces(values["doc_offset"], values["starts"], values["ends"],
                        [mark == "1" for mark in values["is_max_context"]])

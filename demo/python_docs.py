"""A corpus that comes with Python: the language reference in pydoc_data and the docstrings of the standard library."""

from __future__ import annotations

import ast
import pathlib
import re
import sysconfig
import textwrap
import warnings
from pydoc_data import topics
from typing import Iterator

_SENTENCE_END = re.compile(r"(?<=[a-z0-9)\"'`][.!?:])\s+(?=[A-Z\"'`(])")
_LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "lib2to3", "turtledemo"}
_MARKUP = re.compile(r"[*`]+")


def documents() -> Iterator[list[str]]:
    """Documents as lists of sentences, in a fixed order: sections of the reference and docstrings of modules."""
    for name in sorted(topics.topics):
        yield from _with_an_order(_sentences(topics.topics[name]))
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if not _LEFT_OUT.intersection(path.relative_to(library).parts):
            yield from _with_an_order([sentence for text in _docstrings(path) for sentence in _sentences(text)])


def _with_an_order(sentences: list[str]) -> list[list[str]]:
    return [sentences] if len(sentences) > 1 else []


def _docstrings(path: pathlib.Path) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def _sentences(text: str) -> list[str]:
    """The sentences of the paragraphs of prose, without doctests, tables, grammar and headings."""
    found = []
    for paragraph in re.split(r"\n\s*\n", textwrap.dedent(text)):
        if _is_prose(paragraph):
            found += _SENTENCE_END.split(_MARKUP.sub("", " ".join(paragraph.split())))
    return [sentence for sentence in found if len(sentence.split()) > 2]


def _is_prose(paragraph: str) -> bool:
    words = paragraph.split()
    plain = sum(word.strip(".,:;()\"'`*").isalpha() for word in words)
    return ">>>" not in paragraph and "::=" not in paragraph and len(words) > 4 and plain > 0.75 * len(words)

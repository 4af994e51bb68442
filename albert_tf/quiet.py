"""TensorFlow's own messages are not for users of the scripts, except for those who ask for them.

Whoever sets TF_CPP_MIN_LOG_LEVEL below 3 sees the messages of C++, and whoever gives --verbosity=1 those of Python.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging as python_logging
import os
import re
import tempfile
from typing import Iterator

from absl import logging

# Log lines of C++, of the levels information and warning, and the line that precedes them.
_LINE_OF_CPP = re.compile(rb"[IW]\d{4} |WARNING: All log messages before absl::InitializeLog")
_LIBRARIES = ("tensorflow", "keras", "tf_keras", "tensorflow_hub")


@contextlib.contextmanager
def without_lines_of_cpp() -> Iterator[None]:
    """Drops log lines of C++ that ignore TF_CPP_MIN_LOG_LEVEL. Other text on stderr waits until the block ends."""
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") != "3":
        yield
        return
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            written.seek(0)
            for line in written:
                if not _LINE_OF_CPP.match(line):
                    os.write(2, line)


def import_tensorflow() -> None:
    """Imports it. TensorFlow 2.21 logs before it reads TF_CPP_MIN_LOG_LEVEL."""
    with without_lines_of_cpp():
        import tensorflow  # noqa: F401


def start_xla() -> None:
    """Compiles a program: with the first one of a process, XLA logs two lines, whatever TF_CPP_MIN_LOG_LEVEL is."""
    import tensorflow as tf

    with without_lines_of_cpp():
        tf.function(lambda x: x + 1.0, jit_compile=True, autograph=False)(tf.constant(0.0))


def drop_messages_of_libraries() -> None:
    """Drops what TensorFlow and Keras log through absl, below the level of an error."""
    if logging.get_verbosity() < logging.DEBUG:
        logging.get_absl_logger().addFilter(_library_filter())


@functools.lru_cache(maxsize=None)
def _library_filter() -> _LibraryFilter:
    """One for all runs of a process: a logger takes the same filter once."""
    return _LibraryFilter()


class _LibraryFilter(python_logging.Filter):
    def __init__(self):
        super().__init__()
        specs = filter(None, map(importlib.util.find_spec, _LIBRARIES))
        self._folders = tuple(os.path.dirname(spec.origin) + os.sep for spec in specs if spec.origin)

    def filter(self, record):
        return record.levelno >= python_logging.ERROR or not record.pathname.startswith(self._folders)

"""Imports modules when they are first used, and hides TensorFlow's log messages.

The modules of a package are its attributes: `albert_tf.text.lines` works after `import albert_tf`.

`import albert_tf` hides the messages of TensorFlow's C++ code; TF_CPP_MIN_LOG_LEVEL below 3 shows them. The scripts
also hide messages of its Python code; --verbosity=1 shows them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import logging as python_logging
import os
import subprocess
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping

from absl import logging

# Log lines of C++ code with the levels INFO and WARNING, and the line that precedes them.
_LINES_OF_CPP = r"[IW]\d{4} |WARNING: All log messages before absl::InitializeLog"
# A program that prints its other lines to stderr as they come, or all at the end.
_FILTER = """import re, sys
pattern, lines = re.compile(sys.argv[1].encode()), sys.stdin.buffer
for line in lines.readlines() if sys.argv[2:] else lines:
    if not pattern.match(line):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()"""


def hide_messages_of_cpp() -> None:
    """Sets TF_CPP_MIN_LOG_LEVEL to 3, its value for no messages, unless the user has set it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@contextlib.contextmanager
def without_lines_of_cpp(all_lines: bool = False) -> Iterator[None]:
    """Drops log lines of C++ code that ignore TF_CPP_MIN_LOG_LEVEL. Other text on stderr appears, even after an abort.

    With all_lines, all text is dropped, unless the block raises an error or aborts the process.
    """
    hide_messages_of_cpp()
    if os.environ["TF_CPP_MIN_LOG_LEVEL"] != "3" or not sys.executable:
        yield
        return
    try:
        stderr = os.dup(2)
    except OSError:  # the process has no stderr
        yield
        return
    # Another process, since this one may abort, in another session, since it must outlive Ctrl-C.
    with subprocess.Popen([sys.executable, "-ISc", _FILTER, _LINES_OF_CPP, *["all"] * all_lines], stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, start_new_session=True) as printer:
        assert printer.stdin is not None
        os.dup2(printer.stdin.fileno(), 2)
        try:
            yield
            if all_lines:
                printer.kill()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """A block that may import TensorFlow, which (2.21) logs before it reads TF_CPP_MIN_LOG_LEVEL."""
    with contextlib.nullcontext() if "tensorflow" in sys.modules else without_lines_of_cpp():
        yield


def loader_of(package: str, module_of: Mapping[str, str] = MappingProxyType({})) -> Callable[[str], Any]:
    """Returns a module-level __getattr__ for a package, which imports its modules when they are first used.

    module_of has the module of each public name of the package. Any other attribute is a module.
    """
    def load(name: str) -> Any:
        path = f"{package}.{module_of.get(name, name)}"
        try:
            with quietly():
                module = importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name != path:  # the module exists, but a module that it imports does not
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
        return getattr(module, name) if name in module_of else module

    return load


# The modules that extras of pyproject.toml install: the extra, and what pip installs without it.
_EXTRAS = {
    "ai_edge_litert": ("litert", "ai-edge-litert"),
    "apache_beam": ("beam", "apache-beam 'proto-plus<1.29'"),
    "h11": ("serve", "h11"),
    "jax": ("jax", "jax (on a GPU 'jax[cuda13]')"),
    "matplotlib": ("training", "matplotlib"),
    "onnx": ("onnx", "onnx"),
    "onnxruntime": ("onnx", "onnxruntime"),
    "phonemizer": ("phonemes", "phonemizer espeakng-loader"),
    "prometheus_client": ("serve", "prometheus_client"),
    "pyarrow": ("parquet", "pyarrow"),
    "sentencex": ("sentences", "sentencex"),
    "sklearn": ("training", "scikit-learn"),
    "starlette": ("serve", "starlette"),
    "tensorflow_text": ("text", "tensorflow-text"),
    "tokenizers": ("tokenizers", "tokenizers"),
    "uvicorn": ("serve", "uvicorn"),
}


def check_installed(user: str, *modules: str) -> None:
    """Raises a ValueError that says what to install for `user`, if a module of an extra is missing. Imports nothing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            extra, requirements = _EXTRAS[module]
            raise ValueError(f"{user} needs the package {requirements.split()[0]}, which is not installed: pip install "
                             f"{requirements}, or in a clone of albert_tf pip install '.[{extra}]'")


def missing_package(user: str, error: ModuleNotFoundError) -> str:
    """What to install for `user`, which could not import a package that every installation has."""
    return (f"{user} needs the package {error.name}, which is not installed: `pip install .` in a clone of albert_tf "
            "installs all that it needs. Without TensorFlow, use FullTokenizer and ONNX Runtime (docs/serving.md#onnx)")


class LazyModule:
    """A module that is imported when one of its names is first used. For `user` see check_installed."""

    def __init__(self, name: str, user: str = ""):
        self._name, self._user = name, user

    def __getattr__(self, name: str) -> Any:
        if self._user:
            check_installed(self._user, self._name.partition(".")[0])
        with quietly():
            value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)  # the next use is as fast as for a module
        return value


# TensorFlow takes seconds and hundreds of megabytes to import. It is lazy in modules that worker processes import
# (albert_tf/data/worker_pool.py), and in those that a command imports before a wrong flag is reported. The other
# packages are needed only for scores or exports at the end of a script.
if TYPE_CHECKING:
    import scipy.optimize as scipy_optimize
    import scipy.special as scipy_special
    import scipy.stats as scipy_stats
    import sklearn.metrics as sklearn_metrics
    import tensorflow
    import tensorflow_text  # noqa: F401
else:
    scipy_optimize = LazyModule("scipy.optimize")
    scipy_special = LazyModule("scipy.special")
    scipy_stats = LazyModule("scipy.stats")
    sklearn_metrics = LazyModule("sklearn.metrics", "this metric")
    tensorflow = LazyModule("tensorflow")
    tensorflow_text = LazyModule("tensorflow_text", "a SavedModel that reads texts")


# In these versions a program of XLA with a YNN fusion (some sums over rows) can end the process if it is first executed
# by two threads at once: both append to one vector. XLA ends a process that gives a flag which it does not know.
_VERSIONS_WITH_YNN = ("2.21.", "2.22.")


@functools.cache
def start_xla() -> None:
    """Compiles a first program with XLA, which reads its flags then: no YNN fusions for the parts of a batch.

    XLA logs two lines then, whatever TF_CPP_MIN_LOG_LEVEL is; they are dropped.
    """
    import tensorflow as tf

    flags = os.environ.get("XLA_FLAGS")
    if tf.__version__.startswith(_VERSIONS_WITH_YNN):
        os.environ["XLA_FLAGS"] = f"--xla_cpu_experimental_ynn_fusion_type= {flags or ''}"
    try:
        with tf.init_scope(), without_lines_of_cpp():  # callers may be tracing a function
            tf.function(lambda x: x + 1.0, jit_compile=True, autograph=False)(tf.constant(0.0))
    finally:  # jax reads the variable too, and may not know the flag
        if flags is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = flags


@functools.cache
def drop_messages_of_libraries() -> None:
    """Drops the messages below ERROR that TensorFlow and Keras log through absl, except with --verbosity=1."""
    specs = filter(None, map(importlib.util.find_spec, ("tensorflow", "keras")))
    folders = tuple(os.path.dirname(spec.origin) + os.sep for spec in specs if spec.origin)
    logging.get_absl_logger().addFilter(
        lambda record: record.levelno >= python_logging.ERROR or logging.get_verbosity() >= logging.DEBUG
        or not record.pathname.startswith(folders))

"""Starts a command: finds it by its name, parses its flags with absl, and turns a user's error into one line.

    python run_squad.py    python -m albert_tf run_squad    albert-tf run_squad

--help shows what a command does, an example, and its flags in groups with their defaults. Flags that the command itself
defines come first. Only --helpfull lists the flags of libraries.

TensorFlow is imported after the flags have been parsed, so that a wrong flag is reported at once. This module must be
imported before any module that may import TensorFlow, since importing it prepares the process for TensorFlow.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import difflib
import functools
import gc
import importlib
import importlib.util
import inspect
import io
import logging as python_logging
import os
import pathlib
import re
import select
import signal
import sys
from typing import Callable, Iterator, NoReturn

from absl import app, flags, logging

from albert_tf.commands import flags as command_flags
from albert_tf.commands.flags import GROUP_OF, GROUPS
from albert_tf.training.compiled_programs import keep_programs_of_tensorflow
from albert_tf.utils import imports
from albert_tf.utils.processes import LAUNCHER, command_name, ended_by_signals

# `>&-` closes a stream. The next file that is opened would have its number, and TensorFlow would print into this file.
for _descriptor in range(3):
    try:
        os.fstat(_descriptor)
    except OSError:
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
sys.stdout, sys.stderr = sys.stdout or open(1, "w"), sys.stderr or open(2, "w")

# By the title of --help, the commands and their modules. A module has main(options), Options, which is the command's
# config, and the text of --help as its docstring. It is imported when the command is run.
COMMANDS = {
    "Pre-training": dict(
        train_vocabulary="commands.train_vocabulary", phonemize="commands.phonemize",
        create_pretraining_data="commands.create_pretraining_data", run_pretraining="pretraining",
        pretrain_from_text="commands.pretrain_from_text"),
    "Fine-tuning": dict(
        run_classifier="tasks.classification", run_glue="commands.run_glue", run_squad="tasks.squad",
        run_race="tasks.multiple_choice", run_tagging="tasks.tagging",
        run_sentence_embeddings="tasks.sentence_vectors", bert_to_albert="commands.bert_to_albert"),
    "Use of a model": dict(
        fill_mask="commands.fill_mask", extract_embeddings="commands.extract_embeddings", serve="commands.serve"),
    "Conversion and export": dict(
        convert_checkpoint="commands.convert_checkpoint", export_to_tfhub="commands.export_to_tfhub",
        export_to_onnx="commands.export_to_onnx", export_to_tflite="commands.export_to_tflite"),
}
_MODULE_OF = {name: f"albert_tf.{module}" for modules in COMMANDS.values() for name, module in modules.items()}
NAMES = tuple(_MODULE_OF)

_STDOUT = 1  # the file descriptor
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # Python's stand-ins for other bytes
# absl answers --helpshort without the flags of the package, which are most of them.
_HELP = {"--help", "-help", "-h", "--helpshort", "-helpshort"}


class _Formatter(python_logging.Formatter):
    """Writes control characters, which can be in names of others' files and act on a terminal, as \\x1b."""

    def format(self, record: python_logging.LogRecord) -> str:
        return "\n".join(map(_printable, super().format(record).split("\n")))


# absl's log line also has microseconds and the number of the thread.
_LINE = _Formatter("%(levelname).1s%(asctime)s %(filename)s:%(lineno)d] %(message)s", "%m%d %H:%M:%S")

# The text around the reason in TensorFlow's errors: "{{function_node __wrapped__SaveV2_...}} a.data; File too large
# [Op:SaveV2] name: ", and in errors of a graph the lines of Python that made the op.
_AROUND_THE_REASON = re.compile(
    r"""\{\{function_node [^}]*\}\}\s | \s\[Op:\w+\](\ name:\s*)?
        | ^(Graph\ execution\ error: | Detected\ at\ node\ .* | \ \ File\ ".* | \s+\[\[\{\{node\ .*)$""", re.M | re.X)


def find_command(name: str) -> str:
    """The name of a command as its module has it; "-" stands for "_"."""
    module = name.replace("-", "_")
    if module not in NAMES:
        close = difflib.get_close_matches(module, NAMES, n=1)
        raise ValueError(f"there is no command {name!r}" + (f"; did you mean {close[0]}?" if close else ".")
                         + f" `{LAUNCHER}` lists the commands")
    return module


def summary(name: str) -> str:
    """The first line of a command's docstring. The module is not imported."""
    spec = importlib.util.find_spec(_MODULE_OF[name])
    assert spec and spec.origin
    docstring = ast.get_docstring(ast.parse(pathlib.Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def listing() -> str:
    """All commands in groups, with one line each."""
    width = max(map(len, NAMES))
    sections = ["\n".join([f"{title}:", *(f"  {name:{width}}  {summary(name)}" for name in names)])
                for title, names in COMMANDS.items()]
    return "\n\n".join([f"Usage: {LAUNCHER} COMMAND --flag=value ...", *sections,
                        f"`{LAUNCHER} COMMAND --help` lists the flags of a command."])


def run_command(name: str) -> None:
    """Runs a command with the flags in sys.argv."""
    try:
        module = find_command(name)
    except ValueError as error:
        sys.exit(f"{LAUNCHER}: error: {error}")
    run(load(module))


def load(name: str) -> Callable[[], None]:
    """Defines the flags of a command, and returns a function that runs it with the values that they have then."""
    command = importlib.import_module(_MODULE_OF[name])
    command_flags.define(command.Options)

    @functools.wraps(command.main)
    def main() -> None:
        command.main(command_flags.read(command.Options))

    return main


def run(main: Callable[..., None], operands: int = 0) -> None:
    """Runs `main` as an absl app. ValueError, OSError and TensorFlow's errors become one line and exit status 1.

    So do wrong flags. After a signal the status is as usual on Unix: 130 after Ctrl-C, 143 after SIGTERM.

    --help prints the docstring of main's module and the flags in groups. With --verbosity=1 the whole traceback is
    logged before that line; with --verbosity=-1 only warnings are logged. If the program that reads the standard output
    ends first (`| head`), the script ends without a message, with the exit status of other Unix programs.

    `main` is called with the arguments that are not flags, `operands` at most.
    """

    def guarded(argv: list[str]) -> None:
        _, *arguments = argv
        if len(arguments) > operands:
            _end_with_error(argv, f"unexpected argument: {arguments[operands]}. The value of a flag follows =, as in "
                                  "--flag=value")
        if not flags.FLAGS["verbosity"].present:  # absl's default level is WARNING
            logging.set_verbosity(logging.INFO)
        try:
            with ended_by_signals():
                _import_tensorflow()
                _run(main, argv)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(128 + signal.SIGINT)

    _use_utf8()
    if not _HELP.isdisjoint(sys.argv[1:]):
        with _ending_with_the_reader():
            print(help_text(inspect.unwrap(main).__globals__["__doc__"], main.__module__))
        sys.exit(0)
    logging.get_absl_handler().setFormatter(_LINE)
    app.run(guarded, flags_parser=_parse_flags)


def _use_utf8() -> None:
    """Makes arguments and paths UTF-8 in any locale, and prints \\xe4 for what its encoding lacks."""
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        environment = dict(PYTHONIOENCODING=sys.stdout.encoding, **os.environ) | dict(PYTHONUTF8="1")
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _import_tensorflow() -> None:
    """Imports TensorFlow, which takes seconds."""
    if "tensorflow" not in sys.modules:
        # Python's garbage collector would visit all objects of TensorFlow, also at the end of the process, and free
        # none of them. This takes about a second of each script.
        gc.disable()
        with imports.quietly():
            import tensorflow  # noqa: F401
        gc.freeze()
        gc.enable()
        atexit.register(gc.freeze)
    imports.drop_messages_of_libraries()


def _run(main: Callable[..., None], argv: list[str]) -> None:
    """Calls `main` with the arguments that are not flags, and ends with one line if it raises a user's error."""
    import tensorflow as tf

    from albert_tf.training.strategy import naming_lost_workers

    tf.get_logger().setLevel("ERROR")  # users do not need TensorFlow's notes on reductions and saving
    try:
        with naming_lost_workers(), _ending_with_the_reader():
            main(*argv[1:])
    except (ValueError, OSError, MemoryError, tf.errors.OpError) as error:
        logging.debug("traceback of the error below", exc_info=True)
        _end_with_error(argv, _one_line(error))


def _parse_flags(argv: list[str]) -> list[str]:
    """Parses the flags. Returns the other arguments."""
    for argument in argv:
        if _NOT_UTF8.search(argument):
            _end_with_error(argv, f"an argument is not UTF-8: {ascii(argument)}")
    try:
        others = flags.FLAGS(argv)
        command_flags.expand_home()
        if "compilation_cache_dir" in flags.FLAGS:
            keep_programs_of_tensorflow(flags.FLAGS.compilation_cache_dir)
        return others
    except flags.Error as error:
        _end_with_error(argv, command_flags.describe_error(error))


def _end_with_error(argv: list[str], reason: str) -> NoReturn:
    print(f"{command_name(argv[0])}: error: {reason}", file=sys.stderr)
    sys.exit(1)


@contextlib.contextmanager
def _ending_with_the_reader() -> Iterator[None]:
    """Ends the script with status 141 (128 + SIGPIPE) if its output has no reader any more."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        poll = select.poll()
        poll.register(_STDOUT, 0)
        if not poll.poll(0):  # the pipe of another process broke, for example of a worker
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)  # Python flushes the rest of the output when it ends
        sys.exit(128 + signal.SIGPIPE)


def _one_line(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"not enough memory. {error}"
    if isinstance(error, OSError) and error.strerror and error.filename:
        return _printable(f"{error.filename}: {error.strerror}")
    message = _AROUND_THE_REASON.sub("", getattr(error, "message", None) or str(error))
    return _printable(" ".join(message.split())[:1000])


def _printable(text: str) -> str:
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in text)


# --- the text of --help -----------------------------------------------------------------------------------------------


def help_text(description: str, module: str) -> str:
    """The text that --help prints."""
    own = "This command"
    sections: dict[str, list[flags.Flag]] = {title: [] for title in (own, *GROUPS)}
    by_module = flags.FLAGS.flags_by_module_dict()
    of_package = [name for name in by_module if name.startswith("albert_tf.")]
    for name in dict.fromkeys((module, sys.argv[0], *of_package)):  # sys.argv[0]: a program such as `python -m studies`
        for flag in by_module.get(name, []):
            sections[GROUP_OF.get(flag.name) or own].append(flag)
    lines = [description.strip(), ""]
    for title, members in sections.items():
        if members:
            lines += [f"{title}:", *map(_help_of, members), ""]
    return "\n".join([*lines, "--helpfull also lists the flags of the libraries."])


def _help_of(flag: flags.Flag) -> str:
    """A flag with its help and default, as wrapped lines."""
    name = f"[no]{flag.name}" if flag.boolean else flag.name
    default = "" if flag.default is None else flag.default_as_str.strip("'")
    text = f"--{name}: {flag.help}" + (f" (default: {default})" if default else "")
    return flags.text_wrap(text, length=100, indent="      ", firstline_indent="  ")

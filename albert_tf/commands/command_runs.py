"""Runs scripts one after the other, as a user would in a terminal.

The recipes of pretrain_from_text and the scales of studies/ are JSON files of such runs.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shlex
import sys
import time
from typing import Any, Callable, Mapping, Sequence

import tensorflow as tf
from absl import logging

from albert_tf.commands import usage
from albert_tf.data.feature_table import fingerprint
from albert_tf.data.rows import read_json_lines
from albert_tf.utils.files import absolute, make_directory, version
from albert_tf.utils.json_files import check_keys
from albert_tf.utils.processes import run_to_end
from albert_tf.utils.temporary_files import locked_directory
from albert_tf.utils.writing import write_text

FINISHED, UNFINISHED = "finished_runs.jsonl", "unfinished_runs.jsonl"
FILE_OUTPUTS = ("--output_file=", "--model_prefix=")  # the flags of commands that replace what they wrote before


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of a command and its flags, which may have placeholders: {NAME}."""

    script: str
    flags: dict[str, Any]


def parse_runs(content: dict[str, Any], place: str, reserved: Sequence[str] = ()) -> dict[str, Run]:
    """Parses runs by name. A run with "like" has the script and flags of an earlier run; its own flags replace them.

    Args:
      content: {"NAME": {"script": ..., "flags": {...}}, "NAME": {"like": "NAME", "flags": {...}}, ...}
      place: path of the file for error messages.
      reserved: names that runs must not have.

    Raises:
      ValueError: a name is reserved or no word; a key is missing, unknown or of another type; "like" is not the name
        of an earlier run.
    """
    runs: dict[str, Run] = {}
    for name, run in content.items():
        run_place = f"{place}: runs.{name}"
        if not re.fullmatch(r"\w+", name) or name in reserved:
            other = f" other than {', '.join(reserved)}" if reserved else ""
            raise ValueError(f"{run_place}: the name of a run must be a word of letters, digits and _{other}")
        if isinstance(run, dict) and "like" in run:
            check_keys(run, run_place, dict(like=str, flags=dict))
            if run["like"] not in runs:
                raise ValueError(f"{run_place}: \"like\" must be the name of an earlier run. Received: {run['like']!r}")
            earlier = runs[run["like"]]
            runs[name] = Run(earlier.script, {**earlier.flags, **run["flags"]})
        else:
            runs[name] = Run(**check_keys(run, run_place, dict(script=str, flags=dict)))
    return runs


def arguments(flag_values: dict) -> list[str]:
    """Converts flags to the arguments of a command line.

    Args:
      flag_values: values of flags by name. A list or tuple repeats the flag, None omits it.
    """
    return [f"--{name}={value}" for name, values in flag_values.items()
            for value in (values if isinstance(values, (list, tuple)) else (values,)) if value is not None]


def placeholders(value) -> list[str]:
    """The names in braces, {name}, in the strings of a JSON value, in the order of their first occurrence."""
    return list(dict.fromkeys(re.findall(r"\{(\w+)\}", json.dumps(value))))


def filled(value, places: dict[str, str]):
    """A flag's value, or list of values, with each {name} replaced by places[name]."""
    if isinstance(value, list):
        return [filled(element, places) for element in value]
    if isinstance(value, str):
        for name, place in places.items():
            value = value.replace(f"{{{name}}}", place)
    return value


def run_script(script: str, **flag_values) -> None:
    """Prints a command and runs it in a new process.

    Args:
      script: name of the command, such as "run_pretraining", or a module that Python runs, such as "demo.ask".
      **flag_values: see `arguments`.

    Raises:
      ValueError: there is no such command, or it failed; it has then printed the reason.
    """
    command_line = arguments(flag_values)
    started = f"python -m {script}" if "." in script else f"{usage.starter()} {usage.find(script)}"
    print(f"\n$ {started} {shlex.join(command_line)}", flush=True)
    run_process(script, command_line)


def run_process(
    script: str, command_line_flags: Sequence[str], name: str | None = None,
    should_end: Callable[[], bool] | None = None,
) -> None:
    """Runs a command in a new process, which imports the same albert_tf as this one from any working directory.

    Args:
      script: see run_script.
      command_line_flags: its arguments.
      name: name of the run for the error message; None for that of the command.
      should_end: called every few seconds; when it returns True, the command is ended. None for no such call.

    Raises:
      ValueError: there is no such command, or it failed; it has then printed the reason.
    """
    paths = [str(pathlib.Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = process_of(script, command_line_flags)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    status = run_to_end(command, environment, should_end)
    if status:
        raise ValueError(f"{name or script} ended with status {status}")


def process_of(script: str, command_line_flags: Sequence[str]) -> list[str]:
    """The program and arguments of a process that runs a command or a module (see run_script).

    Raises:
      ValueError: there is no such command.
    """
    program = [script] if "." in script else ["albert_tf", usage.find(script)]
    return [sys.executable, "-m", *program, *command_line_flags]


class ScriptRuns:
    """Runs scripts once: a run that has finished before with the same flags is skipped.

    If a file that it has read was changed, this is an error: scripts continue what they find in their output
    directories, so to repeat the run would mix results of both versions of the file.

    Args:
      directory: folder of finished_runs.jsonl, which has one line per finished run, and of unfinished_runs.jsonl, which
        has the time of each attempt that failed or was interrupted.

    Example::

      runs = ScriptRuns("out")
      runs.run("train_vocabulary", input_file="text.txt", model_prefix="out/vocabulary")
      runs.run("run_pretraining", output_dir="out/model", ...)  # if this one is interrupted, only it runs again
    """

    def __init__(self, directory: str):
        make_directory(directory)
        self._directory = directory

    def run(self, script: str, **flag_values) -> bool:
        """Runs a script with these flags, unless it has finished with them before.

        Returns:
          Whether it ran.

        Raises:
          ValueError: see run_script; or the run has finished, and a file that it has read was changed.
        """
        command = arguments(flag_values)
        earlier = self._earlier(script, command)
        if earlier is not None:
            changed = changed_file(earlier["files"])
            if changed:
                raise ValueError(f"{changed} has changed since {script} read it, and {self._directory} "
                                 "has results of the earlier file: use another directory, or restore the file")
            logging.info("has finished before: %s %s", script, shlex.join(command))
            return False
        run, before, start = dict(script=script, arguments=command), versions(command), time.monotonic()
        try:
            run_script(script, **flag_values)
        except BaseException:
            self._add(UNFINISHED, dict(run, seconds=round(time.monotonic() - start, 1)))
            raise
        attempts = [attempt["seconds"] for attempt in self._lines(UNFINISHED, script, command)]
        seconds = round(sum(attempts) + time.monotonic() - start, 1)
        self._add(FINISHED, dict(run, seconds=seconds, files=read_files(before)))
        return True

    def check_outputs(self, script: str, **flag_values) -> None:
        """Checks that a run would not replace a file that a finished run of the script made with other flags.

        Only files are checked. A script with an output directory continues what is there, for example with more steps.

        Raises:
          ValueError: the run would replace such a file, so that the earlier runs could not be continued.
        """
        command = _with_absolute_paths(arguments(flag_values))
        outputs = {argument for argument in command if argument.startswith(FILE_OUTPUTS)}
        finished = [_with_absolute_paths(run["arguments"]) for run in self._all_lines(FINISHED)
                    if run["script"] == script]
        latest = next((earlier for earlier in reversed(finished) if outputs & earlier), command)
        if latest != command:
            flag = min(latest ^ command).partition("=")[0]
            raise ValueError(f"{self._directory} has results of {script} with another {flag}, which would be replaced: "
                             "choose another --output_dir, or repeat the earlier flags")

    def seconds(self, script: str, **flag_values) -> float | None:
        """The seconds that a run with these flags took; None if it has not finished.

        This includes attempts that failed or were interrupted, but not the time before a SIGKILL of this process.
        """
        run = self._earlier(script, arguments(flag_values))
        return None if run is None else run["seconds"]

    def _earlier(self, script: str, command: list[str]) -> dict[str, Any] | None:
        """The line of a finished run."""
        return next(iter(self._lines(FINISHED, script, command)), None)

    def _add(self, name: str, line: dict[str, Any]) -> None:
        # The file is read again, because another process may have added a line in the meantime.
        with locked_directory(self._directory):
            write_text(os.path.join(self._directory, name),
                       "".join(json.dumps(line) + "\n" for line in [*self._all_lines(name), line]))

    def _lines(self, name: str, script: str, command: list[str]) -> list[dict[str, Any]]:
        """The lines of a script with these arguments."""
        return [run for run in self._all_lines(name) if (run["script"], run["arguments"]) == (script, command)]

    def _all_lines(self, name: str) -> list[dict[str, Any]]:
        path = os.path.join(self._directory, name)
        return [run for _, run in read_json_lines(path)] if tf.io.gfile.exists(path) else []


def _with_absolute_paths(command: Sequence[str]) -> set[str]:
    """Arguments that can be compared, since paths are absolute. Values that are no paths are changed to paths, too."""
    return {f"{name}={absolute(value)}" for name, _, value in (argument.partition("=") for argument in command)}


# Size in bytes and time of change in nanoseconds by path.
Versions = Mapping[str, "tuple[int, int]"]


def versions(command: Sequence[str]) -> Versions:
    """The versions of the existing files among the values of a command's flags.

    Args:
      command: arguments such as --name=PATH or --name=PATH,PATH.
    """
    paths = [path for argument in command for path in argument.partition("=")[2].split(",")]
    return {path: version(path) for path in paths if _is_file(path)}


def read_files(before: Versions) -> dict[str, dict[str, Any]]:
    """What `changed_file` needs, as JSON values by path.

    Args:
      before: the versions before the command ran. A file that has changed since is left out: the command wrote it.
    """
    return {path: dict(size=file[0], mtime_nsec=file[1], sha256=fingerprint(path))
            for path, file in before.items() if _is_file(path) and version(path) == file}


def changed_file(files: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The path of a file whose content has changed since `read_files` returned `files`; None if there is none.

    A file that was removed has not changed. Content is read only if size or time differ.
    """
    for path, file in files.items():
        if _is_file(path) and version(path) != (file["size"], file["mtime_nsec"]):
            if fingerprint(path) != file["sha256"]:
                return path
    return None


def _is_file(path: str) -> bool:
    try:
        return tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)
    except tf.errors.OpError:  # a URL, or a text that is too long for a path
        return False

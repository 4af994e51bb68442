"""Runs the scripts of studies once: which runs have finished, with the time that they took."""

from __future__ import annotations

import json
import os
import shlex
import time
from typing import Any, Mapping, Sequence

import tensorflow as tf
from absl import logging

from albert_tf.commands.command_runs import arguments, run_script
from albert_tf.data.feature_table import fingerprint
from albert_tf.data.rows import read_json_lines
from albert_tf.utils.files import make_directory, version
from albert_tf.utils.outputs import locked, write_text

FINISHED, UNFINISHED = "finished_runs.jsonl", "unfinished_runs.jsonl"


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
        with locked(os.path.join(self._directory, "runs"), wait=True):
            write_text(os.path.join(self._directory, name),
                       "".join(json.dumps(line) + "\n" for line in [*self._all_lines(name), line]))

    def _lines(self, name: str, script: str, command: list[str]) -> list[dict[str, Any]]:
        """The lines of a script with these arguments."""
        return [run for run in self._all_lines(name) if (run["script"], run["arguments"]) == (script, command)]

    def _all_lines(self, name: str) -> list[dict[str, Any]]:
        path = os.path.join(self._directory, name)
        return [run for _, run in read_json_lines(path)] if tf.io.gfile.exists(path) else []


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

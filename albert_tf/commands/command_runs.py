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
from typing import Any, Sequence

from albert_tf.commands import app
from albert_tf.utils.files import check_keys, errors_at
from albert_tf.utils.processes import LAUNCHER, run_to_end


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of a command and its flags, which may have placeholders: {NAME}."""

    script: str
    flags: dict[str, Any]


def parse_runs(content: dict[str, Any], source: str, reserved: Sequence[str] = ()) -> dict[str, Run]:
    """Parses runs by name: {"NAME": {"script": ..., "flags": {...}}, "NAME": {"like": "NAME", "flags": {...}}, ...}.

    A run with "like" has the script and flags of an earlier run, unless it sets them. No run has a reserved name.
    """
    runs: dict[str, Run] = {}
    for name, run in content.items():
        source_of_run = f"{source}: runs.{name}"
        if not re.fullmatch(r"\w+", name) or name in reserved:
            other = f" other than {', '.join(reserved)}" if reserved else ""
            raise ValueError(f"{source_of_run}: the name of a run must be a word of letters, digits and _{other}")
        if isinstance(run, dict) and "like" in run:
            check_keys(run, source_of_run, dict(like=str, flags=dict))
            if run["like"] not in runs:
                raise ValueError(f"{source_of_run}: \"like\" must be the name of an earlier run. "
                                 f"Received: {run['like']!r}")
            earlier = runs[run["like"]]
            runs[name] = Run(earlier.script, {**earlier.flags, **run["flags"]})
        else:
            runs[name] = Run(**check_keys(run, source_of_run, dict(script=str, flags=dict)))
            with errors_at(source_of_run):
                app.find_command(runs[name].script)
    return runs


def arguments(flag_values: dict) -> list[str]:
    """The arguments of a command line from values of flags by name. A list or tuple repeats the flag, None omits it."""
    return [f"--{name}={value}" for name, values in flag_values.items()
            for value in (values if isinstance(values, (list, tuple)) else (values,)) if value is not None]


def placeholders(value: object) -> list[str]:
    """The names in braces, {name}, in the strings of a JSON value, in the order of their first occurrence."""
    return list(dict.fromkeys(re.findall(r"\{(\w+)\}", json.dumps(value))))


def filled(value: Any, values: dict[str, str]) -> Any:
    """A flag's value, or list of values, with each {name} replaced by values[name]."""
    if isinstance(value, list):
        return [filled(element, values) for element in value]
    if isinstance(value, str):
        for name, text in values.items():
            value = value.replace(f"{{{name}}}", text)
    return value


def run_script(script: str, **flag_values: object) -> None:
    """Prints a command and runs it in a new process."""
    command_line = arguments(flag_values)
    print(f"\n$ {LAUNCHER} {app.find_command(script)} {shlex.join(command_line)}", flush=True)
    run_process(script, command_line)


def run_process(script: str, command_line_flags: Sequence[str], name: str | None = None) -> None:
    """Runs a command in a new process, which imports the same albert_tf as this one from any working directory."""
    paths = [str(pathlib.Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    if status := run_to_end(process_of(script, command_line_flags), environment):
        raise ValueError(f"{name or script} ended with status {status}")


def process_of(script: str, command_line_flags: Sequence[str]) -> list[str]:
    """The program and arguments of a process that runs a command."""
    return [sys.executable, "-m", "albert_tf", app.find_command(script), *command_line_flags]

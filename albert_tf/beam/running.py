"""Runs Beam pipelines on the runner that the user chooses, and tells how they ended."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import pathlib
from typing import Any, Callable, Iterator, NoReturn

import apache_beam as beam
import tensorflow as tf
from absl import logging as absl_logging
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.runners import create_runner

from albert_tf.utils.files import names_in, read_bytes, read_json_object
from albert_tf.utils.outputs import write_text

# Not Beam's "DirectRunner", which is Prism, a program that Beam downloads.
_LOCAL_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
# The job server of this runner has options that this process does not know.
_JOB_SERVER_RUNNER = "PortableRunner"
# These modules log what users need: a job's address and state. --verbosity=1 shows the log lines of all modules.
_LOGGED = ("apache_beam.runners.dataflow", "apache_beam.runners.portability.portable_runner")
_REPOSITORY = pathlib.Path(__file__).parents[2]


def pipeline_options(text: str, num_workers: int) -> PipelineOptions:
    """Parses the options of a pipeline, "name=value,name=value"; names may begin with dashes, and have no value.

    The local runner, which is the default, has num_workers processes.
    """
    if absl_logging.get_verbosity() < absl_logging.DEBUG:
        logging.getLogger("apache_beam").setLevel(logging.ERROR)
        for name in _LOGGED:
            logging.getLogger(name).setLevel(logging.INFO)
    named: list[tuple[str, str | None]] = []
    for option in text.split(","):
        name, equals, value = option.partition("=")
        name = name.strip().lstrip("-")
        if name or equals:
            named.append((name, value.strip() if equals else None))
    if not any(name == "runner" for name, _ in named):
        named = [("runner", _LOCAL_RUNNER), ("direct_num_workers", str(num_workers)),
                 ("direct_running_mode", "in_memory" if num_workers == 1 else "multi_processing"),
                 ("default_sdk_harness_log_level", "WARNING"), *named]
    options = PipelineOptions([f"--{name}" if value is None else f"--{name}={value}" for name, value in named])
    with _naming_the_flag():
        _check(options, [name for name, _ in named])
    return options


def _check(options: PipelineOptions, names: list[str]) -> None:
    runner = options.view_as(StandardOptions).runner
    create_runner(runner)  # imports the runner's module, which can define more options

    def check_names(parser: argparse.ArgumentParser) -> None:
        unknown = [name for name in names if f"--{name}" not in parser._option_string_actions]
        if unknown and runner != _JOB_SERVER_RUNNER:
            raise ValueError(f"unknown option {unknown[0]!r}")
        parser.error = refuse  # type: ignore[method-assign]  # instead of printing the usage

    def refuse(message: str) -> NoReturn:
        raise ValueError(message)

    options.get_all_options(add_extra_args_fn=check_names)
    if options.view_as(DirectOptions).direct_running_mode == "multi_threading":
        raise ValueError("direct_running_mode=multi_threading loses elements in Beam's local runner; use "
                         "multi_processing")


@contextlib.contextmanager
def _naming_the_flag() -> Iterator[None]:
    """Turns the errors of options that do not fit and of runners that are not installed into a ValueError."""
    try:
        yield
    except (ValueError, ImportError, AttributeError) as error:
        raise ValueError(f"--beam_pipeline_options: {error}") from error


def run(options: PipelineOptions, build: Callable[[beam.Pipeline], object]) -> None:
    """Builds a pipeline and waits for its end. OSError has the last line of the runner's message."""
    # So that the local runner's worker processes can import this package.
    path = [str(_REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    with _naming_the_flag():
        pipeline = beam.Pipeline(options=options)
    build(pipeline)
    try:
        pipeline.run().wait_until_finish()
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise OSError(f"the pipeline failed on {options.view_as(StandardOptions).runner}: {lines[-1].strip()}"
                      ) from error


class Outcome:
    """Files in the work folder through which workers report to the process that runs the pipeline."""

    def __init__(self, work: str):
        self._result_file, self._errors = os.path.join(work, "result.json"), os.path.join(work, "errors")

    def record_user_error(self, name: str, message: str) -> None:
        """Stores the message of a user's error. Raising the error would make the runner retry, and hide the message."""
        write_text(os.path.join(self._errors, name), message)

    def check_no_user_error(self) -> None:
        """Raises a ValueError with the stored error whose name is first, if there is one."""
        if names := names_in(self._errors):
            raise ValueError(read_bytes(os.path.join(self._errors, min(names))).decode())

    def write_result(self, **result) -> None:
        """Stores the result of the pipeline, JSON values by name."""
        write_text(self._result_file, json.dumps(result))

    def result(self) -> dict[str, Any]:
        """The result of the pipeline. ValueError: a user's error was stored. OSError: no result was stored."""
        self.check_no_user_error()
        if not tf.io.gfile.exists(self._result_file):
            raise OSError("the runner lost or repeated elements: the pipeline ended without a result")
        return read_json_object(self._result_file)

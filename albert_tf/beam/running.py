"""Runs Beam pipelines on the runner that the user chooses."""

from __future__ import annotations

import logging
import os
import pathlib
from typing import Callable

import apache_beam as beam
from absl import logging as absl_logging
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions

# Not Beam's "DirectRunner", which is Prism, a program that Beam downloads.
_LOCAL_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
# These modules log what users need: a job's address and state. --verbosity=1 shows the log lines of all modules.
_LOGGED = ("apache_beam.runners.dataflow", "apache_beam.runners.portability.portable_runner")
_REPOSITORY = pathlib.Path(__file__).parents[2]


def pipeline_options(text: str, num_workers: int) -> PipelineOptions:
    """Parses the options of a pipeline.

    Args:
      text: the value of --beam_pipeline_options: "name=value,name=value". A name without "=" is an option that has no
        value.
      num_workers: number of processes of the local runner, which is the default runner.

    Raises:
      ValueError: direct_running_mode=multi_threading is set.
    """
    if absl_logging.get_verbosity() < absl_logging.DEBUG:
        logging.getLogger("apache_beam").setLevel(logging.ERROR)
        for name in _LOGGED:
            logging.getLogger(name).setLevel(logging.INFO)
    named = [option.strip() for option in text.split(",") if option.strip()]
    if not any(option.startswith("runner=") for option in named):
        named = [f"runner={_LOCAL_RUNNER}", f"direct_num_workers={num_workers}",
                 f"direct_running_mode={'in_memory' if num_workers == 1 else 'multi_processing'}",
                 "default_sdk_harness_log_level=WARNING", *named]
    options = PipelineOptions([f"--{option}" for option in named])
    if options.view_as(DirectOptions).direct_running_mode == "multi_threading":
        raise ValueError("--beam_pipeline_options: direct_running_mode=multi_threading loses elements in Beam's local "
                         "runner; use multi_processing")
    return options


def run(options: PipelineOptions, build: Callable[[beam.Pipeline], object]) -> None:
    """Builds a pipeline and waits for its end.

    Args:
      options: the pipeline's options.
      build: function that is called with the pipeline before it runs.

    Raises:
      OSError: the pipeline failed; the message has the last line of the runner's message.
    """
    # So that the local runner's worker processes can import this package.
    path = [str(_REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    try:
        pipeline = beam.Pipeline(options=options)
    except (ValueError, ImportError, AttributeError) as error:  # the runner is unknown or not installed
        raise ValueError(f"--beam_pipeline_options: {error}") from error
    build(pipeline)
    try:
        pipeline.run().wait_until_finish()
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise OSError(f"the pipeline failed on {options.view_as(StandardOptions).runner}: {lines[-1].strip()}"
                      ) from error

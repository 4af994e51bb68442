"""Kinds of flags that absl does not have (required ones, finite numbers), and the flags that select the engine."""

from __future__ import annotations

import importlib.util
import math
import os
from typing import TYPE_CHECKING

from absl import flags

from albert_tf.utils import bounds

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

flags.disclaim_key_flags()  # --help lists a flag under the module that calls these functions


def define_required(name: str, help: str) -> None:
    """Defines a string flag that must be set to a non-empty value.

    (`--output_dir=$DIRECTORY` is empty if the variable is not set.)
    """
    flags.DEFINE_string(name, None, help)
    require(name)


def require(name: str) -> None:
    """Makes a string flag of another module required."""
    flags.register_validator(name, _is_set)


def define_float(name: str, default: float | None, help: str, lower_bound: float | None = None,
                 upper_bound: float | None = None) -> None:
    """flags.DEFINE_float for finite numbers. absl itself accepts "nan" and "inf", whatever the bounds."""
    parser = _FiniteFloatParser(lower_bound, upper_bound)
    flags.DEFINE(parser, name, default, help, serializer=flags.ArgumentSerializer())


def define_engine_flags(num_workers_help: str) -> None:
    """Defines --engine, --beam_pipeline_options and --num_workers.

    Args:
      num_workers_help: the help of --num_workers.
    """
    flags.DEFINE_enum("engine", "local", ["local", "beam"],
                      "The work is done by processes on this machine (local), or by the workers of an Apache Beam "
                      "runner (beam); see docs/large_corpora.md.")
    flags.DEFINE_string("beam_pipeline_options", None,
                        "Comma-separated options of the Beam pipeline, such as "
                        "runner=FlinkRunner,flink_master=host:8081. Default: Beam's local runner with --num_workers "
                        "processes.")
    flags.DEFINE_integer("num_workers", min(os.cpu_count() or 1, bounds.WORKERS.upper), num_workers_help,
                         *bounds.WORKERS)


def beam_options(engine: str, beam_pipeline_options: str | None, num_workers: int) -> PipelineOptions | None:
    """The options of the pipeline; None for the local engine.

    Args:
      engine, beam_pipeline_options, num_workers: the values of the flags with these names.

    Raises:
      ValueError: Apache Beam is not installed, or the options do not fit the engine.
    """
    if engine == "local":
        if beam_pipeline_options:
            raise ValueError("--beam_pipeline_options needs --engine=beam")
        return None
    if importlib.util.find_spec("apache_beam") is None:
        raise ValueError("--engine=beam needs Apache Beam, which is not installed: "
                         "in a clone of albert_tf, pip install -r requirements-beam.txt")
    from albert_tf.beam.running import pipeline_options

    return pipeline_options(beam_pipeline_options or "", num_workers)


def _is_set(value: str | None) -> bool:
    if not value:
        raise flags.ValidationError("it is required" if value is None else "it must not be empty")
    return True


class _FiniteFloatParser(flags.FloatParser):
    def convert(self, argument):
        try:
            value = super().convert(argument)
        except OverflowError:  # a whole number of more than 308 digits
            value = math.inf
        if not math.isfinite(value):
            raise ValueError("expected a finite number")
        return value

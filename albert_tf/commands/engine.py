"""The flags that select the engine: this machine or Apache Beam."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from absl import flags

from albert_tf.utils import bounds

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

flags.disclaim_key_flags()  # --help lists a flag under the module that calls define_engine_flags


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

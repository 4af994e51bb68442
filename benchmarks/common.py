"""What benchmarks share: flags, data types, and a start that names the processor."""

from __future__ import annotations

import functools
from typing import Callable

from absl import flags

from albert_tf import devices, keras
from albert_tf.commands import app
from albert_tf.commands.flags import define_float, define_required

flags.disclaim_key_flags()  # a flag belongs to the benchmark that calls the function

POLICIES = dict(float32="float32", bfloat16="mixed_bfloat16")
# The instructions for matrix products, by the names of Linux, from the slowest on.
_OF_PRODUCTS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "asimd", "bf16", "i8mm")


def run(main: Callable[[], None]) -> None:
    """Runs a benchmark after a line that names the processor, since its instructions decide what is fast."""
    @functools.wraps(main)
    def with_head() -> None:
        has = devices.cpu_instructions()
        print(f"{devices.cpu_name() or 'unknown processor'}, {devices.available_cores()} cores:",
              *([name for name in _OF_PRODUCTS if name in has] or ["unknown instructions"]), flush=True)
        main()

    app.run(with_head)


def set_precision(name: str) -> None:
    """Sets Keras' global policy by a name of POLICIES."""
    keras.mixed_precision.set_global_policy(POLICIES[name])


def define_rounds(default: int) -> None:
    flags.DEFINE_integer("rounds", default, "Number of turns of each program. The median is reported.", lower_bound=1)


def define_peer_python() -> None:
    define_required("peer_python", "Path of Python in an environment with torch and transformers.")


def define_model() -> None:
    define_required("model", "Folder of a BERT in Hugging Face's format.")


def define_output_dir() -> None:
    define_required("output_dir", "Folder of the runs and the results.")


def define_precisions() -> None:
    flags.DEFINE_multi_enum("precision", ["float32", "bfloat16"], list(POLICIES),
                            "Data type of the computations. May be repeated.")


def define_dropout() -> None:
    define_float("dropout", 0.0, "Rate of hidden and of attention dropout.", lower_bound=0.0)


def define_cpu_time() -> None:
    flags.DEFINE_bool("cpu_time", False, "Whether to measure the processor's time, on one thread each, and not the "
                      "clock's, on two: for a machine that does other work besides.")

"""Starts a benchmark, which first names the processor, since its instructions decide what is fast."""

from __future__ import annotations

import functools
from typing import Callable

from albert_tf import devices
from albert_tf.commands import app

# The instructions for matrix products, by the names of Linux, from the slowest on.
_OF_PRODUCTS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "asimd", "bf16", "i8mm")


def run(main: Callable[[], None]) -> None:
    @functools.wraps(main)
    def with_head() -> None:
        print(processor(), flush=True)
        main()

    app.run(with_head)


def processor() -> str:
    """The processor's name, cores and instructions, such as "AMD EPYC 9B14, 2 cores: avx2 avx512f avx512_vnni"."""
    has = devices.cpu_instructions()
    return (f"{devices.cpu_name() or 'unknown processor'}, {devices.available_cores()} cores: "
            + (" ".join(name for name in _OF_PRODUCTS if name in has) or "unknown instructions"))

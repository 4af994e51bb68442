"""Runs exported steps on a GPU, a TPU or a CPU: with jax and NumPy alone, without TensorFlow.

    pip install "jax[cuda13]"
    python run.py FOLDER [--only TEXT] [--seconds 3] [--dump FOLDER] [--profile FOLDER]

FOLDER is what benchmarks.device_steps.export wrote. Each of its programs is compiled for the first device that jax
finds. The state (weights, moments, counters) stays on the device, and a step overwrites it. A row of the table has the
slowest and the fastest of three rounds:

    tokens/s    tokens of the batch, padding included, by the seconds of a step
    share       floating-point operations of the model's matrix products, without those that gradient checkpointing
                repeats, by the seconds of a step and by the rate of a bfloat16 product of two 8192 x 8192 matrices,
                which is measured first
    memory      bytes of the program's inputs, outputs and temporary values, as its compiler has arranged them
    compiled    seconds of the compilation

A program of TensorFlow is an HloModuleProto. Its parameters are the batch and the state, its results some outputs and
the new values of the state. The program itself says which result is the new value of which parameter.
"""

from __future__ import annotations

import argparse
import gzip
import json
import pathlib
import re
import time
from typing import Any, NamedTuple

import numpy as np

_ALIAS = re.compile(r"parameter_number = (\d+)[^}]*\}, output_index = array<i64: (\d+)>")


class Spec(NamedTuple):
    """What a program's folder says about it in program.json.

    Args:
      inputs: for each parameter its name, shape and dtype; for state also `fill`, a value, or `stddev`.
      outputs: the names of the first results.
      tokens: the number of tokens of a batch.
      flops: floating-point operations of the matrix products of a batch.
      peer: what the same step of another library needs: task, config, batch, seq, predictions; see hugging_face.py.
    """

    inputs: list[dict[str, Any]]
    outputs: list[str]
    tokens: int
    flops: float
    peer: dict[str, Any]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--only", default="", help="Part of the names of the programs to run. Default: all.")
    arguments.add_argument("--seconds", type=float, default=3.0, help="Approximate duration of a round.")
    arguments.add_argument("--matrix", type=int, default=8192, help="Rows of the measured product's matrices.")
    arguments.add_argument("--dump", type=pathlib.Path, help="Write the compiled programs, as text, to this folder.")
    arguments.add_argument("--profile", type=pathlib.Path, help="Write a trace of three steps of each program, which "
                           "ui.perfetto.dev shows, to this folder.")
    arguments = arguments.parse_args()
    folders = [file.parent for file in sorted(arguments.folder.rglob("program.json"))
               if arguments.only in file.parent.name]
    if not folders:
        raise SystemExit(f"{arguments.folder} has no program whose name has {arguments.only!r}")
    rate = matrix_rate(arguments.matrix, arguments.seconds)
    print_head(rate)
    for folder in folders:
        try:
            step = Step(folder, arguments.dump)
            print_row(folder, step, rate, arguments.seconds)
            if arguments.profile:
                write_profile(step, arguments.profile / folder.name)
        except RuntimeError as error:  # XlaRuntimeError
            print(f"{folder.name:68} {str(error).splitlines()[0][:100]}", flush=True)


def print_head(rate: float) -> None:
    import jax

    device = jax.devices()[0]
    print(f"{device.device_kind}, jax {jax.__version__}, matrix products {rate / 1e12:.4g} TFLOP/s\n"
          f"{'':69}{'tokens/s':>20}{'share':>14}{'memory GB':>11}{'compiled s':>12}", flush=True)


def print_row(folder: pathlib.Path, step: Step, rate: float, seconds: float) -> None:
    times = sorted(seconds_of_step(step, seconds) for _ in range(3))
    tokens = [f"{step.spec.tokens / value:,.0f}" for value in (times[-1], times[0])]
    share = [f"{100 * step.spec.flops / value / rate:.1f}" for value in (times[-1], times[0])]
    print(f"{folder.name:68} {' - '.join(tokens):>20}{' - '.join(share) + ' %':>14}{step.memory / 1e9:11.2f}"
          f"{step.compile_seconds:12.1f}", flush=True)


def write_profile(step: Step, folder: pathlib.Path) -> None:
    """Writes a trace of three steps."""
    import jax

    with jax.profiler.trace(folder, create_perfetto_trace=True):
        step.run(3)


def seconds_of_step(step, seconds: float) -> float:
    """The mean seconds of a step in a round of approximately this duration."""
    step.wait()
    start = time.perf_counter()
    step.run(2)
    count = max(2, int(seconds / (time.perf_counter() - start) * 2))
    start = time.perf_counter()
    step.run(count)
    return (time.perf_counter() - start) / count


def matrix_rate(size: int, seconds: float) -> float:
    """Floating-point operations a second of a bfloat16 matrix product of random values."""
    import jax
    import jax.numpy as jnp

    one, two = (jax.random.normal(key, [size, size], jnp.bfloat16) for key in jax.random.split(jax.random.key(1)))
    product = jax.jit(jnp.matmul)

    class Product:
        def run(self, count):
            for _ in range(count):
                result = product(one, two)
            result.block_until_ready()

        def wait(self):
            self.run(1)

    return 2 * size**3 / min(seconds_of_step(Product(), seconds / 3) for _ in range(3))


class Step:
    """A compiled program and its state on the device.

    Args:
      folder: the program's folder.
      dump: folder for the text of the compiled program.
    """

    def __init__(self, folder: pathlib.Path, dump: pathlib.Path | None = None):
        import jax
        from jaxlib import _jax, xla_client

        self.spec = Spec(**json.loads((folder / "program.json").read_text()))
        module, self._results = stable_hlo(gzip.decompress((folder / "program.hlo.gz").read_bytes()))
        jax.config.update("jax_enable_x64", True)  # the steps are counted by int64
        device = jax.devices()[0]
        start = time.perf_counter()
        self._executable = device.client.compile_and_load(module, _jax.DeviceList((device,)),
                                                          xla_client.CompileOptions())
        self.compile_seconds = time.perf_counter() - start
        if dump:
            dump.mkdir(parents=True, exist_ok=True)
            text = "".join(module.to_string() for module in self._executable.hlo_modules())
            (dump / f"{folder.name}.txt").write_text(text)
        with np.load(folder / "batch.npz") as batch:
            values = [batch[of["name"]] if value is None else value
                      for of, value in zip(self.spec.inputs, initial_values(self.spec.inputs))]
        self._inputs = [jax.device_put(value, device) for value in values]
        self._outputs: list = []

    @property
    def memory(self) -> int:
        """Bytes of inputs, outputs and temporary values."""
        stats = self._executable.get_compiled_memory_stats()
        return (stats.argument_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
                + stats.temp_size_in_bytes)

    def run(self, count: int) -> None:
        """Runs the program several times and waits for the end."""
        for _ in range(count):
            results = self._executable.execute_sharded(self._inputs).disassemble_into_single_device_arrays()
            results = [result for result, in results]
            for result, parameter in self._results.items():
                self._inputs[parameter] = results[result]
            self._outputs = results[:len(self.spec.outputs)]
        self.wait()

    def wait(self) -> None:
        """Waits for the end of the steps before."""
        for output in self._outputs:
            output.block_until_ready()


def initial_values(inputs: list[dict[str, Any]]) -> list[np.ndarray | None]:
    """The first values of the state, random ones by a fixed seed; None for the batch."""
    random = np.random.default_rng(1)
    values: list[np.ndarray | None] = []
    for of in inputs:
        if _is_of_batch(of):
            values.append(None)
        elif "fill" in of:
            values.append(np.full(of["shape"], of["fill"], of["dtype"]))
        else:
            values.append(of["stddev"] * random.standard_normal(of["shape"], np.float32))
    return values


def _is_of_batch(of: dict[str, Any]) -> bool:
    return "fill" not in of and "stddev" not in of


def stable_hlo(program: bytes) -> tuple[Any, dict[int, int]]:
    """A program in the form that compilers take, and which of its results are new values of which parameters."""
    from jax._src.interpreters import mlir
    from jaxlib import _jax, xla_client
    from jaxlib.mlir import ir

    text = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(program))
    # The form has no copies, which TensorFlow makes of the new values of variables. Reshapes to the same shape are
    # removed by the compilers.
    text = re.sub(r"mhlo\.copy (%\w+) : (tensor<[^>]*>)", r"stablehlo.reshape \1 : (\2) -> \2", text)
    results = {int(result): int(parameter) for parameter, result in _ALIAS.findall(text)}
    with mlir.make_ir_context():
        return ir.Module.parse(text), results


if __name__ == "__main__":
    main()

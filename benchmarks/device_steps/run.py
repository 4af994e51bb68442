"""Runs exported steps on a GPU, a TPU or a CPU: with jax and NumPy alone, without TensorFlow.

    pip install "jax[cuda13]"
    python run.py FOLDER [--only TEXT] [--seconds 3]

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
from typing import Any, Callable, NamedTuple

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


def spec_in(folder: pathlib.Path) -> Spec:
    return Spec(**json.loads((folder / "program.json").read_text()))


def main():
    import jax
    import jax.numpy as jnp

    arguments, folders = arguments_and_folders(__doc__)
    one, two = jax.random.normal(jax.random.key(1), [2, arguments.matrix, arguments.matrix], jnp.bfloat16)
    product = jax.jit(jnp.matmul)
    rate = print_head(f"{jax.devices()[0].device_kind}, jax {jax.__version__}", lambda: product(one, two),
                      jax.block_until_ready, arguments)
    for folder in folders:
        try:
            step = Step(folder)
            print_row(folder.name, step.spec, times(step, jax.block_until_ready, arguments.seconds), rate, step.memory,
                      step.compile_seconds)
        except RuntimeError as error:  # XlaRuntimeError
            print(f"{folder.name:80} {str(error).splitlines()[0][:100]}", flush=True)


def arguments_and_folders(description: str | None) -> tuple[argparse.Namespace, list[pathlib.Path]]:
    """The arguments of the command line, and the folders of the programs that they name."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="Part of the names of the programs to run. Default: all.")
    parser.add_argument("--seconds", type=float, default=3.0, help="Approximate duration of a round.")
    parser.add_argument("--matrix", type=int, default=8192, help="Rows of the measured product's matrices.")
    arguments = parser.parse_args()
    folders = [file.parent for file in sorted(arguments.folder.rglob("program.json"))
               if arguments.only in file.parent.name]
    if not folders:
        raise SystemExit(f"{arguments.folder} has no program whose name has {arguments.only!r}")
    return arguments, folders


def print_head(device: str, product: Callable[[], Any], wait: Callable[[Any], Any],
               arguments: argparse.Namespace) -> float:
    """Prints the head of the table. Returns the floating-point operations a second of a product of two matrices."""
    rate = 2 * arguments.matrix**3 / times(product, wait, arguments.seconds / 3)[0]
    print(f"{device}, matrix products {rate / 1e12:.4g} TFLOP/s\n"
          f"{'':81}{'tokens/s':>20}{'share':>14}{'memory GB':>11}{'compiled s':>12}", flush=True)
    return rate


def print_row(name: str, spec: Spec, times: list[float], rate: float, memory: int, compile_seconds: float) -> None:
    tokens = [f"{spec.tokens / value:,.0f}" for value in (times[-1], times[0])]
    share = [f"{100 * spec.flops / value / rate:.1f}" for value in (times[-1], times[0])]
    print(f"{name:80} {' - '.join(tokens):>20}{' - '.join(share) + ' %':>14}{memory / 1e9:11.2f}"
          f"{compile_seconds:12.1f}", flush=True)


def times(step: Callable[[], Any], wait: Callable[[Any], Any], seconds: float) -> list[float]:
    """The mean seconds of a step in each of three rounds of approximately this duration, from the fastest on."""
    def mean_of(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count - 1):
            step()
        wait(step())
        return (time.perf_counter() - start) / count

    mean_of(1)
    return sorted(mean_of(max(2, int(seconds / mean_of(2)))) for _ in range(3))


class Step:
    """A compiled program and its state on the device. A call runs it and returns its outputs.

    Args:
      folder: the program's folder.
    """

    def __init__(self, folder: pathlib.Path):
        import jax
        from jaxlib import _jax, xla_client

        self.spec = spec_in(folder)
        module, self._results = stable_hlo(gzip.decompress((folder / "program.hlo.gz").read_bytes()))
        jax.config.update("jax_enable_x64", True)  # the steps are counted by int64
        device = jax.devices()[0]
        start = time.perf_counter()
        self._executable = device.client.compile_and_load(module, _jax.DeviceList((device,)),
                                                          xla_client.CompileOptions())
        self.compile_seconds = time.perf_counter() - start
        with np.load(folder / "batch.npz") as batch:
            values = [batch[of["name"]] if value is None else value
                      for of, value in zip(self.spec.inputs, initial_values(self.spec.inputs))]
        self._inputs = [jax.device_put(value, device) for value in values]

    @property
    def memory(self) -> int:
        """Bytes of inputs, outputs and temporary values."""
        stats = self._executable.get_compiled_memory_stats()
        return (stats.argument_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
                + stats.temp_size_in_bytes)

    def __call__(self) -> list:
        results = self._executable.execute_sharded(self._inputs).disassemble_into_single_device_arrays()
        results = [result for result, in results]
        for result, parameter in self._results.items():
            self._inputs[parameter] = results[result]
        return results[:len(self.spec.outputs)]


def initial_values(inputs: list[dict[str, Any]]) -> list[np.ndarray | None]:
    """The first values of the state, random ones by a fixed seed; None for the batch."""
    random = np.random.default_rng(1)
    return [np.full(of["shape"], of["fill"], of["dtype"]) if "fill" in of
            else of["stddev"] * random.standard_normal(of["shape"], np.float32) if "stddev" in of else None
            for of in inputs]


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

"""Compiles exported steps for a GPU or a TPU that this machine does not have, and prints what they cost there.

    python -m benchmarks.device_steps.compile gpu|tpu FOLDER [--only TEXT] [--top 8]

FOLDER is what benchmarks.device_steps.export wrote. The environment is that of benchmarks/xla_cost.py: jax and XLA's
compilers, without TensorFlow. The devices are an H200 and a TPU v5e. For each program:

    operations   instructions that read and write memory
    memory       bytes of the program's inputs, outputs and temporary values
    host         instructions that exchange data with the host within the step
    bytes        read and written by all instructions. They are inputs and outputs of instructions, so an instruction
                 that reads a part of its input, or from a cache, is counted too high
    share        (GPU) of the rate of matrix products, if instructions run one after the other, each one for the time
                 of its products at 780 TFLOP/s or of its bytes at 4.3 TB/s, whichever is longer. An H200 does a large
                 product and a large copy at these rates, so a step reaches less than this share
    instructions and arrays with the most bytes, added up over those of one name and shape
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import math
import pathlib
import re
from typing import NamedTuple

from benchmarks.workers import xla_program

MATRIX_RATE, BANDWIDTH = 780e12, 4.3e12
_INSTRUCTION = re.compile(r"^  (?:ROOT )?%(\S+) = (\(.*?\)|\S+) ([a-z][a-z-]*)\((.*)$")
_ARRAY = re.compile(r"\b(pred|[suf]\d+|bf16)\[([\d,]*)\]")
_HOST = ("infeed", "outfeed", "send", "recv")
_PRODUCT = ("custom-call __cublas", "custom-call __cudnn")
_PRODUCTS_OF_ATTENTION = {"custom-call __cudnn$fmhaSoftmax": 2, "custom-call __cudnn$fmhaSoftmaxBackward": 5}


class Instruction(NamedTuple):
    """An instruction of a compiled program: its kind, its origin in the model, its result's shape, its costs."""

    kind: str
    origin: str
    shape: str
    bytes: int
    flops: float  # 0 for other instructions than products

    @property
    def seconds(self) -> float:
        """The least time of the instruction on an H200."""
        return max(self.flops / MATRIX_RATE, self.bytes / BANDWIDTH)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", choices=xla_program.DEVICES)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="Part of the names of the programs. Default: all.")
    parser.add_argument("--top", type=int, default=8, help="Number of instructions, and of arrays, to print.")
    arguments = parser.parse_args()
    for file in sorted(arguments.folder.rglob("program.json")):
        if arguments.only in file.parent.name:
            describe(file.parent, arguments.device, arguments.top)


def describe(folder: pathlib.Path, device: str, top: int) -> None:
    program = gzip.decompress((folder / "program.hlo.gz").read_bytes())
    executable, module = xla_program.compile_for(device, program)
    text, stats = module.to_string(), executable.get_compiled_memory_stats()
    found = instructions(text)
    memory = (stats.argument_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
              + stats.temp_size_in_bytes)
    on_host = sum(of.kind in _HOST or "HostExecute" in of.kind for of in found)
    print(f"{folder.name}: {len(found)} operations, memory {memory / 1e9:.2f} GB, host {on_host}, "
          f"bytes {sum(of.bytes for of in found) / 1e9:.1f} GB", end="")
    if device == "gpu":
        flops = json.loads((folder / "program.json").read_text())["flops"]
        others = sum(of.bytes for of in found if not of.kind.startswith(_PRODUCT))
        share = flops / MATRIX_RATE / sum(of.seconds for of in found)
        print(f" ({others / 1e9:.1f} GB without products), share {100 * share:.0f} %", end="")
    print(flush=True)
    by_name = collections.Counter()
    for of in found:
        by_name[of.kind, of.origin, of.shape] += of.bytes
    for (kind, origin, shape), size in by_name.most_common(top):
        print(f"    {size / 1e6:9,.0f} MB  {kind:32.32} {origin:56.56} {shape:.60}")
    arrays = collections.Counter({of.shape: array_bytes(of.shape) for of in found})
    for shape, size in arrays.most_common(top):
        print(f"    {size / 1e6:9,.0f} MB  array {shape:.100}")


def instructions(text: str) -> list[Instruction]:
    """The instructions of a compiled program that read or write arrays."""
    shapes, found = {}, []
    for line in text[text.index("\nENTRY "):].splitlines():
        match = _INSTRUCTION.match(line)
        if not match:
            continue
        name, shape, kind, rest = match.groups()
        shapes[name] = shape
        if kind in ("bitcast", "constant", "get-tuple-element", "parameter", "tuple") or kind.endswith("-done"):
            continue
        operands = re.findall(r"%([\w.-]+)", rest.split("), ")[0])
        target = re.search(r'custom_call_target="([^"]*)"', rest)
        origin = re.search(r'op_name="([^"]*)"', rest)
        inputs = [shapes.get(operand, "") for operand in operands]
        kind = f"{kind} {target[1]}" if target else kind
        found.append(Instruction(
            kind, _origin(origin[1]) if origin else "", re.sub(r"\{[^}]*\}", "", shape),
            array_bytes(shape) + sum(map(array_bytes, inputs)),
            _flops(kind, inputs, shape)))
    return found


def _flops(kind: str, inputs: list[str], shape: str) -> float:
    if kind in _PRODUCTS_OF_ATTENTION:  # query: [batch, heads, seq, head_size]
        batch, heads, seq, size = (int(size) for size in _ARRAY.search(inputs[0])[2].split(","))
        return _PRODUCTS_OF_ATTENTION[kind] * 2.0 * batch * heads * seq**2 * size
    return product_flops(*inputs[:2], shape) if kind.startswith(_PRODUCT) else 0.0


def product_flops(one: str, two: str, result: str) -> float:
    """The operations of the product of [b, m, k] and [b, k, n], from the sizes b m k, b k n and b m n."""
    sizes = [[int(size) for size in _ARRAY.search(shape)[2].split(",")] for shape in (one, two, result)]
    batch = sizes[2][0] if len(sizes[2]) == 3 else 1
    return 2 * math.sqrt(math.prod(map(math.prod, sizes)) / batch)


def array_bytes(shape: str) -> int:
    """The bytes of an array or a tuple. cuBLAS's workspace, s8, is left out."""
    total = 0
    for data_type, sizes in _ARRAY.findall(shape):
        if data_type != "s8":
            bits = 8 if data_type == "pred" else int(re.sub(r"\D*", "", data_type))
            total += math.prod(int(size) for size in sizes.split(",") if size) * bits // 8
    return total


def _origin(name: str) -> str:
    """The end of an operation's name in TensorFlow, without numbers that tell layers apart."""
    parts = [re.sub(r"_\d+$", "", part) for part in name.split("/") if "Partitioned" not in part]
    return "/".join(parts[-3:])


if __name__ == "__main__":
    main()

"""Compiles a program of XLA for a device that this machine does not have, and prints what the program costs, as JSON.

    python -m benchmarks.workers.xla_program tpu|gpu PROGRAM

PROGRAM is an HloModuleProto, as TensorFlow writes it. The compilers are the ones in the packages libtpu (for a TPU v5e)
and jax-cuda12-pjrt (for an H200). They choose the algorithms of products without trying them on the device.

operations: instructions of the compiled program, each of which reads and writes memory; none of them is on scalars.
flops, bytes: XLA's own cost analysis of the compiled program. On a GPU, cuBLAS does the products, whose flops XLA does
not count. temporary_bytes: memory for the values between the operations.
"""

import functools
import importlib.util
import json
import os
import pathlib
import re
import sys

from benchmarks.device_steps.run import stable_hlo

DEVICES = ("gpu", "tpu")
# The vendor's figures, in the form of the specifications in XLA's repository.
H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 shared_memory_per_core: 233472
  threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98 device_memory_size: 150754820096
  shared_memory_per_block_optin: 232448 cuda_compute_capability { major: 9 minor: 0 }
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 8 }
runtime_version { major: 12 minor: 8 }
device_description_str: "NVIDIA H200"
"""
_NO_WORK = ("bitcast", "constant", "get-tuple-element", "parameter", "tuple")


def main():
    device, path = sys.argv[1:]
    print(json.dumps(costs(device, pathlib.Path(path).read_bytes())))


def costs(device: str, program: bytes) -> dict:
    """The costs of a program on a kind of device; the module's docstring describes them."""
    from jaxlib import _jax, xla_client

    compiled, module = compile_for(device, program)
    # The GPU's compiler analyses no costs itself.
    analysis = (compiled.cost_analysis() if device == "tpu"
                else _jax.hlo_module_cost_analysis(xla_client.make_cpu_client(), module))
    return dict(operations=operations(module.to_string()), flops=analysis["flops"], bytes=analysis["bytes accessed"],
                temporary_bytes=compiled.get_compiled_memory_stats().temp_size_in_bytes)


def compile_for(device: str, program: bytes) -> tuple:
    """The executable and the module of a program that is compiled for a kind of device."""
    devices = tpu() if device == "tpu" else gpu()
    # isort: split
    from jaxlib import _jax, xla_client

    compiled = devices[0].client.compile(stable_hlo(program)[0], _jax.DeviceList(tuple(devices[:1])),
                                         xla_client.CompileOptions())
    module, = compiled.hlo_modules()
    return compiled, module


@functools.lru_cache
def tpu() -> list:
    """The cores of four TPU v5e chips, for compilation only."""
    os.environ.update(JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1", TPU_WORKER_HOSTNAMES="localhost",
                      TPU_ACCELERATOR_TYPE="v5litepod-4")
    from jax.experimental import topologies

    return topologies.get_topology_desc("v5e:2x2", "tpu").devices


@functools.lru_cache
def gpu() -> list:
    """An H200, for compilation only."""
    nvcc, = importlib.util.find_spec("nvidia.cuda_nvcc").submodule_search_locations  # ptxas and libdevice
    os.environ["XLA_FLAGS"] = (f"--xla_gpu_cuda_data_dir={nvcc} --xla_gpu_autotune_level=0 "
                               "--xla_gpu_enable_triton_gemm=false")
    from jaxlib import xla_client

    plugin, = importlib.util.find_spec("jax_plugins.xla_cuda12").submodule_search_locations
    client = xla_client.load_pjrt_plugin_dynamically("cuda", os.path.join(plugin, "xla_cuda_plugin.so"))
    topology = xla_client.make_c_api_device_topology(client, topology="1x1x1", target_config=H200)
    return topology._make_compile_only_devices()


def operations(text: str) -> int:
    """The number of instructions of a compiled program that work on more than scalars."""
    entry = text[text.index("\nENTRY "):]
    found = re.findall(r"^  (?:ROOT )?%\S+ = (?:\(.*?\)|\w+\[\d\S*) ([a-z][a-z-]*)\(", entry, re.M)
    return sum(name not in _NO_WORK and not name.endswith("-done") for name in found)


if __name__ == "__main__":
    main()

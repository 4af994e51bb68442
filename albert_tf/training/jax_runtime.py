"""Runs training steps, evaluations and predictions by jax, on the devices that jax supports: --runtime=jax.

TensorFlow reads records, makes batches and keeps checkpoints on the host. It traces a step, and XLA's portable program
of the step (StableHLO) is compiled by jax for its devices. The variables stay on the devices between the steps.

Several devices compute a step together: each one has a share of the rows of the batch, and XLA's partitioner divides
the program. So there is one replica, whatever the number of devices, and the results equal one device's.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import re
from typing import Any, Callable, Iterator

import jax
import jax.export
import jax.numpy
import numpy as np
import tensorflow as tf
from jax.experimental import multihost_utils
from jax.extend.mlir.dialects import stablehlo
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib import _jax, xla_client

from albert_tf.training.compiled_programs import kept_programs
from albert_tf.training.config import AUTO, Devices

_MACHINES, _DEVICES = "machines", "devices"  # the axes of the mesh
_STEPS_AHEAD = 2  # that are started before the results of the first of them are needed
_LOST_SECONDS = 60  # without a sign of life of a process, after which the others end


class JaxStrategy(tf.distribute.OneDeviceStrategy):
    """One replica of TensorFlow on the host. jax computes its functions of a batch on all devices."""

    def __init__(self, config: Devices):
        logging.getLogger("jax").setLevel(logging.WARNING)  # it tells which kinds of devices there are not
        tf.config.set_visible_devices([], "GPU")  # TensorFlow would take their memory
        jax.config.update("jax_enable_x64", True)  # steps are counted by int64
        directory = config.compilation_cache_dir
        if directory is None and config.jax_coordinator:  # a process with a program would not wait for those without it
            directory = ""
        if not jax.config.jax_compilation_cache_dir and (programs := kept_programs(directory)):
            jax.config.update("jax_compilation_cache_dir", programs)
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
            jax.config.update("jax_persistent_cache_enable_xla_caches", "none")  # they would be folders in this one
        if config.jax_coordinator:
            jax.config.update("jax_enable_preemption_service", False)  # it would replace our handlers of SIGTERM
            address = None if config.jax_coordinator == AUTO else config.jax_coordinator
            jax.distributed.initialize(address, config.jax_num_processes, config.jax_process_id,
                                       heartbeat_timeout_seconds=_LOST_SECONDS)
        super().__init__("/cpu:0")
        devices = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
        self.mesh = Mesh(np.array(devices).reshape(jax.process_count(), -1), (_MACHINES, _DEVICES))
        self.shard_weights = config.shard_weights
        self._largest = jax.jit(jax.numpy.max, out_shardings=self.sharding())

    @property
    def platform(self) -> str:
        """The kind of devices: "cpu", "gpu" or "tpu"."""
        return jax.default_backend()

    @property
    def described(self) -> str:
        """The devices: "4 cpu", "1 NVIDIA H100 80GB HBM3"."""
        counts = collections.Counter(device.device_kind for device in self.mesh.devices.flat)
        hint = ": no GPU was found (for NVIDIA's, pip install 'jax[cuda13]')" if self.platform == "cpu" else ""
        return ", ".join(f"{count} {kind}" for kind, count in counts.items()) + hint

    @property
    def cudnn_capability(self) -> float:
        """The compute capability of the only NVIDIA GPU; 0 for other devices.

        On several GPUs, XLA's partitioner would collect the queries, keys and values of all of them on each.
        """
        capability = getattr(jax.devices()[0], "compute_capability", "0")  # "gfx942" on a GPU of AMD
        return float(capability) if self.num_devices == 1 and re.fullmatch(r"\d+[.]\d+", capability) else 0.0

    @property
    def num_devices(self) -> int:
        """The number of devices of all machines."""
        return self.mesh.size

    @property
    def is_chief(self) -> bool:
        """Whether this process writes files."""
        return jax.process_index() == 0

    @property
    def context(self) -> tf.distribute.InputContext:
        """Which rows of a batch this process reads."""
        return tf.distribute.InputContext(jax.process_count(), jax.process_index(), jax.process_count())

    @property
    def has_several_processes(self) -> bool:
        """Whether other processes compute a step together with this one."""
        return jax.process_count() > 1

    def on_batches(self, function: Callable[[Any], Any]) -> Steps:
        """A function of a batch as a function of an iterator (see Steps)."""
        return Steps(function, self)

    def values_of_all(self, value: int) -> list[int]:
        """The values of all processes. Waits until all have called it."""
        return np.ravel(multihost_utils.process_allgather(np.int64(value))).tolist()

    def largest_of_all(self, value: int) -> jax.Array:
        """The largest of the values of all processes. It is computed after the steps that run."""
        values = np.full(jax.local_device_count(), value, np.int32)
        return self._largest(jax.make_array_from_process_local_data(
            self.sharding((_MACHINES, _DEVICES)), values, (self.num_devices,)))

    def sharding(self, *axes: str | tuple[str, ...] | None) -> NamedSharding:
        """How an array is divided among devices. `axes` has the mesh's axes for each axis of the array."""
        return NamedSharding(self.mesh, PartitionSpec(*axes))

    def sharding_of(self, variable: tf.Variable) -> NamedSharding:
        """Where a variable is: on all devices, or its longest axis is divided among the devices of a machine."""
        count, shape = self.mesh.shape[_DEVICES], variable.shape.as_list()
        axis = max(range(len(shape)), key=shape.__getitem__, default=None)
        if not self.shard_weights or axis is None or shape[axis] % count:
            return self.sharding()
        return self.sharding(*[None] * axis, _DEVICES)


class Steps:
    """A function of a batch, as a function of an iterator that jax computes. Each shape of a batch is a program.

    The variables that the function uses are copied to the devices by the first step with an iterator. The devices have
    the current values from then on, until the function that `snapshot` returns copies them back.
    """

    def __init__(self, function: Callable[[Any], Any], strategy: JaxStrategy):
        self._function, self._strategy = function, strategy
        self._programs: dict[tuple, _Program] = {}
        self._values: dict[int, jax.Array] = {}  # by the variable's id; programs keep the variables
        self._changed: dict[int, tf.Variable] = {}  # in the same order in all processes
        self._running: collections.deque[Any] = collections.deque()
        self._iterator: Iterator | None = None

    def __call__(self, iterator: Iterator) -> Any:
        """Starts a step with the next batch. Returns its outputs, arrays of jax that may not be computed yet."""
        if iterator is not self._iterator:
            self._iterator = iterator
            self._values.clear()
            self._changed.clear()
        batch = {name: tensor.numpy() for name, tensor in next(iterator).items()}
        kind = tuple((name, batch[name].shape, batch[name].dtype) for name in sorted(batch))
        program = self._programs.get(kind)
        if program is None:
            program = self._programs[kind] = _Program(self._function, batch, self._strategy)
        for key, variable in program.variables.items():
            if key not in self._values:
                self._values[key] = _on_devices(variable.numpy(), self._strategy.sharding_of(variable))
        outputs = program(batch, self._values)
        self._changed.update(program.written)
        self._running.append(outputs)
        if len(self._running) > _STEPS_AHEAD:
            jax.block_until_ready(self._running.popleft())
        return outputs

    def snapshot(self) -> Callable[[], None]:
        """A function that copies the variables that the steps have changed to TensorFlow, as they are now.

        Steps can run meanwhile. They use the memory of their variables again, so the values are copied on the devices.
        """
        variables = list(self._changed.values())
        arrays = _copied([self._values[key] for key in self._changed])
        for array in arrays:
            for shard in array.addressable_shards:
                shard.data.copy_to_host_async()
        self._changed.clear()

        def store() -> None:
            for variable, array in zip(variables, arrays):
                variable.assign(_on_host(array))

        return store

    def value_of(self, variable: tf.Variable) -> np.ndarray:
        """The current value of a variable of the steps."""
        return _on_host(self._values[id(variable)])


class _Program:
    """The program of a function for batches of one shape.

    It reads `variables`, by their ids, and writes those in `written`. Called with a batch and the values of variables,
    it returns the function's outputs and replaces the values that it writes.
    """

    def __init__(self, function: Callable[[Any], Any], batch: dict[str, np.ndarray], strategy: JaxStrategy):
        self._names, self._strategy = sorted(batch), strategy
        self._batch_sharding = strategy.sharding((_MACHINES, _DEVICES))
        compiled = tf.function(function, jit_compile=True, autograph=False)
        zeros = {name: tf.zeros(_shape(values), values.dtype) for name, values in batch.items()}
        graph = compiled.get_concrete_function(zeros)
        by_handle = {id(variable.handle): variable for variable in graph.graph.variables}
        variables = [by_handle[id(handle)] for handle in graph.captured_inputs]
        self.variables = {id(variable): variable for variable in variables}
        self._structure = graph.structured_outputs
        # XLA returns the new values of these variables after the outputs, in the order of all variables.
        self.written = {id(variable): variable for variable, handle in zip(variables, graph.inputs[len(zeros):])
                        if any(operation.type.startswith("Assign") for operation in handle.consumers())}
        self._kept = [key for key in self.variables if key not in self.written]
        program = _stable_hlo(compiled.experimental_get_compiler_ir(zeros)(stage="hlo_serialized"))
        exported = self._exported(program, zeros)

        def call(arrays: list[jax.Array], kept: list[jax.Array], written: list[jax.Array]) -> Any:
            values = {**dict(zip(self._kept, kept)), **dict(zip(self.written, written))}
            return exported.call(arrays, [values[key] for key in self.variables])

        shardings = {key: strategy.sharding_of(variable) for key, variable in self.variables.items()}
        self._call = jax.jit(
            call, donate_argnums=2,  # the memory of variables that are written is used again
            in_shardings=([self._batch_sharding] * len(zeros), *self._divided(shardings)),
            out_shardings=([strategy.sharding()] * len(tf.nest.flatten(self._structure)), self._divided(shardings)[1]))

    def _exported(self, module: bytes, inputs: dict[str, tf.Tensor]) -> jax.export.Exported:
        """A program of XLA as a function of jax: of the inputs, and of the values of the variables.

        It is made from a function of jax with the same arguments and results, whose program it replaces.
        """
        outputs = tf.nest.flatten(self._structure)

        def placeholder(_: list[jax.Array], values: list[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
            return ([jax.numpy.zeros(output.shape, output.dtype.as_numpy_dtype) for output in outputs],
                    [value for key, value in zip(self.variables, values) if key in self.written])

        arguments = ([jax.ShapeDtypeStruct(tensor.shape, tensor.dtype.as_numpy_dtype) for tensor in tensors]
                     for tensors in ([inputs[name] for name in self._names], self.variables.values()))
        exported = jax.export.export(jax.jit(placeholder, keep_unused=True))(*arguments)
        return dataclasses.replace(exported, mlir_module_serialized=module)

    def __call__(self, batch: dict[str, np.ndarray], values: dict[int, jax.Array]) -> Any:
        arrays = [batch[name] for name in self._names]
        if self._strategy.has_several_processes:  # otherwise the call divides them, which takes the host less time
            arrays = jax.make_array_from_process_local_data(
                self._batch_sharding, arrays, [_shape(each) for each in arrays])
        outputs, written = self._call(arrays, *self._divided(values))
        values.update(zip(self.written, written))
        return tf.nest.pack_sequence_as(self._structure, outputs)

    def _divided(self, values: dict[int, Any]) -> tuple[list, list]:
        """Two lists of values: of the variables that are only read, and of the variables that are written."""
        return [values[key] for key in self._kept], [values[key] for key in self.written]


def _shape(values: np.ndarray) -> tuple[int, ...]:
    """The shape of an input of all processes, from its rows of this one."""
    return (values.shape[0] * jax.process_count(), *values.shape[1:])


def _stable_hlo(program: bytes) -> bytes:
    """A program of XLA, which TensorFlow wrote, in the portable form that compilers of all devices take.

    TensorFlow does not write this form of calls of cuDNN. Copies of new values of variables, which the form does not
    have, become reshapes to the same shape, which the compilers remove.
    """
    text = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(program))
    text = re.sub(r"mhlo\.copy (%\w+) : (tensor<[^>]*>)", r"stablehlo.reshape \1 : (\2) -> \2", text)
    return stablehlo.serialize_portable_artifact_str(text, stablehlo.get_current_version())


@jax.jit
def _copied(arrays: list[jax.Array]) -> list[jax.Array]:
    return [jax.numpy.copy(array) for array in arrays]


def _on_devices(value: np.ndarray, sharding: NamedSharding) -> jax.Array:
    """A value that all processes have, on the devices."""
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])


def _on_host(array: jax.Array) -> np.ndarray:
    """The content of an array. The devices of this process have all parts of it."""
    value = np.empty(array.shape, array.dtype)
    for shard in array.addressable_shards:
        value[shard.index] = shard.data
    return value

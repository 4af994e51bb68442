"""Distribution strategies: one device, several devices, several machines, or a TPU.

With several workers (TF_CONFIG), one of them, the chief, writes the files that all of them read::

    with chief_first(strategy):
        table = cached_table(...)      # the chief makes it, the others read it

    if is_chief(strategy):
        write_answers(...)
    wait_for_all(strategy)             # before a worker reads what the chief has written
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
from typing import Any, Callable, Iterator

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import devices
from albert_tf.training.config import STRATEGIES, Devices
from albert_tf.utils.bounds import check_one_of
from albert_tf.utils.files import parse_json_object
from albert_tf.utils.imports import check_installed

_ANSWER_SECONDS = 60


def resolve_strategy(name: str) -> str:
    """The strategy that a name in STRATEGIES means on this machine.

    "auto" is multi_worker_mirrored if TF_CONFIG has several workers, mirrored if there are several GPUs, and one_device
    otherwise. TensorFlow is not initialized, so threads can still be set.
    """
    check_one_of("distribution_strategy", name, STRATEGIES)
    num_workers = _num_workers() if name in ("auto", "multi_worker_mirrored") else 0
    if name != "auto":
        return name
    several_gpus = len(tf.config.list_physical_devices("GPU")) > 1
    return "multi_worker_mirrored" if num_workers > 1 else "mirrored" if several_gpus else "one_device"


def create_strategy(config: Devices) -> tf.distribute.Strategy:
    """Makes the distribution strategy of a config. "mirrored" uses all GPUs, or without GPU all logical CPU devices."""
    name = resolve_strategy(config.strategy)
    if name == "tpu":
        return _tpu_strategy(config)
    if name == "multi_worker_mirrored":
        # This must come before any call that lists logical devices, since such a call initializes TensorFlow.
        return tf.distribute.MultiWorkerMirroredStrategy()
    devices = [device.name for device in tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")]
    if name == "mirrored":
        return tf.distribute.MirroredStrategy(devices)
    return tf.distribute.OneDeviceStrategy(devices[0])


def jax_strategy(config: Devices) -> tf.distribute.Strategy:
    """The strategy with which jax computes steps. Raises ValueError if jax is not installed or finds no devices."""
    if tf.__version__.startswith("2.15."):  # jax needs NumPy 2
        raise ValueError("--runtime=jax needs TensorFlow 2.21: in a clone of albert_tf pip install '.[all,jax]' "
                         "'jax[cuda13]' (on a CPU without the latter)")
    check_installed("--runtime=jax", "jax")
    from albert_tf.training.jax_runtime import JaxStrategy

    try:
        strategy = JaxStrategy(config)
    except RuntimeError as error:
        raise ValueError(f"jax cannot use its devices: {str(error).splitlines()[0]}") from error
    logging.info("jax computes on %s", strategy.described)
    return strategy


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the chief, which writes files."""
    return strategy.is_chief if devices.is_jax(strategy) else strategy.extended.should_checkpoint


def _num_workers() -> int:
    """The number of training processes in TF_CONFIG."""
    text = os.environ.get("TF_CONFIG")
    if not text:
        return 0
    config = parse_json_object(text, "TF_CONFIG")
    cluster, task = config.get("cluster", {}), config.get("task", {})
    try:
        is_valid = cluster == {} or 0 <= int(str(task["index"])) < len(cluster[task["type"]]) and all(
            isinstance(addresses, list) and all(address.rpartition(":")[2].isdecimal() for address in addresses)
            for addresses in cluster.values())
    except (AttributeError, KeyError, TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise ValueError('TF_CONFIG must be like {"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
                         f'"task": {{"type": "worker", "index": 0}}}}. Received: {text}')
    return len(cluster.get("worker", [])) + len(cluster.get("chief", []))


def _tpu_strategy(config: Devices) -> tf.distribute.Strategy:
    address = config.master or config.tpu_name
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address or "", zone=config.tpu_zone,
                                                                     project=config.gcp_project)
        for worker in resolver.cluster_spec().as_dict().get("worker", []):  # TensorFlow would wait for them forever
            host, _, port = worker.rpartition(":")
            socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, OSError, RuntimeError, tf.errors.OpError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"no TPU answers at {address or 'this machine'}: {reason}") from error
    return tf.distribute.TPUStrategy(resolver)


def distributed(
    strategy: tf.distribute.Strategy, batches: Callable[[tf.distribute.InputContext], tf.data.Dataset]
) -> tf.distribute.DistributedDataset:
    """The batches of a strategy's replicas. `batches` returns the batches of a process."""
    # AutoGraph would read the source of its functions again, which may have been edited since the process started.
    batches = tf.autograph.experimental.do_not_convert(batches)
    if devices.is_jax(strategy):
        return _HostDataset(batches(strategy.context))
    if isinstance(strategy, tf.distribute.OneDeviceStrategy) and devices.is_cpu_alone():
        return _HostDataset(batches(tf.distribute.InputContext()))
    return strategy.distribute_datasets_from_function(batches)


class _HostDataset(tf.distribute.DistributedDataset):
    """A data set with batches that stay on the host. TensorFlow's distributed ones always have autotuning."""

    def __init__(self, dataset: tf.data.Dataset):
        self._dataset = dataset

    def __iter__(self) -> Iterator:
        return iter(self._dataset)

    @property
    def element_spec(self) -> Any:
        """The types and shapes of a batch."""
        return self._dataset.element_spec


# TensorFlow's errors if another worker is lost, and words of their messages.
_CONNECTION_ERRORS = (tf.errors.UnavailableError, tf.errors.DeadlineExceededError, tf.errors.AbortedError,
                      tf.errors.CancelledError)
_OF_WORKERS = re.compile("[Cc]ollective|[Hh]eartbeat|CoordinationService|remote target")
_TASK = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")


def values_of_all(strategy: tf.distribute.Strategy, value: int) -> list[int]:
    """The values of all workers, once per replica. Waits until all workers have called it."""
    if devices.is_jax(strategy):
        return strategy.values_of_all(value)
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return [value]

    @tf.function(autograph=False)
    def on_replicas() -> tf.Tensor:
        return strategy.run(lambda: tf.constant([value], tf.int64))

    return strategy.gather(on_replicas(), axis=0).numpy().tolist()


def gathered(strategy: tf.distribute.Strategy, values: Any) -> np.ndarray:
    """The outputs of all replicas, joined at the first axis."""
    return np.asarray(values) if devices.is_jax(strategy) else strategy.gather(values, axis=0).numpy()


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Waits until all workers have called it."""
    values_of_all(strategy, 0)


@contextlib.contextmanager
def chief_first(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Runs the block on the chief first, and then on the other workers, which can read the chief's files."""
    if not is_chief(strategy):
        wait_for_all(strategy)
    yield
    if is_chief(strategy):
        wait_for_all(strategy)


@contextlib.contextmanager
def naming_lost_workers() -> Iterator[None]:
    """Turns TensorFlow's error about a worker that no longer answers into a ConnectionError that names the worker."""
    try:
        yield
    except _CONNECTION_ERRORS as error:
        if not _OF_WORKERS.search(error.message):
            raise
        raise ConnectionError(f"{_lost_worker(error.message)} no longer answers: it has failed or was killed, or the "
                              "network is down. Start all workers again: training continues from its latest "
                              "checkpoint") from error


def _lost_worker(message: str) -> str:
    """The worker in TensorFlow's message, such as "worker 1 (10.0.0.2:2222)"."""
    task = _TASK.search(message)
    if not task:
        return "another worker"
    kind, index = task.group(1), int(task.group(2))
    addresses = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {}).get(kind, [])
    address = f" ({addresses[index]})" if index < len(addresses) else ""
    return f"{kind} {index}{address}"

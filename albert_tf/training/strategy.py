"""Distribution strategies: one device, several devices, several machines, or a TPU."""

from __future__ import annotations

import dataclasses
import os
import reprlib
import socket
from typing import Any

import tensorflow as tf

from albert_tf.utils.json_files import parse_json_object

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker_mirrored", "tpu")
_ANSWER_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class TpuAddress:
    """How to find a TPU (the release's flags): by its address (master), or by its name in a project and zone."""

    tpu_name: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None
    master: str | None = None


def resolve_strategy(name: str) -> str:
    """The strategy that a name in STRATEGIES means on this machine.

    "auto" is multi_worker_mirrored if TF_CONFIG has several workers, mirrored if there are several GPUs, and one_device
    otherwise. All other names mean themselves. TensorFlow is not initialized, so threads can still be set.

    Raises:
      ValueError: the name is unknown, or TF_CONFIG is malformed.
    """
    if name not in STRATEGIES:
        raise ValueError(f"distribution_strategy must be one of {', '.join(STRATEGIES)}. Received: {name!r}")
    num_workers = _num_workers() if name in ("auto", "multi_worker_mirrored") else 0
    if name != "auto":
        return name
    several_gpus = len(tf.config.list_physical_devices("GPU")) > 1
    return "multi_worker_mirrored" if num_workers > 1 else "mirrored" if several_gpus else "one_device"


def create_strategy(name: str = "auto", tpu: TpuAddress = TpuAddress()) -> tf.distribute.Strategy:
    """Makes a distribution strategy by its name in STRATEGIES (see resolve_strategy).

    "mirrored" uses all GPUs, or all logical CPU devices if there is no GPU.

    Raises:
      ValueError: see resolve_strategy; or no TPU answers.
    """
    name = resolve_strategy(name)
    if name == "tpu":
        return _tpu_strategy(tpu)
    if name == "multi_worker_mirrored":
        # This must come before any call that lists logical devices, since such a call initializes TensorFlow.
        return tf.distribute.MultiWorkerMirroredStrategy()
    devices = [device.name for device in tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")]
    if name == "mirrored":
        return tf.distribute.MirroredStrategy(devices)
    return tf.distribute.OneDeviceStrategy(devices[0])


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the chief, which writes files."""
    return strategy.extended.should_checkpoint


def _num_workers() -> int:
    """The number of training processes in TF_CONFIG.

    Raises:
      ValueError: TF_CONFIG is malformed.
    """
    text = os.environ.get("TF_CONFIG")
    if not text:
        return 0
    config = parse_json_object(text, "TF_CONFIG")
    cluster, task = config.get("cluster", {}), config.get("task", {})
    if not isinstance(cluster, dict) or not all(map(_are_addresses, cluster.values())):
        raise ValueError('TF_CONFIG: "cluster" must be an object of lists of addresses, such as {"worker": '
                         f'["host1:2222", "host2:2222"]}}. Received: {reprlib.repr(cluster)}')
    if cluster:
        _check_task(task, cluster)
    return len(cluster.get("worker", [])) + len(cluster.get("chief", []))


def _are_addresses(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(address, str) and address.rpartition(":")[2].isdecimal() for address in value)


def _check_task(task: Any, cluster: dict[str, list[str]]) -> None:
    kind, index = (task.get("type"), task.get("index")) if isinstance(task, dict) else (None, None)
    if not isinstance(kind, str) or kind not in cluster:
        raise ValueError(f'TF_CONFIG: "task" must have a "type" that is one of {", ".join(cluster)}. '
                         f"Received: {reprlib.repr(task)}")
    if not str(index).isdecimal() or int(str(index)) >= len(cluster[kind]):  # TensorFlow also accepts "0"
        raise ValueError(f'TF_CONFIG: "task" must have an "index" from 0 to {len(cluster[kind]) - 1}: the cluster '
                         f"has {len(cluster[kind])} tasks of type {kind}. Received: {reprlib.repr(task)}")


def _tpu_strategy(tpu: TpuAddress) -> tf.distribute.Strategy:
    address = tpu.master or tpu.tpu_name
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address or "", zone=tpu.tpu_zone,
                                                                     project=tpu.gcp_project)
        _check_answers(resolver)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, OSError, RuntimeError, tf.errors.OpError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"no TPU answers at {address or 'this machine'}: {reason}") from error
    return tf.distribute.TPUStrategy(resolver)


def _check_answers(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Raises OSError if one of the resolver's addresses does not answer. TensorFlow itself would wait forever."""
    for address in resolver.cluster_spec().as_dict().get("worker", []):
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()

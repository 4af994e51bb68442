"""Where a step runs: one device, several, several machines, or a TPU."""

from __future__ import annotations

import dataclasses
import json
import os

import tensorflow as tf

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker_mirrored", "tpu")


@dataclasses.dataclass(frozen=True)
class TpuAddress:
    """How to find a TPU: the release's flags. master is the address itself, tpu_name its name in a project and zone."""

    tpu_name: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None
    master: str | None = None


def create_strategy(name: str = "auto", tpu: TpuAddress = TpuAddress()) -> tf.distribute.Strategy:
    """The strategy of a name of STRATEGIES.

    "auto": multi_worker_mirrored where TF_CONFIG names several workers, else mirrored where there are several GPUs, else
    one_device. "mirrored": all GPUs, or where there is none all logical CPU devices.

    Raises:
      ValueError: there is no such strategy, or no TPU answers.
    """
    if name not in STRATEGIES:
        raise ValueError(f"distribution_strategy must be one of {', '.join(STRATEGIES)}. Received: {name!r}")
    gpus = tf.config.list_logical_devices("GPU")
    if name == "auto":
        name = "multi_worker_mirrored" if _num_workers() > 1 else "mirrored" if len(gpus) > 1 else "one_device"
    if name == "tpu":
        return _tpu_strategy(tpu)
    if name == "multi_worker_mirrored":
        return tf.distribute.MultiWorkerMirroredStrategy()
    devices = [device.name for device in gpus or tf.config.list_logical_devices("CPU")]
    return tf.distribute.MirroredStrategy(devices) if name == "mirrored" else tf.distribute.OneDeviceStrategy(devices[0])


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes files."""
    resolver = strategy.cluster_resolver
    return resolver is None or not resolver.task_type or resolver.task_type == "chief" or resolver.task_id == 0


def _num_workers() -> int:
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    return len(cluster.get("worker", [])) + len(cluster.get("chief", []))


def _tpu_strategy(tpu: TpuAddress) -> tf.distribute.Strategy:
    address = tpu.master or tpu.tpu_name
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address or "", zone=tpu.tpu_zone, project=tpu.gcp_project)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, OSError, RuntimeError, tf.errors.OpError) as error:
        reason = str(error).strip().splitlines()
        raise ValueError(f"no TPU answers at {address or 'this machine'}: {reason[0] if reason else type(error).__name__}") from error
    return tf.distribute.TPUStrategy(resolver)

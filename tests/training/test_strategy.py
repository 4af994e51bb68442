"""The strategy of each name, and the release's TPU flags as arguments of TPUClusterResolver."""

import importlib.util
import socket
from unittest import mock

import pytest
import tensorflow as tf
from two_workers import TwoWorkers

from albert_tf.training.config import Devices
from albert_tf.training.strategy import (
    create_strategy,
    distributed,
    is_chief,
    jax_strategy,
    resolve_strategy,
)

pytestmark = pytest.mark.both_stacks


@pytest.mark.parametrize("gpus, expected", [(0, "one_device"), (1, "one_device"), (2, "mirrored")])
def test_auto_is_mirrored_where_there_are_several_gpus(monkeypatch, gpus, expected):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert isinstance(create_strategy(Devices()), tf.distribute.OneDeviceStrategy)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [f"{kind}:{i}" for i in range(gpus)])
    assert resolve_strategy("auto") == expected


def test_auto_is_multi_worker_where_tf_config_names_several(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, '
                                    '"task": {"type": "worker", "index": 0}}')
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", lambda: "several workers")
    assert create_strategy(Devices()) == "several workers"


def test_mirrored_takes_all_logical_devices_and_an_unknown_strategy_is_refused():
    strategy = create_strategy(Devices(distribution_strategy="mirrored"))
    assert strategy.num_replicas_in_sync == 2 and is_chief(strategy)
    with pytest.raises(ValueError, match="auto, one_device, mirrored, multi_worker_mirrored, tpu"):
        Devices(distribution_strategy="central")


@pytest.mark.parametrize("version, message", [
    ("2.15.1", "TensorFlow 2.21: .* 'jax.cuda13.'"), ("2.21.0", "the package jax, .* 'jax.cuda13.'")])
def test_jax_is_refused_without_what_it_needs(monkeypatch, version, message):
    monkeypatch.setattr(tf, "__version__", version)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jax" else find(name))
    with pytest.raises(ValueError, match=f"--runtime=jax needs {message}"):
        jax_strategy(Devices(runtime="jax"))


@pytest.fixture
def fake_tpu(monkeypatch):
    """Replaces TPUClusterResolver and TPUStrategy, and returns the arguments of their calls."""
    calls = {}
    found = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({}))

    def resolver(**arguments):
        calls["resolver"] = arguments
        return found

    def strategy(found):
        calls["strategy"] = found
        return "a TPU strategy"

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", resolver)
    monkeypatch.setattr(tf.distribute, "TPUStrategy", strategy)
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", lambda found: calls.update(connected=found))
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", lambda found: calls.update(initialized=found))
    calls["expected"] = found
    return calls


def test_the_tpu_flags_reach_the_resolver_and_the_strategy_and_master_wins_over_the_name(fake_tpu):
    name = dict(use_tpu=True, tpu_name="node-1", tpu_zone="us-central1-f", gcp_project="my-project")
    assert create_strategy(Devices(**name)) == "a TPU strategy"
    assert fake_tpu["resolver"] == dict(tpu="node-1", zone="us-central1-f", project="my-project")
    assert fake_tpu["connected"] is fake_tpu["initialized"] is fake_tpu["strategy"] is fake_tpu["expected"]
    create_strategy(Devices(use_tpu=True, tpu_name="node-1", master="grpc://10.0.0.2:8470"))
    assert fake_tpu["resolver"]["tpu"] == "grpc://10.0.0.2:8470"


def test_no_tpu_is_one_clear_line(monkeypatch):
    with socket.socket() as unused:  # bound and not listening: a connection is refused
        unused.bind(("127.0.0.1", 0))
        address = "grpc://127.0.0.1:%d" % unused.getsockname()[1]
        with pytest.raises(ValueError, match=f"^no TPU answers at {address}: .*refused"):
            create_strategy(Devices(use_tpu=True, master=address))
    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", mock.Mock(
        side_effect=ValueError("Please provide a TPU Name to connect to.\nmore")))
    with pytest.raises(ValueError, match="^no TPU answers at node-1: Please provide a TPU Name to connect to.$"):
        create_strategy(Devices(use_tpu=True, tpu_name="node-1"))


def batches(context):
    return tf.data.Dataset.range(4).batch(2 // context.num_replicas_in_sync)


def test_one_cpu_reads_the_batches_without_a_copy_to_a_device_and_others_distribute_them(mirrored):
    dataset = distributed(tf.distribute.OneDeviceStrategy("CPU:0"), batches)
    assert [batch.numpy().tolist() for batch in dataset] == [[0, 1], [2, 3]]
    assert isinstance(iter(dataset), tf.data.Iterator) and dataset.element_spec == tf.TensorSpec([None], tf.int64)
    parts = [mirrored.experimental_local_results(batch) for batch in distributed(mirrored, batches)]
    assert [[part.numpy().tolist() for part in of_step] for of_step in parts] == [[[0], [1]], [[2], [3]]]


# The chief writes a file to the folder, and worker 1 fails.
PROGRAM = """
import pathlib
from absl import flags
from albert_tf.commands import app
from albert_tf.training.config import Devices
from albert_tf.training.strategy import chief_first, create_strategy, is_chief, values_of_all, wait_for_all

flags.DEFINE_string("folder", None, "")

def main():
    folder = pathlib.Path(flags.FLAGS.folder)
    strategy = create_strategy(Devices())
    print("values:", values_of_all(strategy, 10 + strategy.cluster_resolver.task_id), flush=True)
    with chief_first(strategy):
        print("seen:", sorted(path.name for path in folder.iterdir()), flush=True)
        if is_chief(strategy):
            (folder / "of the chief").write_text("")
    if not is_chief(strategy):
        raise ValueError("this worker fails")
    wait_for_all(strategy)

app.run(main)
"""


def test_two_workers_meet_the_chief_goes_first_and_a_failure_of_one_ends_both_in_one_line(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "worker_program.py").write_text(PROGRAM)
    with TwoWorkers(f"{tmp_path}/worker_program.py", dict(folder=tmp_path / "folder")) as workers:
        (status, of_chief), (status_of_other, of_other) = workers.end_of(0), workers.end_of(1)
    assert "values: [10, 11]\nseen: []\n" in of_chief and "values: [10, 11]\nseen: ['of the chief']\n" in of_other
    assert status_of_other == 1 and of_other.splitlines()[-1] == "worker_program: error: this worker fails"
    assert status == 1 and of_chief.splitlines()[-1].startswith(
        f"worker_program: error: worker 1 ({workers.addresses[1]}) no longer answers: ")
    assert "Traceback" not in of_chief + of_other

"""The strategy of each name, and the release's TPU flags as arguments of TPUClusterResolver."""

import socket

import pytest
import tensorflow as tf

from albert_tf.training.strategy import TpuAddress, create_strategy, is_chief, resolve_strategy


def test_auto_is_one_device_where_there_is_one(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert isinstance(create_strategy("auto"), tf.distribute.OneDeviceStrategy)


@pytest.mark.parametrize("gpus, expected", [(0, "one_device"), (1, "one_device"), (2, "mirrored")])
def test_auto_is_mirrored_where_there_are_several_gpus(monkeypatch, gpus, expected):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [f"{kind}:{i}" for i in range(gpus)])
    assert resolve_strategy("auto") == expected


def test_auto_is_multi_worker_where_tf_config_names_several(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, '
                                    '"task": {"type": "worker", "index": 0}}')
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", lambda: "several workers")
    assert create_strategy("auto") == "several workers"


def test_mirrored_takes_all_logical_devices():
    strategy = create_strategy("mirrored")
    assert strategy.num_replicas_in_sync == 2 and is_chief(strategy)


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="one of auto, one_device, mirrored, multi_worker_mirrored, tpu"):
        create_strategy("central")


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


def test_the_tpu_flags_reach_the_resolver_and_the_strategy(fake_tpu):
    assert create_strategy("tpu", TpuAddress("node-1", "us-central1-f", "my-project")) == "a TPU strategy"
    assert fake_tpu["resolver"] == dict(tpu="node-1", zone="us-central1-f", project="my-project")
    assert fake_tpu["connected"] is fake_tpu["initialized"] is fake_tpu["strategy"] is fake_tpu["expected"]


def test_master_wins_over_the_name(fake_tpu):
    create_strategy("tpu", TpuAddress("node-1", master="grpc://10.0.0.2:8470"))
    assert fake_tpu["resolver"]["tpu"] == "grpc://10.0.0.2:8470"


def test_no_tpu_is_one_clear_line(monkeypatch):
    def nowhere(**_):
        raise ValueError("Please provide a TPU Name to connect to.\nmore")

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", nowhere)
    with pytest.raises(ValueError, match="^no TPU answers at node-1: Please provide a TPU Name to connect to.$"):
        create_strategy("tpu", TpuAddress("node-1"))


def test_an_unreachable_address_is_one_clear_line():
    with socket.socket() as unused:  # bound and not listening: a connection is refused
        unused.bind(("127.0.0.1", 0))
        address = "grpc://127.0.0.1:%d" % unused.getsockname()[1]
        with pytest.raises(ValueError, match=f"^no TPU answers at {address}: .*refused"):
            create_strategy("tpu", TpuAddress(master=address))

"""Fixtures that several tests share."""

import os
import pathlib
import signal
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if "PYTEST_XDIST_WORKER" in os.environ:  # there is a worker for each core
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

import pytest
import script_process


def ignore_functions_freed_after_tensorflow(unraisable, ending=sys.is_finalizing, report=sys.unraisablehook):
    """A sys.unraisablehook without the errors of TensorFlow's functions that are freed after TensorFlow's modules.

    Compiled functions of modules live until the interpreter ends. AtomicFunction.__del__ then finds None in place of
    its module's names; TensorFlow itself ignores this in later lines of __del__. The names of this module are None then
    too, hence the arguments.
    """
    if not (ending() and getattr(unraisable.object, "__qualname__", "") == "AtomicFunction.__del__"):
        report(unraisable)


sys.unraisablehook = ignore_functions_freed_after_tensorflow
GOLDEN = pathlib.Path(__file__).parent / "golden"
# Tests write nothing to the user's folders. Compiled programs are found by the next tests.
os.environ["XDG_CACHE_HOME"] = str(pathlib.Path(__file__).parents[1] / ".environments/cache")


@pytest.fixture(scope="session")
def golden() -> pathlib.Path:
    """The folder of numbers computed by the release. Its README says how they were computed."""
    return GOLDEN


@pytest.fixture(scope="session")
def tiny_spm(golden) -> str:
    """The path of the small SentencePiece model, whose pieces tiny.TINY_TEXT has."""
    return str(golden / "tiny_spm/tiny.model")


@pytest.fixture(scope="session")
def config_file(tmp_path_factory) -> str:
    """The path of albert_config.json with tiny.TINY_TEXT."""
    from tiny import TINY_TEXT

    path = tmp_path_factory.mktemp("config") / "albert_config.json"
    path.write_text(TINY_TEXT.to_json_string())
    return str(path)


@pytest.fixture(scope="session")
def sentence_pieces(tiny_spm):
    """The tokenizer of the small SentencePiece model."""
    from albert_tf.text.tokenization import FullTokenizer

    return FullTokenizer(spm_model_file=tiny_spm)


@pytest.fixture(scope="session")
def word_pieces(golden):
    """The tokenizer of the small WordPiece vocabulary."""
    from albert_tf.text.tokenization import FullTokenizer

    return FullTokenizer(vocab_file=str(golden / "wordpiece/vocab.txt"))


@pytest.fixture(scope="session")
def real_data() -> pathlib.Path:
    """The folder of real data sets in the environment variable ALBERT_TF_DATA. The test is skipped without it."""
    folder = os.environ.get("ALBERT_TF_DATA")
    if not folder:
        pytest.skip("ALBERT_TF_DATA is not set")
    return pathlib.Path(folder)


@pytest.fixture(scope="session", autouse=True)
def two_cpu_devices():
    """Two logical devices for tests of the mirrored strategy. They must be configured before TensorFlow is used."""
    import tensorflow as tf

    from albert_tf import keras

    script_process.preload(keras.layers.__name__)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    yield
    # Dataset.scan keeps its functions in the default graph. They must go before the interpreter ends:
    # "Exception ignored in: <function AtomicFunction.__del__".
    tf.compat.v1.reset_default_graph()


@pytest.fixture
def hang_up():
    """SIGHUP ends processes, which nohup makes pytest ignore."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def policy():
    """Sets the global policy, and restores it after the test."""
    from albert_tf import keras

    yield keras.mixed_precision.set_global_policy
    keras.mixed_precision.set_global_policy("float32")


@pytest.fixture(scope="session")
def mirrored(two_cpu_devices):
    """The only mirrored strategy of the process. A second one would reuse the collective keys of the first."""
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@pytest.fixture(scope="module", autouse=True)
def graphs_of_a_file():
    """Drops the graphs of tokenizers after each file: a test may free the resources of all graphs of its process."""
    yield
    if "tiny" in sys.modules:
        sys.modules["tiny"].graph_of.cache_clear()

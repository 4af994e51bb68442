"""albert_tf.keras is Keras 2 on every TensorFlow, whatever was imported or set before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from albert_tf import keras

pytestmark = pytest.mark.both_stacks

REPOSITORY = Path(__file__).parents[1]
EARLIER_IMPORTS = """
import keras, tensorflow
tensorflow.keras.layers.Dense(1)
from albert_tf import AlbertConfig, AlbertModel
from albert_tf import keras as keras_2
model = AlbertModel(AlbertConfig(vocab_size=8, embedding_size=2, hidden_size=4, num_hidden_layers=1,
                                 num_attention_heads=1, intermediate_size=4))
assert isinstance(model, keras_2.Model)
assert hasattr(keras_2.optimizers.legacy.Optimizer, "get_slot")
"""


def test_it_is_keras_2():
    assert keras.Model.__module__.split(".")[0] in ("keras", "tf_keras")
    assert hasattr(keras.optimizers.legacy.Optimizer, "add_slot")
    with pytest.raises(AttributeError):
        keras.no_such_name  # noqa: B018


@pytest.mark.long
@pytest.mark.parametrize("legacy", ["0", "1", None])
def test_keras_imported_earlier_makes_no_difference(legacy):
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    environment.update(dict(TF_USE_LEGACY_KERAS=legacy) if legacy else {})
    run = subprocess.run([sys.executable, "-c", EARLIER_IMPORTS], cwd=REPOSITORY, env=environment, text=True,
                         capture_output=True, timeout=120)
    assert run.returncode == 0, run.stderr

"""albert_tf.keras is the Keras of the installed TensorFlow, whatever was imported or set before."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from albert_tf import keras

pytestmark = pytest.mark.both_stacks

REPOSITORY = Path(__file__).parents[1]
EARLIER_IMPORTS = """
import tensorflow
import keras
from albert_tf import AlbertConfig, AlbertModel
model = AlbertModel(AlbertConfig(vocab_size=8, embedding_size=2, hidden_size=4, num_hidden_layers=1,
                                 num_attention_heads=1, intermediate_size=4))
assert isinstance(model, keras.Model)
"""


def test_it_is_the_keras_that_users_import():
    users = importlib.import_module("keras")
    assert keras.Model is users.Model
    assert keras.is_keras_3() == users.__version__.startswith("3.")
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


@pytest.mark.skipif(not keras.is_keras_3(), reason="Keras 2 has one backend")
def test_another_backend_and_an_earlier_keras_3_are_refused_in_one_line(monkeypatch):
    users = importlib.import_module("keras")
    monkeypatch.setattr(users, "__version__", "3.14.1")
    with pytest.raises(ImportError, match="^Keras 3.14.1 is too old: pip install 'keras>=3.15'$"):
        keras._keras.__wrapped__()
    monkeypatch.undo()
    monkeypatch.setattr(users.backend, "backend", lambda: "jax")
    with pytest.raises(ImportError, match="set KERAS_BACKEND=tensorflow. Received: jax$"):
        keras._keras.__wrapped__()

"""The Keras of the installed TensorFlow: `from albert_tf import keras`.

Up to TensorFlow 2.15 it is Keras 2, `tf.keras`. From 2.16 on it is Keras 3, `import keras`, with TensorFlow as its
backend. All other modules import Keras from here. TensorFlow and Keras are imported when a name is first used.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from albert_tf.utils.imports import tensorflow as tf

_OLDEST_KERAS_3 = (3, 15)


@functools.cache
def is_keras_3() -> bool:
    """Whether Keras is Keras 3."""
    return _numbers(tf.__version__) >= (2, 16)


def tf_variable(variable: Any) -> Any:
    """TensorFlow's variable within a variable of Keras 3; a variable of TensorFlow itself."""
    return variable.value if is_keras_3() and isinstance(variable, _keras().Variable) else variable


def tf_variables(layer: Any) -> list[Any]:
    """TensorFlow's variables of a layer or model. A tf.Module that had those of Keras 3 would not save their values."""
    return list(map(tf_variable, layer.variables))


@functools.cache
def _keras() -> ModuleType:
    if not is_keras_3():
        return tf.keras
    module = importlib.import_module("keras")
    if _numbers(module.__version__) < _OLDEST_KERAS_3:
        raise ImportError(f"Keras {module.__version__} is too old: pip install "
                          f"'keras>={'.'.join(map(str, _OLDEST_KERAS_3))}'")
    if module.backend.backend() != "tensorflow":
        raise ImportError("albert_tf needs Keras' backend TensorFlow: set KERAS_BACKEND=tensorflow. Received: "
                          f"{module.backend.backend()}")
    return module


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


if TYPE_CHECKING:
    # The names that this package uses, for the type checker and for editors.
    from keras import (  # noqa: F401
        Model,
        Sequential,
        Variable,
        backend,
        callbacks,
        export,
        initializers,
        layers,
        metrics,
        mixed_precision,
        optimizers,
        saving,
        utils,
    )
else:
    def __getattr__(name: str) -> Any:
        return getattr(_keras(), name)


def __dir__() -> list[str]:
    return dir(_keras())

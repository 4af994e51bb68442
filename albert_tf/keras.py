"""Keras 2 for every supported TensorFlow: `from albert_tf import keras`.

Up to TensorFlow 2.15 it is tf.keras. From 2.16 on tf.keras is Keras 3, and Keras 2 is the package tf_keras. All other
modules import Keras from here. TF_USE_LEGACY_KERAS and an earlier import of Keras 3 have no effect. TensorFlow and
Keras are imported when a name is first used.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from albert_tf.utils.imports import tensorflow as tf


@functools.cache
def _keras_2() -> ModuleType:
    if tuple(map(int, tf.__version__.split(".")[:2])) < (2, 16):
        return tf.keras
    try:
        return importlib.import_module("tf_keras")
    except ModuleNotFoundError as error:
        raise ImportError(f"TensorFlow {tf.__version__} comes without Keras 2: pip install tf-keras") from error


if TYPE_CHECKING:
    # The names that this package uses, for the type checker and for editors.
    from tf_keras import (  # noqa: F401
        Model,
        Sequential,
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
        return getattr(_keras_2(), name)


def __dir__() -> list[str]:
    return dir(_keras_2())

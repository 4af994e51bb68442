"""The data type of computations, by the name that benchmarks and their workers take."""

from albert_tf import keras

POLICIES = dict(float32="float32", bfloat16="mixed_bfloat16")


def set_precision(name: str) -> None:
    """Sets Keras' global policy.

    Args:
      name: a name of POLICIES.
    """
    keras.mixed_precision.set_global_policy(POLICIES[name])

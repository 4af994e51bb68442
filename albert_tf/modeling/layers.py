"""The small layers that the model is built from: dense, LayerNorm, activations.

Every variable is made with the name that it has in the release's checkpoints ("bert/pooler/dense/kernel"), whatever
model it is part of. So a variable's TF1 name is its own name, and the optimizer's rules about names hold as they are.
"""

from __future__ import annotations

from typing import Callable

import tensorflow as tf

from albert_tf import keras
from albert_tf.modeling.dropout import dropped
from albert_tf.modeling.fused import fused

LAYER_NORM_EPSILON = 1e-12


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """The release's initializer of kernels and embeddings."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


class ReleaseLayer(keras.layers.Layer):
    """A layer whose variables are made at once, float32, under full release names, and are cast only on request.

    Keras casts a variable each time that it is read; shared weights are cheaper cast once for all layers.
    """

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.built = True

    def variable(self, name: str, shape, initializer) -> tf.Variable:
        """Adds a variable with the release's name."""
        return self.add_weight(name=name, shape=shape, initializer=initializer, dtype=tf.float32,
                               experimental_autocast=False)

    def in_compute_dtype(self, tensor) -> tf.Tensor:
        """A tensor in the type that the layer computes in."""
        return tf.cast(tensor, self.compute_dtype)


class Dense(ReleaseLayer):
    """x W + b on the last axis.

    Args:
      scope: release name without "/kernel" and "/bias".
      input_size, output_size: widths.
      initializer_range: standard deviation of the kernel's initial values.
      use_bias: whether b exists.
      dtype: what it computes in; the global policy's compute dtype unless told.
    """

    def __init__(self, scope: str, input_size: int, output_size: int, initializer_range: float, use_bias: bool = True,
                 dtype=None):
        super().__init__(dtype=dtype)
        self.kernel = self.variable(f"{scope}/kernel", [input_size, output_size], truncated_normal(initializer_range))
        self.bias = self.variable(f"{scope}/bias", [output_size], "zeros") if use_bias else None

    def weights_for_step(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Kernel and bias in the compute dtype, to be used for all layers that share them."""
        return self.in_compute_dtype(self.kernel), self.in_compute_dtype(self.bias)

    def call(self, x):
        """x times the kernel, plus the bias."""
        # Not tf.matmul: TensorFlow 2.21 multiplies [batch, 1, seq, H] by [H, outputs] wrongly, outside of its memory
        # (tensorflow issue 117700). tensordot multiplies matrices.
        x = tf.tensordot(self.in_compute_dtype(x), self.in_compute_dtype(self.kernel), 1)
        return x if self.bias is None else tf.nn.bias_add(x, self.in_compute_dtype(self.bias))


class OutputDense(ReleaseLayer):
    """The release's last layer of a task: x W^T + b, with W [outputs, inputs] named output_weights. Gives float32."""

    def __init__(self, scope: str, input_size: int, output_size: int, initializer_range: float):
        super().__init__()
        self.kernel = self.variable(f"{scope}output_weights", [output_size, input_size],
                                    truncated_normal(initializer_range))
        self.bias = self.variable(f"{scope}output_bias", [output_size], "zeros")

    def call(self, x):
        """x times the transposed kernel, plus the bias, float32."""
        return tf.matmul(tf.cast(x, tf.float32), self.kernel, transpose_b=True) + self.bias


class LayerNorm(ReleaseLayer):
    """Layer normalisation of x, or of x + residual, over the last axis, with epsilon 1e-12 and statistics in float32.

    Args:
      scope: release name without "/beta" and "/gamma".
      size: width.
    """

    def __init__(self, scope: str, size: int):
        super().__init__()
        self.beta = self.variable(f"{scope}/beta", [size], "zeros")
        self.gamma = self.variable(f"{scope}/gamma", [size], "ones")

    def weights_for_step(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Gamma and beta, float32 always, as layer_norm takes them."""
        return tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)

    def call(self, x, residual=None, training=False):
        """x, or x + residual, normalised, in the compute dtype."""
        residual = tf.zeros([], x.dtype) if residual is None else residual
        return self.in_compute_dtype(layer_norm(x, residual, *self.weights_for_step(), training))


def layer_norm(x, residual, gamma, beta, training: bool, dropout: tuple = ()) -> tf.Tensor:
    """LayerNorm of dropout(x) + residual as a function of its weights, in the dtype of x.

    Args:
      dropout: of Dropouts.site; () for none.
    """
    return (_fused_layer_norm if training else _layer_norm)(x, residual, gamma, beta, *dropout)


def _layer_norm(x, residual, gamma, beta, *dropout):
    total = dropped(tf.cast(x, tf.float32), *dropout) + tf.cast(residual, tf.float32)
    centred = total - tf.reduce_mean(total, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    return tf.cast(centred * (tf.math.rsqrt(variance + LAYER_NORM_EPSILON) * gamma) + beta, x.dtype)


_fused_layer_norm = fused(_layer_norm)


def activation(name: str, training: bool = False) -> Callable:
    """The function that a config's hidden_act names."""
    return (_FUSED_ACTIVATIONS if training else _ACTIVATIONS)[name]


_ACTIVATIONS = {
    "gelu": lambda x: tf.nn.gelu(x, approximate=True),
    "gelu_exact": lambda x: tf.nn.gelu(x, approximate=False),
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "linear": tf.identity,
}


def _in_float32(function: Callable) -> Callable:
    """An activation that rounds once, at its end: XLA rounds to bfloat16 after each of its operations.

    A third of the time for gelu in bfloat16, forward and backward (8.2 to 2.5 ms for 2,048 x 1,024 values on one core).
    """
    return lambda x: tf.cast(function(tf.cast(x, tf.float32)), x.dtype)


_FUSED_ACTIVATIONS = {name: fused(_in_float32(function)) for name, function in _ACTIVATIONS.items()}

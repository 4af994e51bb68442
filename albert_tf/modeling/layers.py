"""The basic layers of the model: dense, LayerNorm, activations.

Every variable has its name in the release's checkpoints ("bert/pooler/dense/kernel"), whatever model it belongs to.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from typing import Any, Callable, Iterable, Iterator, Sequence

import tensorflow as tf

from albert_tf import devices, keras
from albert_tf.modeling.operations import compiled, dropped, fused, optimization_barrier


def release_name(variable: tf.Variable) -> str:
    """The name of a variable in the release's checkpoints."""
    return variable.name.split(":")[0]


# By name and shape of a variable, a function of (shape, dtype) that returns its value; None: the layer initializes it.
InitializerOf = Callable[[str, Sequence[int]], Callable[..., tf.Tensor] | None]
_initializer_of: contextvars.ContextVar[InitializerOf] = contextvars.ContextVar(
    "initializer_of", default=lambda name, shape: None)


@contextlib.contextmanager
def initialized_by(initializer_of: InitializerOf) -> Iterator[None]:
    """A block in which new variables have the values of `initializer_of`, without random ones drawn before."""
    token = _initializer_of.set(initializer_of)
    try:
        yield
    finally:
        _initializer_of.reset(token)


class ReleaseLayer(keras.layers.Layer):
    """A layer with float32 variables that the constructor makes under the release's full names.

    Variables are cast explicitly: Keras would cast shared weights once for each layer that reads them. A call is that
    of `call` and nothing else: Keras would convert the arguments, and Keras 3 refuses all but tensors.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.built, self.supports_jit = True, False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The same as `call`."""
        return self.call(*args, **kwargs)

    def variable(self, name: str, shape: Sequence[int], initializer: str | float) -> tf.Variable:
        """Adds a variable with the release's name. A number is the standard deviation of a truncated normal."""
        if isinstance(initializer, float):
            initializer = keras.initializers.TruncatedNormal(stddev=initializer)
        arguments: dict[str, Any] = dict(
            shape=shape, initializer=_initializer_of.get()(name, shape) or initializer, dtype="float32")
        if not keras.is_keras_3():
            return self.add_weight(name=name, experimental_autocast=False, **arguments)
        variable = _Variable(name=name.replace("/", "."), autocast=False, **arguments)
        setattr(self, name, variable)  # Keras tracks it, and its key in checkpoints is that of Keras 2
        return variable

    def in_compute_dtype(self, tensor: tf.Tensor | tf.Variable) -> tf.Tensor:
        """Casts a tensor to the layer's compute dtype."""
        return tf.cast(tensor, self.compute_dtype)


if keras.is_keras_3():
    class _Variable(keras.Variable):
        """A variable with slashes in its name. Keras 3 allows none in an argument, and the release has no dots."""

        @property
        def name(self) -> str:
            return super().name.replace(".", "/")


class LayerList(ReleaseLayer):
    """Layers as a sequence. Keras 3 leaves layers in a list out of checkpoints; this has the keys of a list."""

    def __init__(self, layers: Iterable[ReleaseLayer]):
        super().__init__()
        self._count = 0
        for layer in layers:
            setattr(self, str(self._count), layer)
            self._count += 1

    def __getitem__(self, index: int) -> Any:
        return getattr(self, str(range(self._count)[index]))  # an IndexError ends a loop


def layers_in(layer: keras.layers.Layer) -> Iterator[ReleaseLayer]:
    """All layers of this package within a layer or model."""
    for inner in dict.fromkeys(value for value in vars(layer).values() if isinstance(value, keras.layers.Layer)):
        if isinstance(inner, ReleaseLayer):
            yield inner
        yield from layers_in(inner)


class ReleaseDense(ReleaseLayer):
    """x W + b on the last axis. It is not called Dense, since Keras warns of classes that have the name of its layers.

    `scope` is the name of the variables in the release, without "/kernel" and "/bias". `dtype` is the compute dtype;
    None for that of the global policy.
    """

    def __init__(self, scope: str, input_size: int, output_size: int, initializer_range: float, use_bias: bool = True,
                 dtype: tf.DType | None = None):
        super().__init__(dtype=dtype)
        self.kernel = self.variable(f"{scope}/kernel", [input_size, output_size], initializer_range)
        self.bias = self.variable(f"{scope}/bias", [output_size], "zeros") if use_bias else None

    def weights_for_step(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Kernel and bias in the compute dtype, for all layers that share them."""
        return self.in_compute_dtype(self.kernel), self.in_compute_dtype(self.bias)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """x times the kernel, plus the bias."""
        # Not tf.matmul: TensorFlow 2.21's product of [batch, 1, seq, H] and [H, outputs] is wrong and accesses memory
        # out of bounds (tensorflow issue 117700). tensordot multiplies matrices.
        x = tf.tensordot(self.in_compute_dtype(x), self.in_compute_dtype(self.kernel), 1)
        return x if self.bias is None else add_bias(x, self.in_compute_dtype(self.bias))


def add_bias(product: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Adds a bias [outputs] to the result of a matrix product, [..., outputs]."""
    if not devices.adds_bias_separately(product.dtype):
        return tf.nn.bias_add(product, bias)
    # TensorFlow fuses a product and a bias only if no other operation is between them.
    return tf.squeeze(tf.nn.bias_add(tf.expand_dims(product, -2), bias), -2)


class OutputDense(ReleaseLayer):
    """The last layer of a task in the release: x W^T + b in float32, with W [outputs, inputs] named output_weights."""

    def __init__(self, scope: str, input_size: int, output_size: int, initializer_range: float):
        super().__init__()
        self.kernel = self.variable(f"{scope}output_weights", [output_size, input_size], initializer_range)
        self.bias = self.variable(f"{scope}output_bias", [output_size], "zeros")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """x times the transposed kernel, plus the bias, float32."""
        return tf.matmul(tf.cast(x, tf.float32), self.kernel, transpose_b=True) + self.bias


class LayerNorm(ReleaseLayer):
    """Layer normalisation over the last axis, with statistics in float32.

    `scope` is the name of the variables in the release, without "/beta" and "/gamma". `size` is the last axis' length.
    """

    def __init__(self, scope: str, size: int, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        self.beta = self.variable(f"{scope}/beta", [size], "zeros")
        self.gamma = self.variable(f"{scope}/gamma", [size], "ones")

    def weights_for_step(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Gamma and beta, always float32, as arguments of layer_norm."""
        return tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)

    def call(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        """Normalises x. The result is in the compute dtype."""
        return self.in_compute_dtype(
            layer_norm(x, tf.zeros([], x.dtype), *self.weights_for_step(), self.epsilon, training))


def layer_norm(x: tf.Tensor, residual: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float, training: bool,
               dropout: tuple[tf.Tensor, ...] = ()) -> tf.Tensor:
    """LayerNorm of dropout(x) + residual, [..., size], as a function of its weights, in the dtype of x.

    A scalar residual is a constant. gamma and beta are float32 [size]. `dropout` is the result of Dropouts.next_mask.
    In training, the gradient is compiled.
    """
    function = _fused_layer_norm(epsilon) if training else functools.partial(_layer_norm, epsilon)
    return function(x, residual, gamma, beta, *dropout)


def _layer_norm(epsilon: float, x: tf.Tensor, residual: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor,
                *dropout: tf.Tensor) -> tf.Tensor:
    total = _total(x, residual, *dropout)
    centred = total - tf.reduce_mean(total, axis=-1, keepdims=True)
    scale = tf.math.rsqrt(tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True) + epsilon)
    return tf.cast(centred * scale * gamma + beta, x.dtype)


def _total(x: tf.Tensor, residual: tf.Tensor, *dropout: tf.Tensor) -> tf.Tensor:
    return dropped(tf.cast(x, tf.float32), *dropout) + tf.cast(residual, tf.float32)


@functools.cache
def _fused_layer_norm(epsilon: float) -> Callable[..., tf.Tensor]:
    """The function in training. One serves all layers, so that each shape is compiled once."""
    in_training = compiled(functools.partial(_layer_norm, epsilon))
    gradients = compiled(functools.partial(_gradients_of_layer_norm, epsilon))

    @tf.custom_gradient
    def function(x: tf.Tensor, residual: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor,
                 *dropout: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
            of_x, of_total, *of_weights = gradients(x, residual, gamma, upstream, *dropout)
            of_residual = None if residual.shape.rank == 0 else of_x if of_total is None else of_total
            return of_x, of_residual, *of_weights, *[None] * len(dropout)

        return in_training(x, residual, gamma, beta, *dropout), gradient

    return function


def _gradients_of_layer_norm(epsilon: float, x: tf.Tensor, residual: tf.Tensor, gamma: tf.Tensor, upstream: tf.Tensor,
                             *dropout: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
    """The gradients of x, x + residual (None if it equals x's gradient), gamma and beta.

    XLA for GPUs would keep a product in memory, in float32, for both the sums over rows and those over columns. The
    barrier hides from it that both read the same values: 138 instead of 200 microseconds (16,384 tokens on an H100).
    """
    total = _total(x, residual, *dropout)
    first = total[..., :1]  # differences from a row's first value keep their digits if the mean is large
    mean = tf.reduce_mean(total - first, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(total - first), axis=-1, keepdims=True) - tf.square(mean)
    mean, scale = optimization_barrier(
        (first + mean, tf.math.rsqrt(tf.maximum(variance, 0.0) + epsilon)))
    normalised = (_total(x, residual, *dropout) - mean) * scale
    of_normalised = tf.cast(upstream, tf.float32) * gamma
    of_total = (of_normalised - tf.reduce_mean(of_normalised, axis=-1, keepdims=True)
                - normalised * tf.reduce_mean(of_normalised * normalised, axis=-1, keepdims=True)) * scale
    of_x = tf.cast(dropped(of_total, *dropout), x.dtype)

    x, residual, upstream = optimization_barrier((x, residual, upstream))
    normalised, upstream = (_total(x, residual, *dropout) - mean) * scale, tf.cast(upstream, tf.float32)
    rows = list(range(len(x.shape) - 1))
    return (of_x, tf.cast(of_total, x.dtype) if dropout else None,
            tf.reduce_sum(upstream * normalised, rows), tf.reduce_sum(upstream, rows))


def activation(name: str, training: bool = False) -> Callable[[tf.Tensor], tf.Tensor]:
    """The activation function with the name of a config's hidden_act."""
    return (_FUSED_ACTIVATIONS if training else _ACTIVATIONS)[name]


_ACTIVATIONS = {
    "gelu": lambda x: tf.nn.gelu(x, approximate=True),
    "gelu_exact": lambda x: tf.nn.gelu(x, approximate=False),
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "linear": tf.identity,
}


def _in_float32(function: Callable[[tf.Tensor], tf.Tensor]) -> Callable[[tf.Tensor], tf.Tensor]:
    """Computes an activation in float32 and rounds once. XLA would round to bfloat16 after each operation, slowly."""
    return lambda x: tf.cast(function(tf.cast(x, tf.float32)), x.dtype)


_FUSED_ACTIVATIONS = {name: fused(_in_float32(function)) for name, function in _ACTIVATIONS.items()}

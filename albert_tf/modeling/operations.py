"""Operations of layers in which values pass through memory once: chains that XLA compiles, dropout, cuDNN's attention.

On a CPU the chains of ops between the matrix products (gelu, LayerNorm, softmax) take more time than the products if
each op runs alone. Here XLA compiles such a chain to one loop. Another loop computes the gradient; it recomputes
intermediate values, so that none of them are kept in memory.

Where XLA compiles whole steps on a GPU (--jit_compile), it would keep these values in memory after all, in float32. So
a chain is separate from the ops around it there too. The compiler for TPUs needs no help: there are no chains for it.

The masks of dropout are a function of a seed and of each value's position. As part of a chain they take a fifth of the
time of TensorFlow's random op, and are never stored in memory.
"""

from __future__ import annotations

import json
import math
from typing import Callable, Mapping, TypeVar

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from albert_tf import devices
from albert_tf.utils import imports

Nested = TypeVar("Nested")  # a tensor, or tuples, lists and dicts of tensors

# --- chains -----------------------------------------------------------------------------------------------------------


def compiled(chain: Callable[..., Nested], is_separate: bool = True) -> Callable[..., Nested]:
    """Compiles a chain, a function of tensors, with XLA; on a TPU, it is a part of the step that XLA compiles.

    Each shape is compiled once: this is for training, which has few. is_separate: whether the inputs and outputs are
    kept in memory where XLA compiles the whole step.
    """

    @tf.function(jit_compile=True, autograph=False)
    def function(*inputs: tf.Tensor | tuple[tf.Tensor, ...]) -> Nested:
        return optimization_barrier(chain(*optimization_barrier(inputs))) if is_separate else chain(*inputs)

    def computed(*inputs: tf.Tensor | tuple[tf.Tensor, ...]) -> Nested:
        if devices.is_tpu():
            return chain(*inputs)
        imports.start_xla()
        return function(*inputs)

    return computed


def fused(chain: Callable[..., tf.Tensor], is_separate: bool = True) -> Callable[..., tf.Tensor]:
    """Compiles a chain with one result, and its gradient, as `compiled` does. Integer tensors have no gradient."""

    def gradient(inputs: tuple[tf.Tensor, ...], upstream: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
        with tf.GradientTape() as tape:
            tape.watch([tensor for tensor in inputs if tensor.dtype.is_floating])
            output = chain(*inputs)
        return tape.gradient(output, inputs, upstream)

    forward, backward = compiled(chain, is_separate), compiled(gradient, is_separate)

    @tf.custom_gradient
    def with_gradient(*inputs: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        return forward(*inputs), lambda upstream: backward(inputs, upstream)

    return lambda *inputs: (chain if devices.is_tpu() else with_gradient)(*inputs)


def optimization_barrier(values: Nested) -> Nested:
    """The same tensors or None, which XLA does not compute together with the ops that use them, except on a TPU."""
    if devices.is_tpu():
        return values
    flat = tf.nest.flatten(values)
    tensors = iter(_barrier([value for value in flat if value is not None]))
    return tf.nest.pack_sequence_as(values, [None if value is None else next(tensors) for value in flat])


@tf.custom_gradient
def _barrier(tensors: list[tf.Tensor]) -> tuple[list[tf.Tensor], Callable]:
    return gen_xla_ops.xla_optimization_barrier(tensors), lambda *upstream: upstream


# --- dropout ----------------------------------------------------------------------------------------------------------


class Dropouts:
    """The dropouts of one call of the model. Each has a different mask; all masks are functions of one seed.

    So a resumed run, a recomputed block and a run on other devices drop the same units. `seed` is int32 [2]; None means
    no dropout (inference). `part` is the index of these rows among the equal parts of a batch, from 0: they have the
    masks that they have in the whole batch.
    """

    def __init__(self, seed: tf.Tensor | None, part: tf.Tensor | int = 0):
        self._seed, self._part, self._count = seed, part, 0

    @property
    def training(self) -> bool:
        """Whether there is any dropout."""
        return self._seed is not None

    def for_layer(self, number: int) -> Dropouts:
        """The dropouts of an encoder layer, with the same masks each time that the layer is computed."""
        return type(self)(None if self._seed is None else self._seed + [1 + number, 0], self._part)

    def next_mask(self, rate: float) -> tuple[tf.Tensor, ...]:
        """Seed, part and rate of the next mask, as arguments of `dropped`; () for no dropout."""
        if self._seed is None or not rate:
            return ()
        self._count += 1
        return tf.concat([self._seed + [0, self._count], [self._part]], axis=0), tf.constant(rate, tf.float32)

    def __call__(self, x: tf.Tensor, rate: float) -> tf.Tensor:
        """Applies dropout to x with the next mask."""
        mask = self.next_mask(rate)
        return _dropout(x, *mask) if mask else x


def dropouts(inputs: Mapping[str, tf.Tensor], training: bool) -> Dropouts:
    """The dropouts of a call of a model, none without training.

    If the inputs have no dropout_seed, int32 [2], it is random; if they have no dropout_part (see Dropouts), it is 0.
    """
    if not training:
        return Dropouts(None)
    seed = inputs.get("dropout_seed")
    if seed is None:
        seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
    return Dropouts(tf.convert_to_tensor(seed), inputs.get("dropout_part", 0))


def dropped(x: tf.Tensor, seed: tf.Tensor | None = None, rate: tf.Tensor | None = None) -> tf.Tensor:
    """Applies dropout to x, float32 [rows, ...], with TensorFlow ops that can be part of a fused chain.

    seed, int32 [3], is two words of a seed and the number of the part (see Dropouts). None: no dropout.
    """
    if seed is None or rate is None:
        return x
    is_kept = _random_bits(seed, x) >= tf.cast(rate * 2.0**32, tf.uint32)
    return tf.where(is_kept, x * (1.0 / (1.0 - rate)), 0.0)


@tf.custom_gradient
def _dropout(x: tf.Tensor, *mask: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    """The gradient is the same function of the upstream gradient, so both passes share one program."""
    return _dropout_in_float32(x, *mask), lambda upstream: (_dropout_in_float32(upstream, *mask), None, None)


@compiled
def _dropout_in_float32(x: tf.Tensor, *mask: tf.Tensor) -> tf.Tensor:
    return tf.cast(dropped(tf.cast(x, tf.float32), *mask), x.dtype)


def _random_bits(seed: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Random uint32 of the shape of x: a hash of the seed's two words and of each value's position in the batch."""
    one, two = (tf.bitcast(seed[word], tf.uint32) for word in range(2))

    def word_hash(high: tf.Tensor) -> tf.Tensor:  # of the position; 0 changes nothing, since it is mixed to 0
        return _mixed(tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(_mixed(one), two), _mixed(high)))

    # Static sizes are numbers: operations for them would have to be traced in each program with a mask.
    sizes = [tf.shape(x)[axis] if size is None else size for axis, size in enumerate(x.shape)]
    rank = len(sizes)
    starts = _row_starts(seed[2], sizes[0], math.prod(sizes[1:]))
    low, high = (tf.reshape(word, [-1] + [1] * (rank - 1)) for word in starts)
    positions = low  # modulo 2^32
    # Axis by axis, since TensorFlow would put the sum of all axes into the graph as a constant as large as a row.
    for axis in range(1, rank):
        offsets = tf.bitcast(tf.range(sizes[axis]) * math.prod(sizes[axis + 1:]), tf.uint32)
        positions += tf.reshape(offsets, [-1] + [1] * (rank - 1 - axis))
    bits = tf.where(positions < low, word_hash(high + 1), word_hash(high))
    return _mixed(tf.bitwise.bitwise_xor(bits, positions))


def _row_starts(part: tf.Tensor, rows: tf.Tensor | int, row_size: tf.Tensor | int) -> tuple[tf.Tensor, tf.Tensor]:
    """The positions of the first values of a part's rows in the whole batch: low and high words, uint32 [rows]."""
    part, rows, row_size = (tf.cast(number, tf.int64) for number in (part, rows, row_size))
    starts = (part * rows + tf.range(rows)) * row_size
    low = tf.bitwise.bitwise_and(starts, tf.constant(2**32 - 1, tf.int64))
    return tf.cast(low, tf.uint32), tf.cast(tf.bitwise.right_shift(starts, tf.constant(32, tf.int64)), tf.uint32)


def _mixed(bits: tf.Tensor) -> tf.Tensor:
    """MurmurHash3's finalizer (Appleby, 2011): flipping a bit flips each bit of the result with probability 1/2."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        bits = tf.bitwise.bitwise_xor(bits, tf.bitwise.right_shift(bits, tf.constant(shift, tf.uint32)))
        bits *= tf.constant(factor, tf.uint32)
    return bits


# --- cuDNN's attention ------------------------------------------------------------------------------------------------


_LARGEST_HEAD = 128


def has_cudnn_kernel(query: tf.Tensor, additive_mask: tf.Tensor, *dropout: tf.Tensor) -> bool:
    """Whether cuDNN computes encoder.attention: in bfloat16, for rows of one text, on Ampere or later GPUs.

    There is no dropout, since XLA counts the calls of a process: a resumed run would drop other probabilities.
    """
    head_size = query.shape[-1]
    return (devices.cudnn_capability() >= 8.0 and query.dtype == tf.bfloat16 and additive_mask.shape[2] == 1
            and not dropout and head_size % 8 == 0 and head_size <= _LARGEST_HEAD)


def cudnn_attention(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, additive_mask: tf.Tensor) -> tf.Tensor:
    """encoder.attention and its gradient, as one operation of cuDNN. The scores are never in memory.

    The compiler for NVIDIA GPUs takes calls of cuDNN by name, with settings as JSON: those that
    jax.nn.dot_product_attention(implementation="cudnn") writes in jax 0.10.2 and 0.12. They are in programs for jax
    only, which ran on an H100 with jax 0.11.2. query, key and value are bfloat16 [batch, heads, seq, head_size], all
    static. Padding follows the tokens of each example.
    """
    batch, heads, seq, head_size = query.shape
    # An example of padding alone has one token here, so that no softmax is over nothing.
    tokens = tf.math.count_nonzero(additive_mask[:, 0, 0] == 0, axis=-1, dtype=tf.int32)
    masks = [tf.fill([batch], seq), tf.maximum(tokens, 1)]
    result = tf.TensorSpec([batch, heads, seq, head_size], query.dtype)
    statistics = tf.TensorSpec([batch, heads, seq], tf.float32)  # of the softmax
    workspace = tf.TensorSpec([0], tf.uint8)  # XLA knows its size
    scores = [batch, heads, seq, seq]

    @tf.custom_gradient
    def attend(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        context, sums, _ = _call("Softmax", scores, dict(bmm1=_axes(3, 3), bmm2=_axes(3, 2)),
                                 [query, key, value, *masks], [result, statistics, workspace])

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            products = dict(bmm1_grad_gemm1=_axes(2, 2), bmm1_grad_gemm2=_axes(3, 2),
                            bmm2_grad_gemm1=_axes(2, 2), bmm2_grad_gemm2=_axes(3, 3))
            *gradients, _ = _call("SoftmaxBackward", scores, products,
                                  [query, key, value, sums, upstream, context, *masks], [result] * 3 + [workspace])
            return gradients

        return context, gradient

    return attend(query, key, value)


def _axes(left: int, right: int) -> dict[str, list[int]]:
    """The contracted axes of a product of the arrays of all heads."""
    return dict(lhs_contracting_dimensions=[left], rhs_contracting_dimensions=[right],
                lhs_batch_dimensions=[0, 1], rhs_batch_dimensions=[0, 1])


def _call(kind: str, scores: list[int], products: dict[str, dict[str, list[int]]], operands: list[tf.Tensor],
          results: list[tf.TensorSpec]) -> list[tf.Tensor]:
    config = dict(
        algorithm=dict(algo_id=0, math_type="TENSOR_OP_MATH", tuning_knobs={"17": 1, "24": 0}, is_cudnn_frontend=True),
        intermediate_tensor_shape=dict(element_type="BF16", dimensions=scores, is_dynamic_dimension=[False] * 4,
                                       layout=dict(minor_to_major=[3, 2, 1, 0])),
        fmha_scale=1.0, is_flash_attention=True, mask_type="PADDING", dropout_rate=0.0,
        max_seg_per_batch=1, **{f"{name}_dot_dimension_numbers": axes for name, axes in products.items()})
    return gen_xla_ops.xla_custom_call_v2(
        operands, call_target_name=f"__cudnn$fmha{kind}", has_side_effect=False,
        backend_config=json.dumps(dict(operation_queue_id=0, cudnn_fmha_backend_config=config)),
        result_dtypes=[result.dtype for result in results], result_shapes=[result.shape for result in results])

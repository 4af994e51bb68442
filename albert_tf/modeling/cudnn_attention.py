"""Attention as one operation of cuDNN, in the form that XLA's compiler for NVIDIA GPUs takes.

The compiler does not find an attention among a program's operations. It takes calls of cuDNN by name, with settings as
JSON: those that jax.nn.dot_product_attention(implementation="cudnn") writes in jax 0.10.2. TensorFlow writes such calls
by its operation XlaCustomCallV2. They are in programs for jax only, which ran on an H100 with jax 0.11.2: nobody
has run such a call with TensorFlow's own XLA.
"""

from __future__ import annotations

import json

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from albert_tf import devices

_LARGEST_HEAD = 128


def can_compute(query, *dropout) -> bool:
    """Whether cuDNN computes an attention: in bfloat16 and without dropout, since it would drop other probabilities.

    Args:
      query: [batch, heads, seq, head_size].
      dropout: see blocks.attention.
    """
    head_size = query.shape[-1]
    return (devices.has_cudnn_attention() and query.dtype == tf.bfloat16 and not dropout
            and head_size % 8 == 0 and head_size <= _LARGEST_HEAD)


def attention(query, key, value, additive_mask):
    """blocks.attention and its gradient. The scores are never in memory.

    Args:
      query, key, value: bfloat16 [batch, heads, seq, head_size], all static.
      additive_mask: float32 [batch, 1, 1, seq]. Padding follows the tokens of each example.
    """
    batch, heads, seq, _ = query.shape
    # An example of padding alone has one token here, so that no softmax is over nothing.
    tokens = tf.math.count_nonzero(additive_mask[:, 0, 0] == 0, axis=-1, dtype=tf.int32)
    lengths = tf.fill([batch], seq), tf.maximum(tokens, 1)
    statistics = tf.TensorSpec([batch, heads, seq], tf.float32)  # of the softmax
    workspace = tf.TensorSpec([0], tf.uint8)  # XLA knows its size
    scores = [batch, heads, seq, seq]

    @tf.custom_gradient
    def attend(query, key, value):
        context, sums, _ = _call("Softmax", scores, dict(bmm1=_axes(3, 3), bmm2=_axes(3, 2)),
                                 [query, key, value, *lengths], [query, statistics, workspace])

        def gradient(upstream):
            products = dict(bmm1_grad_gemm1=_axes(2, 2), bmm1_grad_gemm2=_axes(3, 2),
                            bmm2_grad_gemm1=_axes(2, 2), bmm2_grad_gemm2=_axes(3, 3))
            return _call("SoftmaxBackward", scores, products, [query, key, value, sums, upstream, context, *lengths],
                         [query, key, value, workspace])[:3]

        return context, gradient

    return attend(query, key, value)


def _axes(left: int, right: int) -> dict:
    """The contracted axes of a product of the arrays of all heads."""
    return dict(lhs_contracting_dimensions=[left], rhs_contracting_dimensions=[right],
                lhs_batch_dimensions=[0, 1], rhs_batch_dimensions=[0, 1])


def _call(kind: str, scores: list[int], products: dict[str, dict], operands: list, results: list) -> list:
    config = dict(
        algorithm=dict(algo_id=0, math_type="TENSOR_OP_MATH", tuning_knobs={"17": 1, "24": 0}, is_cudnn_frontend=True),
        intermediate_tensor_shape=dict(element_type="BF16", dimensions=scores, is_dynamic_dimension=[False] * 4,
                                       layout=dict(minor_to_major=[3, 2, 1, 0])),
        fmha_scale=1.0, is_flash_attention=True, mask_type="PADDING", dropout_rate=0.0, max_seg_per_batch=1,
        **{f"{name}_dot_dimension_numbers": axes for name, axes in products.items()})
    return gen_xla_ops.xla_custom_call_v2(
        operands, call_target_name=f"__cudnn$fmha{kind}", has_side_effect=False,
        backend_config=json.dumps(dict(operation_queue_id=0, cudnn_fmha_backend_config=config)),
        result_dtypes=[result.dtype for result in results], result_shapes=[result.shape for result in results])

"""Vectors of texts: the pooling of their tokens' vectors, and the prompts before the texts."""

from __future__ import annotations

from typing import Mapping, Sequence

from albert_tf.utils.bounds import check_one_of
from albert_tf.utils.imports import tensorflow as tf

MEAN_OR_MAX = ("mean", "max")
POOLER = "pooler"
POOLINGS = (*MEAN_OR_MAX, "cls", POOLER)
# The smallest divisor of torch.nn.functional.normalize, which sentence-transformers uses.
LEAST_LENGTH = 1e-12


def pooled(outputs: Mapping[str, tf.Tensor], input_mask: tf.Tensor, pooling: str) -> tf.Tensor:
    """The vector of each text, float32 [batch, H], from an encoder's sequence_output and pooled_output.

    `pooling` is "mean" or "max" over the tokens, [CLS] and [SEP] included, "cls" for the vector of [CLS], or "pooler".
    """
    check_one_of("pooling", pooling, POOLINGS)
    if pooling == POOLER:
        return tf.cast(outputs["pooled_output"], tf.float32)
    tokens = tf.cast(outputs["sequence_output"], tf.float32)
    if pooling == "cls":
        return tokens[:, 0]
    return mean_or_max(tokens, input_mask, pooling)


def mean_or_max(values: tf.Tensor, mask: tf.Tensor, pooling: str) -> tf.Tensor:
    """The "mean" or "max" of values, float32 [batch, n, size], where mask, [batch, n], is above 0: [batch, size]."""
    is_value = mask[:, :, None] > 0  # [batch, n, 1]
    if pooling == "max":
        return tf.reduce_max(tf.where(is_value, values, values.dtype.min), axis=1)
    number = tf.reduce_sum(tf.cast(is_value, tf.float32), axis=1)  # [batch, 1]
    return tf.math.divide_no_nan(tf.reduce_sum(tf.where(is_value, values, 0.0), axis=1), number)


def normalized(vectors: tf.Tensor) -> tf.Tensor:
    """The vectors divided by their lengths, as sentence-transformers does; a zero vector stays zero."""
    return tf.math.l2_normalize(vectors, axis=-1, epsilon=LEAST_LENGTH**2)


def prompt_text(prompts: Sequence[tuple[str, str]] | None, name: str | None) -> str:
    """The prompt with a name, which is put before texts; "" without a name. Raises ValueError for an unknown one."""
    texts = dict(prompts or ())
    if name and name not in texts:
        raise ValueError(f"the model has no prompt {name!r}; its prompts are: {', '.join(texts) or 'none'}")
    return texts[name] if name else ""

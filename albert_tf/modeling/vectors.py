"""Vectors of texts: the pooling of their tokens' vectors, and the precision in which they are stored.

The precisions are float32, int8, or one bit for each number. The values equal the results of
sentence_transformers.util.quantize_embeddings.
"""

from __future__ import annotations

import dataclasses
from typing import Mapping, Sequence

import numpy as np

from albert_tf.utils.bounds import check_one_of
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.outputs import read_array

MEAN_OR_MAX = ("mean", "max")
POOLER = "pooler"
POOLINGS = (*MEAN_OR_MAX, "cls", POOLER)
# The smallest divisor of torch.nn.functional.normalize, which sentence-transformers uses.
LEAST_LENGTH = 1e-12


def pooled(outputs: Mapping[str, tf.Tensor], input_mask: tf.Tensor, pooling: str) -> tf.Tensor:
    """The vector of each text, float32 [batch, H].

    Args:
      outputs: the outputs of an encoder: sequence_output [batch, seq, H] and pooled_output [batch, H].
      input_mask: int32 [batch, seq], 1 for tokens, [CLS] and [SEP] included, and 0 for padding.
      pooling: "mean" or "max" over the tokens, "cls" for the vector of [CLS], "pooler" for the pooled output, which
        pre-training trains on the order of sentences (Lan et al., 2020, section 3.1).

    Raises:
      ValueError: there is no such pooling.
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


VECTOR_PRECISIONS = ("float32", "int8", "binary")
_STEPS = 255  # of the range of a dimension, in int8
_BYTE = 8
PLACES = tuple(2**place for place in reversed(range(_BYTE)))  # the first number is the highest bit


@dataclasses.dataclass(frozen=True)
class VectorPrecision:
    """How the numbers of a vector are stored.

    Args:
      name: "float32"; "int8", a number from -128 to 127 that counts the steps of 1/255 of the dimension's range; or
        "binary", a bit for each number, which is 1 if the number is positive. Eight bits are one int8, which is 128
        less than their value.
      ranges: for int8, the smallest and the largest number of each dimension: [2, size] as nested sequences. Numbers
        outside are clipped. None for the other precisions.

    Raises:
      ValueError: there is no such precision, or its ranges are missing, of no use or wrong.
    """

    name: str = "float32"
    ranges: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self):
        check_one_of("vector_precision", self.name, VECTOR_PRECISIONS)
        if (self.ranges is None) == (self.name == "int8"):
            raise ValueError("vector_ranges, the smallest and the largest number of each dimension, belong to "
                             f"vector_precision int8 alone, which needs them. Received: {self.name}")
        if self.ranges is not None:
            ranges = np.asarray(self.ranges, np.float32)
            is_pair = ranges.ndim == 2 and len(ranges) == 2
            if not (is_pair and np.isfinite(ranges).all() and (ranges[0] <= ranges[1]).all()):
                raise ValueError("vector_ranges must be two rows of numbers, [2, size]: the smallest numbers, then "
                                 f"the largest. Received: an array of shape {ranges.shape}")

    def check_size(self, size: int) -> None:
        """Raises ValueError if the ranges belong to vectors of another size."""
        if self.ranges is not None and len(self.ranges[0]) != size:
            raise ValueError(f"vector_ranges are for vectors of {len(self.ranges[0])} numbers, but the vectors "
                             f"have {size}")

    def stored_size(self, size: int) -> int:
        """The length of a vector of `size` numbers when it is stored."""
        return -(-size // _BYTE) if self.name == "binary" else size

    def stored(self, vectors: tf.Tensor) -> tf.Tensor:
        """The vectors in this precision: float32 [..., size] to int8 [..., stored_size(size)], or unchanged."""
        vectors = tf.convert_to_tensor(vectors)
        if self.name == "int8":
            starts, steps = self.starts_and_steps()
            return tf.cast(tf.clip_by_value(tf.floor((vectors - starts) / steps), 0.0, _STEPS) - 128.0, tf.int8)
        if self.name == "binary":
            bits = tf.cast(vectors > 0, tf.float32)
            size = self.stored_size(vectors.shape[-1])
            padding = [[0, 0]] * (vectors.shape.rank - 1) + [[0, size * _BYTE - vectors.shape[-1]]]
            shape = tf.concat([tf.shape(vectors)[:-1], [size, _BYTE]], axis=0)
            values = tf.reduce_sum(tf.reshape(tf.pad(bits, padding), shape) * PLACES, axis=-1)
            return tf.ensure_shape(tf.cast(values - 128.0, tf.int8), [*vectors.shape[:-1], size])
        return vectors

    def restored(self, stored: tf.Tensor, size: int) -> tf.Tensor:
        """Vectors float32 [..., size] for comparisons: about the original ones, or for "binary" 1 and -1.

        The product of two binary ones is `size` minus twice their Hamming distance.
        """
        if self.name == "int8":
            starts, steps = self.starts_and_steps()
            return (tf.cast(stored, tf.float32) + 128.0) * steps + starts
        if self.name == "binary":
            values = tf.cast(stored, tf.int32)[..., None] + 128
            bits = tf.bitwise.bitwise_and(values, PLACES) > 0  # [..., stored_size, 8]
            flat = tf.reshape(bits, tf.concat([tf.shape(stored)[:-1], [-1]], axis=0))[..., :size]
            return tf.where(flat, 1.0, -1.0)
        return tf.convert_to_tensor(stored)

    def starts_and_steps(self) -> tuple[np.ndarray, np.ndarray]:
        """For int8: the smallest number of each dimension, and the 255th part of its range (1 if it is empty)."""
        starts, ends = np.asarray(self.ranges, np.float32)
        steps = (ends - starts) / np.float32(_STEPS)
        return starts, np.where(steps == 0, np.float32(1), steps)


def prompt_text(prompts: Sequence[tuple[str, str]] | None, name: str | None) -> str:
    """The prompt with a name, which is put before texts; "" without a name. Raises ValueError for an unknown one."""
    texts = dict(prompts or ())
    if name and name not in texts:
        raise ValueError(f"the model has no prompt {name!r}; its prompts are: {', '.join(texts) or 'none'}")
    return texts[name] if name else ""


def read_ranges(path: str) -> tuple[tuple[float, ...], ...]:
    """VectorPrecision.ranges from an .npy file. Raises ValueError if it cannot be read, or is no array [2, size]."""
    array = read_array(path)
    if array.ndim != 2 or len(array) != 2 or array.dtype.kind not in "fiu":
        raise ValueError(f"{path} must have the smallest and the largest value of each dimension, float32 [2, "
                         f"dimensions]. It has {array.dtype} of the shape {list(array.shape)}")
    return as_ranges(array)


def as_ranges(array: np.ndarray | Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """An array [2, size] as the value of VectorPrecision.ranges."""
    return tuple(map(tuple, np.asarray(array, np.float32).tolist()))

"""windows.py for several texts, as TensorFlow ops."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class GraphWindows(NamedTuple):
    """The windows of all texts, int64 [windows] each. The windows of a text are consecutive.

    Args:
      text: the index of each window's text.
      first: the index, in its text, of each window's first piece.
      length: the number of pieces of each window.
    """

    text: tf.Tensor
    first: tf.Tensor
    length: tf.Tensor


def windows_of(num_pieces: tf.Tensor, window_length: tf.Tensor, doc_stride: int | tf.Tensor) -> GraphWindows:
    """windows.windows for several texts. A text without pieces has one empty window.

    Args:
      num_pieces: the number of pieces of each text, int64 [texts].
      window_length: the largest number of pieces of a window of each text, int64 [texts].
      doc_stride: pieces from the start of one window to the start of the next, for all texts or int64 [texts].
    """
    step = tf.minimum(window_length, doc_stride)
    # [texts]: the number of windows of each text
    count = 1 + tf.maximum(tf.constant(0, tf.int64), -((window_length - num_pieces) // step))
    text = tf.repeat(tf.range(tf.size(count, tf.int64)), count)  # [windows]
    number = tf.range(tf.size(text, tf.int64)) - tf.gather(tf.cumsum(count, exclusive=True), text)
    first = number * tf.gather(step, text)
    return GraphWindows(text, first, tf.minimum(tf.gather(window_length, text), tf.gather(num_pieces, text) - first))


def slices(values: tf.Tensor, begin: tf.Tensor, length: tf.Tensor) -> tf.RaggedTensor:
    """Values begin to begin + length - 1 for each slice, [slices, (values)]. Slices may overlap.

    Args:
      values: [values].
      begin, length: int64 [slices].
    """
    places = tf.ragged.range(begin, begin + length)
    return places.with_values(tf.gather(values, places.values))


def is_max_context(
    place: tf.Tensor, length: tf.Tensor, in_window: tf.Tensor, piece: tf.Tensor, num_pieces: tf.Tensor
) -> tf.Tensor:
    """Window.is_max_context of each token, bool [windows, seq]. On a tie, the first window has it.

    Args:
      place: int64 [windows or 1, seq], the index of a token in its window; any number outside the window.
      length: int64 [windows, 1], the number of pieces of each window.
      in_window: bool [windows, seq], whether a token is a piece of the window.
      piece: int64 [windows, seq], the index of the token's piece among the pieces of all texts; num_pieces for tokens
        that are not pieces.
      num_pieces: int64 [], the number of pieces of all texts.
    """
    score = tf.cast(tf.minimum(place, length - 1 - place), tf.float64) + 0.01 * tf.cast(length, tf.float64)
    score = tf.where(in_window, score, tf.constant(-1.0, tf.float64))
    best = tf.gather(tf.math.unsorted_segment_max(score, piece, num_pieces + 1), piece)
    number = tf.broadcast_to(tf.range(tf.shape(in_window, tf.int64)[0])[:, None], tf.shape(in_window))
    candidate = tf.where(in_window & (score == best), number, number.dtype.max)
    return in_window & (tf.gather(tf.math.unsorted_segment_min(candidate, piece, num_pieces + 1), piece) == number)

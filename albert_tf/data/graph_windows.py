"""The windows of data/windows.py for many texts, as TensorFlow ops."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class GraphWindows(NamedTuple):
    """The windows of all texts, those of one text side by side; int64 [windows] each.

    Args:
      text: the text of each.
      first, length: its pieces among those of its text.
    """

    text: tf.Tensor
    first: tf.Tensor
    length: tf.Tensor


def windows_of(num_pieces: tf.Tensor, room: tf.Tensor, doc_stride: int) -> GraphWindows:
    """windows.windows for many texts; a text without pieces has one empty window.

    Args:
      num_pieces: of each text, int64 [texts].
      room: pieces of a window of each text, int64 [texts].
      doc_stride: pieces from the start of one window to the start of the next.
    """
    step = tf.minimum(room, doc_stride)
    count = 1 + tf.maximum(tf.constant(0, tf.int64), -((room - num_pieces) // step))  # of windows, [texts]
    text = tf.repeat(tf.range(tf.size(count, tf.int64)), count)  # [windows]
    number = tf.range(tf.size(text, tf.int64)) - tf.gather(tf.cumsum(count, exclusive=True), text)
    first = number * tf.gather(step, text)
    return GraphWindows(text, first, tf.minimum(tf.gather(room, text), tf.gather(num_pieces, text) - first))


def is_max_context(
    place: tf.Tensor, length: tf.Tensor, in_window: tf.Tensor, piece: tf.Tensor, num_pieces: tf.Tensor
) -> tf.Tensor:
    """Window.is_max_context of each token, bool [windows, seq]; of several windows that are equally good the first.

    Args:
      place: int64 [windows or 1, seq], where a token is in its window; any number outside of it.
      length: int64 [windows, 1], pieces of each window.
      in_window: bool [windows, seq], whether a token is a piece of the window.
      piece: int64 [windows, seq], the number of the token's piece among those of all texts; num_pieces for others.
      num_pieces: int64 [], of all texts.
    """
    score = tf.cast(tf.minimum(place, length - 1 - place), tf.float64) + 0.01 * tf.cast(length, tf.float64)
    score = tf.where(in_window, score, tf.constant(-1.0, tf.float64))
    best = tf.gather(tf.math.unsorted_segment_max(score, piece, num_pieces + 1), piece)
    number = tf.broadcast_to(tf.range(tf.shape(in_window, tf.int64)[0])[:, None], tf.shape(in_window))
    candidate = tf.where(in_window & (score == best), number, number.dtype.max)
    return in_window & (tf.gather(tf.math.unsorted_segment_min(candidate, piece, num_pieces + 1), piece) == number)

"""Overlapping windows of long texts."""

import numpy as np

from albert_tf.text.packing import windows


def test_windows_cover_the_paragraph_and_each_piece_is_at_home_in_one():
    found = windows(100, 40, 16)
    assert [(window.first, window.length) for window in found] == [(0, 40), (16, 40), (32, 40), (48, 40), (64, 36)]
    homes = np.zeros(100, int)
    for window in found:
        homes[window.first : window.first + window.length] += window.is_max_context
    assert (homes == 1).all()


def test_a_stride_longer_than_the_window_leaves_nothing_out():
    assert [(window.first, window.length) for window in windows(25, 10, 50)] == [(0, 10), (10, 10), (20, 5)]
    assert windows(0, 10, 5) == ()

"""When cuDNN computes an attention. tests/test_device_steps.py looks for its calls in programs."""

import pytest
import tensorflow as tf

from albert_tf import devices
from albert_tf.modeling.cudnn_attention import can_compute


@pytest.mark.parametrize("dtype, head_size, dropout, expected", [
    ("bfloat16", 64, (), True), ("float32", 64, (), False), ("bfloat16", 64, ([1, 2, 0], 0.1), False),
    ("bfloat16", 12, (), False), ("bfloat16", 256, (), False)])
def test_cudnn_computes_bfloat16_without_dropout(dtype, head_size, dropout, expected, monkeypatch):
    query = tf.zeros([1, 1, 8, head_size], dtype)
    assert not can_compute(query, *dropout)  # on a CPU
    monkeypatch.setattr(devices, "has_cudnn_attention", lambda: True)
    assert can_compute(query, *dropout) is expected

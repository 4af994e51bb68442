"""Errors if the extra `onnx` is not installed."""

import sys

import pytest

from albert_tf.utils.imports import check_installed


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, "onnx", sys)
    monkeypatch.setitem(sys.modules, "onnxruntime", sys)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ValueError, match=f"an ONNX model needs the package {missing}, .*: pip install {missing}, or "):
        check_installed("an ONNX model", "onnx", "onnxruntime")

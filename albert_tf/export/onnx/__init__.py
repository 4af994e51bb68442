"""Writes models as ONNX graphs, with the package onnx, from their config and variables."""

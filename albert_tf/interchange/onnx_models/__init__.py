"""ONNX models: the graph of a model, written with the package onnx from the model's config and variables."""

"""Writes models for other programs: SavedModel, ONNX, TensorFlow Lite, TF-Hub modules; converts between formats."""

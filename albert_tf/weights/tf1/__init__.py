"""Reads and writes TensorFlow 1 checkpoints: of the release, of google-research/bert and of brightmart/albert_zh."""

"""Reads and writes TF-Hub modules, of TensorFlow 1 and 2."""

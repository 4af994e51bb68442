"""Reads presets of keras-hub's ALBERT. This module has the names of the files and the classes."""

CONFIG, TASK = "config.json", "task.json"
WEIGHTS, TASK_WEIGHTS = "model.weights.h5", "task.weights.h5"  # of the backbone, and of the head
VOCABULARY = "assets/tokenizer/vocabulary.spm"

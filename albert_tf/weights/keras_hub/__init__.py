"""Reads and writes presets of keras-hub's ALBERT. This module has the names of the files and the classes."""

import os

import tensorflow as tf

CONFIG, TASK, TOKENIZER = "config.json", "task.json", "tokenizer.json"
WEIGHTS, TASK_WEIGHTS = "model.weights.h5", "task.weights.h5"  # of the backbone, and of the head
VOCABULARY = "assets/tokenizer/vocabulary.spm"


def is_preset(folder: str) -> bool:
    """Whether a folder is a preset: it has weights of Keras beside a config that is not Hugging Face's."""
    from albert_tf.utils.json_files import read_json_object

    has_files = all(tf.io.gfile.exists(os.path.join(folder, name)) for name in (CONFIG, WEIGHTS))
    return has_files and "registered_name" in read_json_object(os.path.join(folder, CONFIG))

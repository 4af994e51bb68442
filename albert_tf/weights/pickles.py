"""Rejects pickles, the format of PyTorch's weights, since reading one can run any code."""

from __future__ import annotations

import os
from typing import Iterable

import tensorflow as tf

_ENDINGS = (".bin", ".pt", ".pth", ".pkl", ".pickle")
# The first bytes of pickles, and of zip files, the format of newer PyTorch files.
_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")


def refuse_pickle(path: str) -> None:
    """Raises ValueError if the file at the path is a pickle according to its name or its first bytes."""
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        return
    if path.endswith(".keras"):
        raise ValueError(f"{path} is a file that Keras reads: use keras.models.load_model. save_pretrained writes a "
                         "folder with weights, config and vocabulary, which from_pretrained reads")
    with tf.io.gfile.GFile(path, "rb") as file:
        if file.read(4).startswith(_STARTS):
            raise _refusal(path)
    refuse_pickle_names([path])


def refuse_pickles_in(folder: str) -> None:
    """Raises ValueError if a file in the folder is a pickle."""
    for name in sorted(tf.io.gfile.listdir(folder)):
        refuse_pickle(os.path.join(folder, name))


def refuse_pickle_names(names: Iterable[str]) -> None:
    """Raises ValueError if a file is a pickle according to its name."""
    for name in names:
        if name.endswith(_ENDINGS):
            raise _refusal(name)


def _refusal(path: str) -> ValueError:
    return ValueError(f"{path} is a pickle, which can run any code when it is read: save the model as safetensors "
                      "(Hugging Face's save_pretrained does), and use that folder")

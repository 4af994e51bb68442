"""Pickles, in which PyTorch keeps weights: reading one may run any code, so they are refused by name."""

from __future__ import annotations

import os

import tensorflow as tf

_ENDINGS = (".bin", ".pt", ".pth", ".pkl", ".pickle")
# What pickles begin with, and zip files, which PyTorch's newer ones are.
_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")


def refuse_pickle(path: str) -> None:
    """Raises: ValueError: there is a file at the path, and it is a pickle by its name or by its first bytes."""
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        return
    with tf.io.gfile.GFile(path, "rb") as file:
        is_pickle = path.endswith(_ENDINGS) or file.read(4).startswith(_STARTS)
    if is_pickle:
        raise ValueError(f"{path} is a pickle, which can run any code when it is read: save the model as safetensors "
                         "(Hugging Face's save_pretrained does), and give that folder")


def refuse_pickles_in(folder: str) -> None:
    """Raises: ValueError: a file of the folder is a pickle."""
    for name in sorted(os.listdir(folder)):
        refuse_pickle(os.path.join(folder, name))

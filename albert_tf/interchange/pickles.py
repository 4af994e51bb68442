"""Pickles, in which PyTorch keeps weights: reading one may run any code, so they are refused by name."""

from __future__ import annotations

import os
from typing import Iterable

import tensorflow as tf

_ENDINGS = (".bin", ".pt", ".pth", ".pkl", ".pickle")
# What pickles begin with, and zip files, which PyTorch's newer ones are.
_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")


def refuse_pickle(path: str) -> None:
    """Raises: ValueError: there is a file at the path, and it is a pickle by its name or by its first bytes."""
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        return
    with tf.io.gfile.GFile(path, "rb") as file:
        if file.read(4).startswith(_STARTS):
            raise _refusal(path)
    refuse_pickle_names([path])


def refuse_pickles_in(folder: str) -> None:
    """Raises: ValueError: a file of the folder is a pickle."""
    for name in sorted(tf.io.gfile.listdir(folder)):
        refuse_pickle(os.path.join(folder, name))


def refuse_pickle_names(names: Iterable[str]) -> None:
    """Raises: ValueError: a file is a pickle by its name."""
    for name in names:
        if name.endswith(_ENDINGS):
            raise _refusal(name)


def _refusal(path: str) -> ValueError:
    return ValueError(f"{path} is a pickle, which can run any code when it is read: save the model as safetensors "
                      "(Hugging Face's save_pretrained does), and give that folder")

"""Turns raw texts into a batch of model inputs (FullTokenizer.__call__)."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from albert_tf.text.origins import trace_pieces
from albert_tf.text.packing import PairPacker, padding_values
from albert_tf.text.pieces import PieceTokenizer

PADDINGS = ("longest", "max_length")


def pack_texts(
    tokenizer: PieceTokenizer, texts: str | Sequence[str], text_pairs: str | Sequence[str] | None, max_seq_length: int,
    padding: str, return_offsets: bool,
) -> dict[str, np.ndarray]:
    """Implements FullTokenizer.__call__; arguments, result and errors are described there."""
    if padding not in PADDINGS:
        raise ValueError(f"padding must be one of {', '.join(PADDINGS)}. Received: {padding!r}")
    texts = list_of_strings("texts", [texts] if isinstance(texts, str) else texts)
    pairs = [""] * len(texts) if text_pairs is None else list_of_strings(
        "text_pairs", [text_pairs] if isinstance(text_pairs, str) else text_pairs)
    if len(texts) != len(pairs):
        raise ValueError("texts and text_pairs must have the same length. "
                         f"Received: {len(texts)} texts and {len(pairs)} text_pairs")
    packer = PairPacker(tokenizer, max_seq_length, pad=False)
    encoded = [_encode(tokenizer, each, return_offsets) for each in (texts, pairs)]
    rows = [packer.pack(ids_a, ids_b) for ids_a, ids_b in zip(*(ids for ids, _ in encoded))]
    length = max_seq_length if padding == "max_length" else max((len(row["input_ids"]) for row in rows), default=0)
    fills = padding_values(tokenizer.pad_id)
    batch = {name: _padded([row[name] for row in rows], [len(rows), length], fill) for name, fill in fills.items()}
    if return_offsets:
        offsets = [_row_offsets(packer, a, b) for a, b in zip(*(offsets for _, offsets in encoded))]
        batch["offsets"] = _padded(offsets, [len(rows), length, 2], 0)
    return batch


def list_of_strings(name: str, texts: Sequence[str]) -> list[str]:
    """Texts as a list.

    Raises:
      ValueError: texts is a single string, or an element is not a string. The message has `name` and the element.
    """
    if isinstance(texts, str):
        raise ValueError(f"{name} must be a list of strings, not a string")
    texts = list(texts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{name} must be strings. Received: {name}[{i}]={text!r}")
    return texts


def _encode(tokenizer: PieceTokenizer, texts: list[str], with_offsets: bool):
    """The ids of each text, and the offsets of its pieces (None if with_offsets is False)."""
    if not with_offsets:
        return tokenizer.encode_batch(texts), [None] * len(texts)
    traced = trace_pieces(tokenizer, texts)
    return [each.ids for each in traced], [each.offsets for each in traced]


def _row_offsets(packer: PairPacker, offsets_a: np.ndarray, offsets_b: np.ndarray) -> np.ndarray:
    length_a, length_b = packer.lengths(len(offsets_a), len(offsets_b))
    special = np.zeros([1, 2], np.int32)
    return np.concatenate([special, offsets_a[:length_a], special, offsets_b[:length_b]])


def _padded(rows: list, shape: list[int], fill: int) -> np.ndarray:
    padded = np.full(shape, fill, np.int32)
    for target, row in zip(padded, rows):
        target[: len(row)] = row
    return padded

"""The names of a classifier's labels."""

from __future__ import annotations

from typing import Sequence

from albert_tf.utils.files import check_one_line


def checked_label_names(label_names: Sequence[str] | None, num_labels: int) -> tuple[str, ...] | None:
    """The names as a tuple.

    Raises:
      ValueError: their number is not num_labels, or a name has a line break: names are stored one per line.
    """
    if label_names is None:
        return None
    if len(label_names) != num_labels:
        raise ValueError(f"label_names must have num_labels={num_labels} names. Received: {len(label_names)}")
    for name in label_names:
        check_one_line(name, "a name in label_names")
    return tuple(label_names)

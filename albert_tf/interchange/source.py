"""Source: weights from elsewhere, whatever they are kept in, under the release's names."""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple, Sequence

import numpy as np


class Source(NamedTuple):
    """What every kind of file offers to `restore`; nothing is read before it is asked for.

    Args:
      path: what to call it in messages.
      config_file: JSON with the model's config, of the release's kind or Hugging Face's.
      shapes: the shape of each value, by release name.
      read: gives the value of a release name.
    """

    path: str
    config_file: str
    shapes: Mapping[str, Sequence[int]]
    read: Callable[[str], np.ndarray]

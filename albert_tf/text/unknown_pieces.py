"""What a vocabulary does not have of a training file."""

from __future__ import annotations

import collections
from typing import Sequence

import numpy as np
from absl import logging

from albert_tf.text.origins import trace_pieces
from albert_tf.text.tokenization import FullTokenizer

WARNED_SHARE = 0.01
_MOST_FREQUENT = 5


def warn_of_unknown_pieces(tokenizer: FullTokenizer, texts: Sequence[str], source: str) -> None:
    """Warns if more than 1 % of the pieces of texts are unknown, with the most frequent ones.

    Args:
      tokenizer: the model's tokenizer.
      texts: some texts of the training set.
      source: where they are from, for the message.
    """
    encoded = tokenizer.encode_batch(list(texts))
    with_unknown = [text for text, ids in zip(texts, encoded) if tokenizer.unk_id in ids]
    counts: collections.Counter[str] = collections.Counter()
    for text, traced in zip(with_unknown, trace_pieces(tokenizer, with_unknown)):
        for start, end in traced.offsets[np.equal(traced.ids, tokenizer.unk_id)]:
            counts[text[start:end]] += 1
    share = counts.total() / max(1, sum(map(len, encoded)))
    if share > WARNED_SHARE:
        logging.warning("the vocabulary does not have %.1f %% of the pieces of %s, which all become %s: most often %s",
                        100 * share, source, tokenizer.convert_ids_to_tokens([tokenizer.unk_id])[0],
                        " ".join(piece for piece, _ in counts.most_common(_MOST_FREQUENT)))

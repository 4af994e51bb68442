"""Converts a pair of segments to a serialized tf.Example in the release's record format."""

from __future__ import annotations

import collections

import numpy as np

from albert_tf.data.tf_example import serialize
from albert_tf.pretraining.masking import Masker, MaskingOptions
from albert_tf.pretraining.segments import Pair
from albert_tf.text.packing import SpecialTokens
from albert_tf.text.tokenization import FullTokenizer


class ExampleMaker:
    """Masks pairs and serializes them.

    Args:
      tokenizer: provides the ids of the special tokens.
      starts_word: bool [vocab_size], whether the piece of each id starts a word.
      max_seq_length: length of the per-token features.
      options: which tokens are masked.
    """

    def __init__(self, tokenizer: FullTokenizer, starts_word: np.ndarray, max_seq_length: int, options: MaskingOptions):
        self._special_tokens = SpecialTokens(tokenizer)
        self._pad_id = tokenizer.pad_id
        self._starts_word = starts_word
        self._max_seq_length, self._options = max_seq_length, options
        self._masker = Masker(options, tokenizer.mask_id, len(starts_word))

    def make(self, pair: Pair, rng: np.random.Generator, statistics: collections.Counter) -> bytes:
        """Makes the record of a pair, and adds its counts to the statistics."""
        ids = self._special_tokens.around(pair.a, pair.b)
        length, second = len(ids), len(pair.a) + 2
        special = np.zeros(length, bool)
        special[[0, second - 1, length - 1]] = True
        masked = self._masker.mask(ids, self._starts_word[ids], special, rng)
        statistics.update(examples=1, tokens=length, masked=len(masked.positions), swapped=pair.label,
                          short=pair.is_short)

        padding = self._max_seq_length - length
        predictions_padding = self._options.record_predictions - len(masked.positions)
        segment_ids = np.zeros(length, np.int32)
        segment_ids[second:] = 1
        return serialize(
            input_ids=_padded(masked.input_ids, padding, self._pad_id),
            input_mask=_padded(np.ones(length, np.int32), padding),
            segment_ids=_padded(segment_ids, padding),
            token_boundary=_padded((self._starts_word[ids] | special).astype(np.int32), padding),
            masked_lm_positions=_padded(masked.positions, predictions_padding),
            masked_lm_ids=_padded(masked.labels, predictions_padding),
            masked_lm_weights=_padded(np.ones(len(masked.positions), np.float32), predictions_padding),
            next_sentence_labels=np.array([pair.label]),
        )


def _padded(values: np.ndarray, count: int, fill: int = 0) -> np.ndarray:
    return np.concatenate([values, np.full(count, fill, values.dtype)])

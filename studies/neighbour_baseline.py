"""The masked-LM loss of a baseline that knows token frequencies and neighbouring tokens, but no other context.

Pre-training first reaches about this loss and stays there for a long time (the plateau). A model with a lower loss has
learned to use more of the sentence. docs/pretraining.md explains how to leave the plateau.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from albert_tf.pretraining.dynamic_masking import original_ids
from albert_tf.pretraining.reading import RecordSet, record_batches

# How many tokens are counted, and how many masked tokens are predicted. This takes a few seconds.
_COUNTED_TOKENS, _PREDICTED_TOKENS = 1_500_000, 20_000
# The pseudo-count of the prior: the counts of a neighbour are smoothed as if it had been seen this many more times,
# with tokens drawn by overall frequency. Of 10, 30 and 100, this value has the lowest loss on English novels (8,000
# pieces).
_PRIOR_COUNT = 100.0
_EXAMPLES_AT_ONCE = 1_000  # examples whose masked tokens are read at a time


def neighbour_baseline(training: RecordSet, evaluation: RecordSet, vocab_size: int) -> float:
    """Counts tokens and pairs in training records, and predicts masked tokens of evaluation records from them.

    The result is the mean cross entropy of masked tokens, in nats. The probability of a masked token w between l and r
    is P(w | l) P(w | r) / P(w), divided by its sum over all w.
    """
    counted = next(record_batches(training, _COUNTED_TOKENS // training.max_seq_length))
    ids, real = original_ids(counted).numpy(), counted["input_mask"].numpy() > 0
    frequencies = np.bincount(ids[real], minlength=vocab_size) + 1.0
    frequencies /= frequencies.sum()
    pairs = real[:, 1:]  # padding is at the end only: if the second token of a pair is real, the first one is too
    before, after = ids[:, :-1][pairs], ids[:, 1:][pairs]
    followers = sparse.csr_matrix((np.ones(len(before)), (before, after)), shape=(vocab_size, vocab_size))
    leaders = followers.T.tocsr()

    labels, left, right = _masked_tokens(evaluation)
    by_left, by_right, prior = followers[left], leaders[right], _PRIOR_COUNT * frequencies
    rows = np.arange(len(labels))
    of_label = [np.asarray(counts[rows, labels]).ravel() + prior[labels] for counts in (by_left, by_right)]
    # P(w | l) P(w | r) / P(w), summed over all tokens w and times both denominators. Only the first term needs a sum,
    # since the prior has the sum _PRIOR_COUNT.
    total = (_row_sums(by_left.multiply(by_right).multiply(1 / frequencies))
             + _PRIOR_COUNT * (_row_sums(by_left) + _row_sums(by_right)) + _PRIOR_COUNT**2)
    probabilities = of_label[0] * of_label[1] / frequencies[labels] / total
    return -float(np.log(probabilities).mean())


def _row_sums(matrix) -> np.ndarray:
    return np.asarray(matrix.sum(axis=1)).ravel()


def _masked_tokens(records: RecordSet) -> np.ndarray:
    """The first masked tokens, and the tokens before and after each of them, int [3, masked tokens]."""
    parts: list[np.ndarray] = []
    for batch in record_batches(records, _EXAMPLES_AT_ONCE):
        rows, columns = np.nonzero(batch["masked_lm_weights"])
        positions, inputs = batch["masked_lm_positions"].numpy()[rows, columns], batch["input_ids"].numpy()
        # [CLS] and [SEP] are never masked: both neighbours exist.
        parts.append(np.stack([batch["masked_lm_ids"].numpy()[rows, columns],
                               inputs[rows, positions - 1], inputs[rows, positions + 1]]))
        if sum(part.shape[1] for part in parts) >= _PREDICTED_TOKENS:
            break
    return np.concatenate(parts, axis=1)[:, :_PREDICTED_TOKENS]

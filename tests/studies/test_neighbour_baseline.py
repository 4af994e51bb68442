"""The loss that neighbouring tokens explain, counted by hand."""

import math
from collections import Counter

import numpy as np
import pytest
from synthetic_records import CLS, MASK, SEP, VOCAB_SIZE, example

from albert_tf.data.records import record_writer, serialize
from albert_tf.pretraining.examples import MaskingOptions
from albert_tf.pretraining.reading import open_records
from studies.neighbour_baseline import neighbour_baseline

SEQ, PREDICTIONS = 32, 1


def record(ids, position):
    """A record whose tokens are [CLS] ids [SEP], with one masked."""
    tokens = np.array([CLS, *ids, SEP], np.int32)
    features = example(np.random.default_rng(0), SEQ, MaskingOptions(PREDICTIONS))[0]
    inputs = tokens.copy()
    inputs[position] = MASK
    padding = np.zeros(SEQ - len(tokens), np.int32)
    return dict(features, input_ids=np.concatenate([inputs, padding]),
                input_mask=np.concatenate([np.ones_like(tokens), padding]), masked_lm_positions=np.array([position]),
                masked_lm_ids=tokens[[position]], masked_lm_weights=np.ones(1, np.float32))


def test_the_loss_is_that_of_counts_by_hand(tmp_path):
    texts, rng, path = [[5, 6, 7], [5, 6, 8], [9, 6, 7]], np.random.default_rng(1), str(tmp_path / "x.tfrecord")
    positions = [int(rng.integers(1, len(ids) + 1)) for ids in texts]
    with record_writer(path, {}) as writer:
        for ids, position in zip(texts, positions):
            writer.write(serialize(**record(ids, position)))
    records = open_records([path], SEQ, PREDICTIONS, VOCAB_SIZE)
    sequences = [[CLS, *ids, SEP] for ids in texts]
    tokens = Counter({token: 1 for token in range(VOCAB_SIZE)})
    tokens.update(sum(sequences, []))
    frequency = {token: count / sum(tokens.values()) for token, count in tokens.items()}
    pairs = Counter(pair for ids in sequences for pair in zip(ids, ids[1:]))

    def probability(token, left, right):
        def of(count, neighbour_count):
            return (count + 100 * frequency[token]) / (neighbour_count + 100)

        before = sum(count for (first, _), count in pairs.items() if first == left)
        after = sum(count for (_, second), count in pairs.items() if second == right)
        return of(pairs[left, token], before) * of(pairs[token, right], after) / frequency[token]

    losses = []
    for ids, position in zip(sequences, positions):
        left, token, right = ids[position - 1 : position + 2]
        total = sum(probability(other, left, right) for other in range(VOCAB_SIZE))
        losses.append(-math.log(probability(token, left, right) / total))
    assert neighbour_baseline(records, records, VOCAB_SIZE) == pytest.approx(np.mean(losses), rel=1e-6)

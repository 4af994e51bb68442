"""Tiny pre-training records for tests: random ids in the release's format, masked by the rules of examples.py."""

import numpy as np

from albert_tf.data.records import record_writer, serialize
from albert_tf.pretraining.examples import Masker, MaskingOptions

CLS, SEP, MASK, FIRST_ID, VOCAB_SIZE = 2, 3, 4, 5, 60


def example(rng, max_seq_length: int, options: MaskingOptions, shortest: int | None = None):
    """(features of one record, its ids before masking, whether a piece starts a word). Words have 1 to 3 pieces."""
    length = int(rng.integers(shortest or max(5, max_seq_length // 2), max_seq_length + 1))
    second = int(rng.integers(2, length - 2))
    ids = rng.integers(FIRST_ID, VOCAB_SIZE, length).astype(np.int32)
    special = np.zeros(length, bool)
    special[[0, second, length - 1]] = True
    ids[special] = CLS, SEP, SEP
    starts = special | (rng.random(length) < 0.6)
    starts[[1, second + 1]] = True
    masked = Masker(options, MASK, VOCAB_SIZE).mask(ids, starts, special, rng)
    predictions = options.record_predictions
    features = dict(
        input_ids=_padded(masked.input_ids, max_seq_length),
        input_mask=_padded(np.ones(length, np.int32), max_seq_length),
        segment_ids=_padded((np.arange(length) > second).astype(np.int32), max_seq_length),
        token_boundary=_padded(starts.astype(np.int32), max_seq_length),
        masked_lm_positions=_padded(masked.positions, predictions),
        masked_lm_ids=_padded(masked.labels, predictions),
        masked_lm_weights=_padded(np.ones(len(masked.positions), np.float32), predictions),
        next_sentence_labels=rng.integers(0, 2, 1),
    )
    return features, _padded(ids, max_seq_length), starts


def write_records(path, count: int = 50, max_seq_length: int = 16, max_predictions: int = 3, seed: int = 0,
                  shortest: int | None = None, **made_from) -> str:
    """Writes records to `path` and returns it."""
    rng = np.random.default_rng(seed)
    with record_writer(str(path), made_from) as writer:
        for _ in range(count):
            writer.write(serialize(**example(rng, max_seq_length, MaskingOptions(max_predictions), shortest)[0]))
    return str(path)


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([values, np.zeros(length - len(values), values.dtype)])

"""Tables of fine-tuning features for tests: random ids and lengths, and what can be learned from them."""

import numpy as np
import tensorflow as tf

from albert_tf.data.feature_table import FeatureSchema, cached_table

MAX_SEQ_LENGTH, VOCAB_SIZE = 40, 60


def features(count: int, max_seq_length: int = MAX_SEQ_LENGTH, seed: int = 0, **scalars):
    """Padded features. The second token is 10 + label_ids, so that the label can be learned."""
    random = np.random.default_rng(seed)
    for i in range(count):
        length, label = int(random.integers(4, max_seq_length + 1)), i % 2
        ids = [2, 10 + label, *random.integers(20, VOCAB_SIZE, length - 2).tolist()]
        padding = [0] * (max_seq_length - length)
        yield dict(input_ids=ids + padding, input_mask=[1] * length + padding,
                   segment_ids=[0] * 2 + [1] * (length - 2) + padding, label_ids=label,
                   **{name: value[i] for name, value in scalars.items()})


def table(folder, count: int, max_seq_length: int = MAX_SEQ_LENGTH, seed: int = 0):
    """A FeatureTable that is read from records of `features`."""
    schema = FeatureSchema(max_seq_length, dict(label_ids=tf.int32))
    return cached_table(str(folder / f"{count}_{seed}.tfrecord"), dict(seed=seed), schema,
                        lambda: features(count, max_seq_length, seed))

"""The accuracies of guessing on pre-training records, which a trained model must exceed."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.data.records import pretraining_features


def baselines(records: str, max_seq_length: int, max_predictions_per_seq: int) -> dict[str, float]:
    """The accuracies of guessing always the most frequent masked piece, and the more frequent sentence order."""
    features = pretraining_features(max_seq_length, max_predictions_per_seq)
    dataset = tf.data.TFRecordDataset(records).map(lambda record: tf.io.parse_single_example(record, features))
    examples = list(dataset.as_numpy_iterator())
    masked = np.concatenate([example["masked_lm_ids"][example["masked_lm_weights"] > 0] for example in examples])
    labels = np.concatenate([example["next_sentence_labels"] for example in examples])
    return {"masked_lm_accuracy": _share_of_most_frequent(masked),
            "sentence_order_accuracy": _share_of_most_frequent(labels)}


def _share_of_most_frequent(values: np.ndarray) -> float:
    return np.bincount(values).max() / len(values)

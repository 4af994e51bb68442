"""Converts predictions for tokens to tags of words."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from albert_tf.data.feature_table import FeatureTable
from albert_tf.tasks.classification.metrics import check_finite_outputs, mean_cross_entropy
from albert_tf.tasks.tagging import metrics as tagging_metrics
from albert_tf.tasks.tagging.features import FIRST_PIECE
from albert_tf.tasks.tagging.reading import TaggedText


def word_probabilities(table: FeatureTable, predictions: Sequence[dict[str, list[np.ndarray]]]) -> np.ndarray:
    """The probabilities of all words of a file, float32 [words, labels]: the mean over pieces and checkpoints.

    Args:
      table: the features of the file.
      predictions: for each checkpoint, the probabilities [seq, labels] of each row of the table.
    """
    word_pieces = [pieces.numpy() for pieces in table.sequences["word_pieces"]]
    counted = [np.flatnonzero(pieces) for pieces in word_pieces]
    of_pieces = np.mean([np.concatenate([probabilities[places] for probabilities, places in
                                         zip(of_one["probabilities"], counted)]) for of_one in predictions], axis=0)
    marks = np.concatenate([pieces[places] for pieces, places in zip(word_pieces, counted)])
    starts = np.flatnonzero(marks == FIRST_PIECE)
    lengths = np.diff(starts, append=len(marks))
    return np.add.reduceat(of_pieces, starts, axis=0) / lengths[:, None]


def tags_of_sentences(text: TaggedText, probabilities: np.ndarray, label_names: Sequence[str]) -> list[list[str]]:
    """The most probable tag of each word, by sentence.

    Args:
      text: the file.
      probabilities: [words, labels].
      label_names: the tags, in the order of the labels.
    """
    tags = iter([label_names[label] for label in probabilities.argmax(axis=1)])
    return [[next(tags) for _ in sentence.words] for sentence in text.sentences]


def evaluate(text: TaggedText, probabilities: np.ndarray, label_names: Sequence[str]) -> dict[str, float]:
    """The scores of predictions on a file with tags: tagging_metrics.evaluate, and loss (also as eval_loss).

    The loss is the mean cross entropy of the words whose tag is in label_names.

    Raises:
      ValueError: the file has no tags, or a probability is NaN or infinite.
    """
    check_finite_outputs(probabilities)
    text.check_has_tags()
    expected = text.tags
    results = tagging_metrics.evaluate(expected, tags_of_sentences(text, probabilities, label_names), label_names)
    numbers = {name: number for number, name in enumerate(label_names)}
    labels = np.array([numbers.get(tag, -1) for tags in expected for tag in tags])
    known = np.flatnonzero(labels >= 0)
    loss = mean_cross_entropy(probabilities[known], labels[known]) if len(known) else 0.0
    return dict(results, eval_loss=loss, loss=loss)

"""Tags of words from predictions for tokens, and their scores.

The scores are precision, recall and F1 of entities as in seqeval and conlleval, and accuracy of words. seqeval has had
no release since 2020, so its rules are implemented here. Tests compare with its results.
"""

from __future__ import annotations

import collections
import re
from typing import Iterable, NamedTuple, Sequence

import numpy as np

from albert_tf.data.feature_table import FeatureTable
from albert_tf.tasks.classification.metrics import mean_cross_entropy
from albert_tf.tasks.tagging.reading import TaggedText
from albert_tf.training.prediction import check_finite_outputs

_ENTITY_TAG = re.compile("O|[BIES]-.+")


class Entity(NamedTuple):
    """An entity: its type, and its first and last word."""

    type: str
    first: int
    last: int


def are_entity_tags(label_names: Iterable[str]) -> bool:
    """Whether the tags mark entities: O, and B-, I-, E- or S- with a type (IOB1, IOB2, BIOES)."""
    return all(map(_ENTITY_TAG.fullmatch, label_names))


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of a sentence. As in conlleval, a tag that cannot continue the one before it begins a new one."""
    entities: list[Entity] = []
    before = "O"
    for index, tag in enumerate(tags):
        if tag != "O":
            continues = tag[0] in "IE" and before[0] in "BI" and tag[1:] == before[1:]
            first = entities.pop().first if continues else index
            entities.append(Entity(tag[2:], first, index))
        before = tag
    return entities


def evaluate_tags(
    expected: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], label_names: Iterable[str]
) -> dict[str, float]:
    """accuracy over words and, if the tags mark entities, precision, recall, f1, and f1/TYPE of those expected."""
    pairs = [pair for sentences in zip(expected, predicted) for pair in zip(*sentences)]
    results = dict(accuracy=sum(tag == prediction for tag, prediction in pairs) / len(pairs))
    if not are_entity_tags(label_names):
        return results
    all_expected, all_predicted = (
        {(number, entity) for number, tags in enumerate(sentences) for entity in entities(tags)}
        for sentences in (expected, predicted))
    counts = [collections.Counter(entity.type for _, entity in each)
              for each in (all_expected & all_predicted, all_predicted, all_expected)]
    precision, recall, f1 = _scores(*(by_type.total() for by_type in counts))
    type_scores = {f"f1/{name}": _scores(*(by_type[name] for by_type in counts))[2] for name in sorted(counts[2])}
    return dict(results, precision=precision, recall=recall, f1=f1, **type_scores)


def _scores(num_both: int, num_predicted: int, num_expected: int) -> tuple[float, float, float]:
    """Precision, recall and F1; 0 if there are no predicted or no expected entities."""
    precision = num_both / num_predicted if num_predicted else 0.0
    recall = num_both / num_expected if num_expected else 0.0
    return precision, recall, 2 * num_both / (num_predicted + num_expected) if num_both else 0.0


def word_probabilities(table: FeatureTable, predictions: Sequence[dict[str, list[np.ndarray]]]) -> np.ndarray:
    """The probabilities of all words of a file, float32 [words, labels]: the mean over checkpoints.

    `predictions` has for each checkpoint the probabilities [seq, labels] of each row of the table.
    """
    indices = [np.flatnonzero(row) for row in table.sequences["first_pieces"]]
    return np.mean([np.concatenate([row[of_row] for row, of_row in zip(prediction["probabilities"], indices)])
                    for prediction in predictions], axis=0)


def tags_of_sentences(text: TaggedText, probabilities: np.ndarray, label_names: Sequence[str]) -> list[list[str]]:
    """The most probable tag of each word, by sentence, from probabilities [words, labels]."""
    tags = iter([label_names[label] for label in probabilities.argmax(axis=1)])
    return [[next(tags) for _ in sentence.words] for sentence in text.sentences]


def evaluate(text: TaggedText, probabilities: np.ndarray, label_names: Sequence[str]) -> dict[str, float]:
    """evaluate_tags of a file, and the mean cross entropy of words with a tag of label_names as loss and eval_loss."""
    check_finite_outputs(probabilities)
    text.check_has_tags()
    expected = text.tags
    results = evaluate_tags(expected, tags_of_sentences(text, probabilities, label_names), label_names)
    numbers = {name: number for number, name in enumerate(label_names)}
    labels = np.array([numbers.get(tag, -1) for tags in expected for tag in tags])
    known = np.flatnonzero(labels >= 0)
    loss = mean_cross_entropy(probabilities[known], labels[known]) if len(known) else 0.0
    return dict(results, eval_loss=loss, loss=loss)

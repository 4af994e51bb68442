"""Scores of tags: precision, recall and F1 of entities as in seqeval and conlleval, and accuracy of words.

seqeval has had no release since 2020, so its rules are implemented here. Tests compare with its results.
"""

from __future__ import annotations

import collections
import re
from typing import Iterable, NamedTuple, Sequence

_ENTITY_TAG = re.compile("O|[BIES]-.+")


class Entity(NamedTuple):
    """An entity: its type, and its first and last word."""

    type: str
    first: int
    last: int


def are_entity_tags(label_names: Iterable[str]) -> bool:
    """Whether the tags mark entities: O, and B-, I-, E- or S- with a type (IOB1, IOB2, BIOES)."""
    return all(map(_ENTITY_TAG.fullmatch, label_names))


def best_metric(label_names: Iterable[str]) -> str:
    """The metric by which the best checkpoint is chosen: f1 for tags that mark entities, accuracy for other tags."""
    return "f1" if are_entity_tags(label_names) else "accuracy"


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of a sentence.

    As in conlleval, a tag that cannot continue the entity before it begins a new one: I-place after O, after I-person,
    or after S-place.
    """
    entities: list[Entity] = []
    before = "O"
    for place, tag in enumerate(tags):
        if tag != "O":
            continues = tag[0] in "IE" and before[0] in "BI" and tag[1:] == before[1:]
            first = entities.pop().first if continues else place
            entities.append(Entity(tag[2:], first, place))
        before = tag
    return entities


def evaluate(
    expected: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], label_names: Iterable[str]
) -> dict[str, float]:
    """The scores of predicted tags.

    Args:
      expected: the correct tags of each sentence.
      predicted: the predicted tags of each sentence, of the same lengths.
      label_names: all tags that can be predicted.

    Returns:
      accuracy over words. If the tags mark entities, also precision, recall and f1 over all entities (micro averages),
      and f1/TYPE for each type in `expected`.
    """
    pairs = [pair for sentences in zip(expected, predicted) for pair in zip(*sentences)]
    results = dict(accuracy=sum(tag == prediction for tag, prediction in pairs) / len(pairs))
    if not are_entity_tags(label_names):
        return results
    num_expected, num_predicted, num_both = (collections.Counter[str]() for _ in range(3))  # by type
    for expected_tags, predicted_tags in zip(expected, predicted):
        expected_entities, predicted_entities = set(entities(expected_tags)), set(entities(predicted_tags))
        num_expected.update(entity.type for entity in expected_entities)
        num_predicted.update(entity.type for entity in predicted_entities)
        num_both.update(entity.type for entity in expected_entities & predicted_entities)
    precision, recall, f1 = _scores(*(sum(counts.values()) for counts in (num_both, num_predicted, num_expected)))
    of_types = {f"f1/{name}": _scores(num_both[name], num_predicted[name], num_expected[name])[2]
                for name in sorted(num_expected)}
    return dict(results, precision=precision, recall=recall, f1=f1, **of_types)


def _scores(num_both: int, num_predicted: int, num_expected: int) -> tuple[float, float, float]:
    """Precision, recall and F1; 0 if there are no predicted or no expected entities."""
    precision = num_both / num_predicted if num_predicted else 0.0
    recall = num_both / num_expected if num_expected else 0.0
    return precision, recall, 2 * num_both / (num_predicted + num_expected) if num_both else 0.0

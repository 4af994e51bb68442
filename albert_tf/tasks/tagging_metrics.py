"""Scores of tags: precision, recall and F1 of entities, as seqeval and conlleval count them, and accuracy of words.

seqeval's last release is of 2020, so its rules are here; tests compare with its numbers.
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
    """Whether tags say where entities are: O, and B-, I-, E- or S- with a type (IOB1, IOB2, BIOES)."""
    return all(map(_ENTITY_TAG.fullmatch, label_names))


def best_metric(label_names: Iterable[str]) -> str:
    """The result that chooses the best checkpoint: f1 of entities, accuracy of plain tags."""
    return "f1" if are_entity_tags(label_names) else "accuracy"


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of a sentence.

    A tag that cannot go on with the entity before it begins a new one, as in conlleval: I-place after O, after
    I-person, or after S-place.
    """
    found: list[Entity] = []
    before = "O"
    for place, tag in enumerate(tags):
        if tag != "O":
            goes_on = tag[0] in "IE" and before[0] in "BI" and tag[1:] == before[1:]
            first = found.pop().first if goes_on else place
            found.append(Entity(tag[2:], first, place))
        before = tag
    return found


def evaluate(
    expected: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], label_names: Iterable[str]
) -> dict[str, float]:
    """The scores of predicted tags.

    Args:
      expected: the right tags of each sentence.
      predicted: those to score, as many.
      label_names: all tags that can be predicted; they tell whether tags are of entities.

    Returns:
      accuracy over words. Of entities also precision, recall and f1 over all entities (micro averages), and f1/TYPE for
      each type among `expected`.
    """
    pairs = [pair for sentences in zip(expected, predicted) for pair in zip(*sentences)]
    results = dict(accuracy=sum(right == given for right, given in pairs) / len(pairs))
    if not are_entity_tags(label_names):
        return results
    right, given, both = (collections.Counter[str]() for _ in range(3))
    for expected_tags, predicted_tags in zip(expected, predicted):
        expected_entities, predicted_entities = set(entities(expected_tags)), set(entities(predicted_tags))
        right.update(entity.type for entity in expected_entities)
        given.update(entity.type for entity in predicted_entities)
        both.update(entity.type for entity in expected_entities & predicted_entities)
    precision, recall, f1 = _scores(sum(both.values()), sum(given.values()), sum(right.values()))
    of_types = {f"f1/{name}": _scores(both[name], given[name], right[name])[2] for name in sorted(right)}
    return dict(results, precision=precision, recall=recall, f1=f1, **of_types)


def _scores(num_both: int, num_predicted: int, num_expected: int) -> tuple[float, float, float]:
    """Precision, recall and F1; 0 where nothing was predicted or is there to be found."""
    precision = num_both / num_predicted if num_predicted else 0.0
    recall = num_both / num_expected if num_expected else 0.0
    return precision, recall, 2 * num_both / (num_predicted + num_expected) if num_both else 0.0

"""The figures of docs/accuracy.md and docs/studies.md are recomputed from the measured values."""

import collections
import csv
import statistics

import pytest
from script_session import REPOSITORY

DOCS = REPOSITORY / "docs"


def read_rows(name):
    with open(DOCS / "measured" / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


SCORES = collections.defaultdict(dict)  # task -> program -> scores of three seeds
for _row in read_rows("fine_tuning_beside_hugging_face.csv"):
    SCORES[_row["task"]][_row["program"]] = [float(_row[name]) for name in ("lowest", "median", "highest")]


@pytest.mark.parametrize("task", SCORES)
def test_the_rows_beside_hugging_face_follow_from_the_scores_of_the_seeds(task):
    line, = (line for line in (DOCS / "accuracy.md").read_text("utf-8").splitlines() if line.startswith(f"| {task} |"))
    shown = line.strip("| ").split(" | ")
    digits = 1 if "SQuAD" in task else 3
    ours, theirs = SCORES[task]["albert_tf"], SCORES[task]["Hugging Face"]
    for cell, scores in zip(shown[2:4], (ours, theirs)):
        assert cell == f"{statistics.median(scores):.{digits}f} ({min(scores):.{digits}f} to {max(scores):.{digits}f})"
    difference = statistics.median(ours) - statistics.median(theirs)
    error = (statistics.variance(ours) / 3 + statistics.variance(theirs) / 3) ** 0.5
    assert shown[4] == f"{difference:.{digits}f} ({error:.{digits}f})"

"""A sample of `make drills`, and the page with the counts of all of them."""

import collections
import csv
import json
import re
import subprocess
import sys

import pytest
from script_session import REPOSITORY


@pytest.mark.long
def test_commands_that_are_killed_or_meet_another_one_leave_what_undisturbed_ones_leave():
    done = subprocess.run(
        [sys.executable, "tests/drills/run.py", "--kills=4", "--exact_kills=3", "--pairs=2", "--signals=1",
         "--faults=4", "--power_cuts=2", "--soak=3", "--only=vocabulary,records,vectors,to_hugging_face"],
        cwd=REPOSITORY, capture_output=True, text=True)
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert runs[-1]["disturbance"] == "soak", done.stderr[-3000:]
    assert [run for run in runs if run["found"]] == [] and done.returncode == 0


def test_the_counts_of_the_page_are_those_of_the_measured_values():
    with open(REPOSITORY / "docs/measured/reliability.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    stacks = list(dict.fromkeys(row["tensorflow"] for row in rows))
    counts = collections.Counter()
    for row in rows:
        for name in ("runs", "findings"):
            counts[row["disturbance"], row["tensorflow"], name] += int(row[name])
    page = (REPOSITORY / "docs/results/reliability.md").read_text()
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:2] == "| "]
    assert [re.findall(r"\d+\.\d+\.\d+", " ".join(shown[0]))] == [stacks]
    kinds, columns = dict.fromkeys(row["disturbance"] for row in rows), ("runs", "findings")
    assert shown[1:] == [[kind, *(f"{counts[kind, stack, name]:,}" for stack in stacks for name in columns)]
                         for kind in kinds]

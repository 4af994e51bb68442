"""A sample of `make drills`."""

import json
import re
import subprocess
import sys

import pytest
from script_session import REPOSITORY

from albert_tf.commands.usage import NAMES

READ_ONLY = {"fill_mask"}


@pytest.mark.long
def test_commands_that_are_killed_or_meet_another_one_leave_what_undisturbed_ones_leave():
    done = subprocess.run(
        [sys.executable, "tests/drills/run.py", "--kills=4", "--exact_kills=4", "--pairs=4", "--signals=0", "--soak=3",
         "--only=vocabulary,records,vectors,to_hugging_face"], cwd=REPOSITORY, capture_output=True, text=True)
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert runs[-1]["disturbance"] == "soak", done.stderr[-3000:]
    assert [run for run in runs if run["found"]] == [] and done.returncode == 0


def test_every_command_that_writes_has_a_drill():
    text = (REPOSITORY / "tests/drills/scenarios.py").read_text() + (REPOSITORY / "tests/drills/soak.py").read_text()
    assert {name for name in NAMES if not re.search(rf"\b{name}\b", text)} == READ_ONLY

"""Without a terminal, progress is a plain line now and then and one at the end."""

import pytest
from absl import logging

from albert_tf import progress as module


@pytest.fixture
def lines(monkeypatch):
    found = []
    monkeypatch.setattr(logging, "info", lambda message, *values: found.append(message % values))
    return found


def test_lines_come_now_and_then(lines, monkeypatch):
    clock = iter([0.0, 10.0, 40.0, 50.0, 60.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    with module.progress("reading", 200, " files") as done:
        for _ in range(3):
            done(20)
    assert len(lines) == 2
    assert lines[0].startswith("reading:  20%") and "40.0/200 [00:40<02:40" in lines[0]
    assert lines[1] == "reading: 60 files in 01:00"


def test_a_job_that_failed_does_not_say_that_it_is_done(lines):
    with pytest.raises(OSError), module.progress("reading", 2, " files"):
        raise OSError("the disk is full")
    assert lines == []

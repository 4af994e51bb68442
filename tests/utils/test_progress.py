"""Without a terminal, progress is logged as plain lines at intervals and at the end. Numbers of things in messages."""

import pytest
from absl import logging

from albert_tf.utils import progress as module


@pytest.fixture
def lines(monkeypatch):
    found = []
    monkeypatch.setattr(logging, "info", lambda message, *values: found.append(message % values))
    return found


@pytest.fixture
def clock(monkeypatch):
    """A function that lets seconds pass."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def rate_after(clock, *updates):
    """The rate per second after several (seconds of waiting, amount done by then)."""
    rate = module.MovingRate()
    for seconds, done in updates:
        clock(seconds)
        rate.update(done)
    return rate.per_second


def test_the_rate_is_that_of_the_last_minute_or_of_the_last_two_updates_without_what_came_before_the_first(clock):
    assert module.MovingRate().time_left(10) == "?"
    assert rate_after(clock, (100, 5)) == rate_after(clock, (100, 5), (0, 6)) == 0
    assert rate_after(clock, (1000, 7), (2, 8), (2, 9)) == 0.5
    slow, fast = [(30, done) for done in range(5)], [(0.125, done) for done in range(5, 5 + 60 * 8)]
    assert (rate_after(clock, *slow), rate_after(clock, *slow, *fast)) == (1 / 30, 8)
    assert rate_after(clock, (300, 1), (300, 2), (120, 3)) == 1 / 120


def test_time_left_follows_the_rate(clock):
    rate = module.MovingRate()
    for seconds, done in ((50, 10), (10, 15)):
        clock(seconds)
        rate.update(done)
    assert rate.time_left(60) == "02:00" and rate.time_left(60, more=5) == "02:05"
    clock(90)
    rate.leave_out(90)
    assert rate.time_left(60) == "02:00"
    bar = module.Bar(total=70, initial=10, disable=True)
    bar.rate, bar.more = rate, 120
    assert bar.format_dict["rate"] == 60 / 240


def test_lines_come_now_and_then(lines, clock):
    with module.progress("reading", 200, " files") as done:
        for seconds in (10, 30, 10):
            clock(seconds)
            done(20)
        clock(10)
    assert len(lines) == 2
    assert lines[0].startswith("reading:  20%") and "40.0/200 [00:40<04:00" in lines[0]  # 20 files in 30 seconds
    assert lines[1] == "reading: 60 files in 01:00"


def test_a_job_that_failed_does_not_say_that_it_is_done(lines):
    with pytest.raises(OSError), module.progress("reading", 2, " files"):
        raise OSError("the disk is full")
    assert lines == []

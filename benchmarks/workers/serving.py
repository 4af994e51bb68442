"""The worker of a benchmark: it does as many steps as it reads from stdin, and prints the seconds that they took.

It needs the standard library only, because peers run it in other environments.
"""

import os
import sys
import time


def serve(make_step, first_steps=2):
    """Prints, for each number of steps on stdin, the seconds that they took: elapsed time or CPU time.

    Args:
      make_step: builds the measured program and returns a function that does one step and waits for its result.
      first_steps: the number of steps before the measurement, for compilation and first allocations.
    """
    seconds = time.process_time if "CPU_TIME" in os.environ else time.perf_counter
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the output of libraries must not be mistaken for an answer
    step = make_step()
    for _ in range(first_steps):
        step()
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        start = seconds()
        for _ in range(int(line)):
            step()
        print(seconds() - start, file=answers, flush=True)

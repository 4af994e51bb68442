"""The worker's side of a benchmark: it does steps when it is told to, and answers with the seconds that they took.

Needs the standard library only: peers run it in environments of their own.
"""

import os
import sys
import time

SENTENCES_TOGETHER, WARM_UP = 32, 10  # sentences


def serve(make_step, first_steps=2):
    """For each line on stdin, a number of steps, prints the seconds that they took: by the clock, or of the processor.

    Args:
      make_step: builds what is measured and gives a function that does one step and waits for its result.
      first_steps: how many to do before any is counted: compilation, first-time allocations.
    """
    seconds = time.process_time if "CPU_TIME" in os.environ else time.perf_counter
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not look like an answer
    step = make_step()
    for _ in range(first_steps):
        step()
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        start = seconds()
        for _ in range(int(line)):
            step()
        print(seconds() - start, file=answers, flush=True)

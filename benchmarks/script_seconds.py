"""Seconds of a whole fine-tuning script until it has taken 1, 20 and 60 steps, by our scripts and by Hugging Face.

    python -m benchmarks.script_seconds --model=minilm --data=data --peer_python=peer/python

The task is STS-B with batches of 32 in bfloat16, as in benchmarks/fine_tuning.py. The seconds include the start of the
program, the features, and for ours the checkpoint at the end. Ours runs without kept programs, keeping them, and with
the programs of that run. All take turns.
"""

import functools
import json
import os
import shutil
import tempfile
import time

from absl import flags

from albert_tf.commands.command_runs import arguments, process_of
from albert_tf.commands.flags import define_required
from benchmarks import common
from benchmarks.alternation import THREADS, in_turns, output_of
from benchmarks.fine_tuning_settings import SETTINGS

common.define_model()
define_required("data", "Folder that has glue/.")
common.define_peer_python()
common.define_rounds(3)
flags.DEFINE_multi_integer("steps", [1, 20, 60], "Number of steps. May be repeated.", lower_bound=1)
FLAGS = flags.FLAGS

TASK = "sts-b"


def main():
    settings = SETTINGS[TASK]
    with tempfile.TemporaryDirectory() as programs:
        commands = {"ours, without programs": functools.partial(our_command, ""),
                    "ours, first run": functools.partial(our_command, programs),
                    "ours, later run": functools.partial(our_command, programs), "Hugging Face": hugging_face_command}
        seconds = in_turns({(name, steps): functools.partial(
            seconds_of, command, steps, settings, programs if name == "ours, first run" else None)
            for steps in FLAGS.steps for name, command in commands.items()}, FLAGS.rounds)
    print(f"{'':24}" + "".join(f"{f'{steps} steps':>10}" for steps in FLAGS.steps))
    for name in commands:
        print(f"{name:24}" + "".join(f"{seconds[name, steps]:10.1f}" for steps in FLAGS.steps), flush=True)


def our_command(programs, steps, settings, folder):
    return process_of("run_classifier", arguments(dict(
        task_name=TASK, data_dir=os.path.join(FLAGS.data, "glue"), init_checkpoint=FLAGS.model, output_dir=folder,
        do_train=True, max_seq_length=settings.length, train_batch_size=settings.batch,
        learning_rate=settings.learning_rate, train_step=steps, precision="mixed_bfloat16", verbosity=-1,
        compilation_cache_dir=programs)))


def hugging_face_command(steps, settings, folder):
    options = dict(task=TASK, model=FLAGS.model, train=os.path.join(FLAGS.data, "glue", "STS-B", "train.tsv"), seed=1,
                   steps=steps, warmup=0, batch=settings.batch, learning_rate=settings.learning_rate,
                   length=settings.length, bfloat16=True, output=None)
    return [FLAGS.peer_python, "-m", "benchmarks.workers.fine_tuning_hugging_face", json.dumps(options)]


def seconds_of(command, steps, settings, emptied):
    """The seconds of a command, before which the folder `emptied` loses its files."""
    if emptied:
        shutil.rmtree(emptied)
    with tempfile.TemporaryDirectory() as folder:
        words = command(steps, settings, folder)
        start = time.monotonic()
        output_of(words, **dict.fromkeys(THREADS, "2"))
        return time.monotonic() - start


if __name__ == "__main__":
    common.run(main)

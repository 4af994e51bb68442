"""The memory that loading a model takes beside its weights, and that of a training step with gradient checkpointing.

    python -m benchmarks.memory
    python -m benchmarks.memory --what=loading

loading: albert_xxlarge with random weights from each format. training: albert_large, one question of RACE (4 rows of
512 tokens), with and without --gradient_checkpointing. Each number is of a process of its own. Memory is the largest
resident memory, as Linux reports it, less the resident memory before the load or the first step. Time is the median of
the later steps.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from absl import flags

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.utils.imports import tensorflow as tf
from benchmarks.processor import run

flags.DEFINE_enum("what", "training", ["training", "loading"], "What to measure.")
flags.DEFINE_integer("rounds", 3, "Number of processes for each measured number of training.", lower_bound=1)
flags.DEFINE_integer("steps", 3, "Number of timed steps of each process.", lower_bound=1)
flags.DEFINE_string("process", None, "JSON of a measurement that this process does. Set by the benchmark itself.")
FLAGS = flags.FLAGS

FORMS, SIZE, SEQ, CHOICES = ("tf1", "hugging_face", "ours"), "albert_large_v2", 512, 4


def main():
    if FLAGS.process:
        values = json.loads(FLAGS.process)
        print(json.dumps(dict(make=make, load=load, train=train)[values.pop("do")](**values)))
    elif FLAGS.what == "loading":
        print(f"{'albert_xxlarge_v2, from':36}{'MB of weights':>16}{'peak MB':>10}{'ratio':>8}")
        for form in FORMS:
            with tempfile.TemporaryDirectory() as folder:
                result_of(do="make", folder=folder, form=form)
                weights, peak = result_of(do="load", folder=folder)
            print(f"{form:36}{weights / 1e6:16.0f}{peak / 1e6:10.0f}{peak / weights:8.2f}")
    else:
        print(f"{SIZE}, {CHOICES} x {SEQ} tokens{'':10}{'MB':>10}{'s/step':>10}")
        for precision in ("float32", "mixed_bfloat16"):
            for again in (False, True):
                runs = [result_of(do="train", precision=precision, again=again) for _ in range(FLAGS.rounds)]
                peak, seconds = map(statistics.median, zip(*runs))
                name = precision + again * ", checkpointing"
                print(f"{name:36}{peak / 1e6:10.0f}{seconds:10.2f}", flush=True)


def result_of(**values):
    """What a process of this program prints as its last line."""
    command = [sys.executable, "-m", "benchmarks.memory", f"--steps={FLAGS.steps}", f"--process={json.dumps(values)}"]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                          env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3"))
    return json.loads(done.stdout.splitlines()[-1])


def make(folder: str, form: str) -> None:
    from albert_tf.export.conversion import save
    from albert_tf.modeling.pretrainer import AlbertPretrainer

    save(AlbertPretrainer(AlbertConfig.preset("albert_xxlarge_v2")), folder, form)


def load(folder: str) -> tuple[int, int]:
    """Bytes of the weights, and of the memory that loading them took."""
    from albert_tf.weights.from_pretrained import from_pretrained

    before = memory("VmRSS")
    count_peak_from_here()
    model = from_pretrained(folder, model="pretrainer")
    return sum(variable.shape.num_elements() * 4 for variable in model.weights), memory("VmHWM") - before


def train(precision: str, again: bool) -> tuple[int, float]:
    """Bytes of the memory of training, and the median seconds of a step."""
    keras.mixed_precision.set_global_policy(precision)
    step = training_step(AlbertConfig.preset(SIZE), again)
    before = memory("VmRSS")
    count_peak_from_here()
    seconds = []
    for _ in range(1 + FLAGS.steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return memory("VmHWM") - before, statistics.median(seconds[1:])  # the first step traces and compiles


def training_step(config: AlbertConfig, gradient_checkpointing: bool):
    """A function that does a whole training step: gradients, clipping, update."""
    from albert_tf.modeling.classifier import AlbertMultipleChoice
    from albert_tf.tasks.classification.task import ClassificationObjective
    from albert_tf.training.optimizer import create_optimizer
    from albert_tf.training.trainer import Trainer

    model = AlbertMultipleChoice(config)
    model.albert.gradient_checkpointing = gradient_checkpointing
    trainer = Trainer(ClassificationObjective(model))
    trainer.compile(create_optimizer("adamw", learning_rate=1e-5, num_train_steps=1000, num_warmup_steps=100))
    ids = tf.random.uniform([1, CHOICES, SEQ], 5, config.vocab_size, tf.int32)
    batch = dict(input_ids=ids, input_mask=tf.ones_like(ids), segment_ids=0 * ids, label_ids=tf.zeros([1], tf.int32))
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
    function = trainer.make_train_function()
    return lambda: float(function(batches)["loss"])


def memory(name: str) -> int:
    """Bytes of memory: VmRSS is the resident memory, VmHWM its maximum so far."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def count_peak_from_here() -> None:
    pathlib.Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    run(main)

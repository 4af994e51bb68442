"""The memory of a process that loads a model, or trains on one question with four choices, printed as JSON.

    python -m benchmarks.workers.memory make FOLDER FORM SIZE      makes a model with random weights
    python -m benchmarks.workers.memory load FOLDER                [bytes of its weights, bytes of memory used]
    python -m benchmarks.workers.memory train SIZE SEQ float32|mixed_bfloat16 STEPS [--gradient_checkpointing]
        [--jit_compile]                                            memory and time of a step
"""

import json
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.modeling.classifier import AlbertMultipleChoice
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer
from albert_tf.weights.from_pretrained import from_pretrained

CHOICES = 4


def make(folder: str, form: str, size: str) -> None:
    save(AlbertPretrainer(AlbertConfig.preset(size)), folder, form)
    print("null")


def load(folder: str) -> None:
    before = memory("VmRSS")
    count_peak_from_here()
    model = from_pretrained(folder, model="pretrainer")
    peak = memory("VmHWM") - before
    print([sum(variable.shape.num_elements() * 4 for variable in model.weights), peak])


def train(size: str, seq: str, precision: str, steps: str, *switches: str) -> None:
    keras.mixed_precision.set_global_policy(precision)
    step = training_step(AlbertConfig.preset(size), int(seq), "--gradient_checkpointing" in switches,
                         "--jit_compile" in switches)
    before = memory("VmRSS")
    count_peak_from_here()
    step()  # traces and compiles
    seconds = [seconds_of(step) for _ in range(int(steps))]
    print(json.dumps(dict(bytes=memory("VmHWM") - before, seconds=seconds)))


def training_step(config: AlbertConfig, seq: int, gradient_checkpointing: bool, jit_compile: bool):
    """A function that does a whole training step: gradients, clipping, update."""
    model = AlbertMultipleChoice(config)
    model.albert.gradient_checkpointing = gradient_checkpointing
    trainer = Trainer(ClassificationTask(model), jit_compile=jit_compile)
    trainer.compile(create_optimizer("adamw", learning_rate=1e-5, num_train_steps=1000, num_warmup_steps=100))
    shape = [1, CHOICES, seq]
    batch = dict(input_ids=np.random.default_rng(1).integers(5, config.vocab_size, shape, np.int32),
                 input_mask=np.ones(shape, np.int32), segment_ids=np.zeros(shape, np.int32),
                 label_ids=np.zeros([1], np.int32))
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
    train = trainer.make_train_function()
    return lambda: float(train(batches)["loss"])


def seconds_of(step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def memory(name: str) -> int:
    """Bytes of memory: VmRSS is the resident memory, VmHWM its maximum so far."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def count_peak_from_here() -> None:
    pathlib.Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    {"make": make, "load": load, "train": train}[sys.argv[1]](*sys.argv[2:])

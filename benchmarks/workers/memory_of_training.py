"""Trains on one question with four choices, and prints the memory and the time that a step takes, as JSON.

    python -m benchmarks.workers.memory_of_training SIZE SEQ float32|mixed_bfloat16 STEPS [--gradient_checkpointing]
        [--jit_compile]
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
from albert_tf.modeling.multiple_choice import AlbertMultipleChoice
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer
from benchmarks.workers.loading import memory

CHOICES = 4


def main():
    size, seq, precision, steps = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    keras.mixed_precision.set_global_policy(precision)
    train = training_step(AlbertConfig.preset(size), seq, "--gradient_checkpointing" in sys.argv,
                          "--jit_compile" in sys.argv)
    before = memory("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    train()  # traces and compiles
    seconds = [seconds_of(train) for _ in range(steps)]
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


if __name__ == "__main__":
    main()

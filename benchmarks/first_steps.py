"""Seconds of the processor until a fine-tuning run has taken a step of each length, and for a step after that.

    python -m benchmarks.first_steps                          one graph for all lengths, as runs have it
    python -m benchmarks.first_steps --graph_for_each_length  a graph for each, as with XLA and on TPUs

A classifier of the model `hidden_256` (benchmarks/workers/workloads.py), batches of 32, bfloat16, dropout 0.1, one
thread. Compare the two ways in turns: what a process has compiled, it does not compile again.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
from absl import flags

from albert_tf.commands import app
from albert_tf.config import AlbertConfig
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer
from albert_tf.utils.imports import tensorflow as tf
from benchmarks.computing import set_precision, use_one_thread
from benchmarks.processor import naming_processor
from benchmarks.workers.workloads import WORKLOADS, with_dropout

flags.DEFINE_bool("graph_for_each_length", False, "Whether each length has its own graph.")
flags.DEFINE_list("lengths", ["16", "24", "32", "48", "64", "96"], "Lengths of the batches, in their order.")
flags.DEFINE_integer("steps", 6, "Number of later steps of each length. Their median is reported.", lower_bound=1)
FLAGS = flags.FLAGS

BATCH, DROPOUT = 32, 0.1


def main():
    use_one_thread()
    set_precision("bfloat16")
    config = AlbertConfig(**with_dropout(WORKLOADS["hidden_256"].config, DROPOUT))
    trainer = Trainer(ClassificationTask(AlbertClassifier(config, 2)), shapes_vary=True)
    trainer.compile(create_optimizer("adamw", learning_rate=1e-5, num_train_steps=1000))
    step = trainer.make_train_function()

    def seconds(length: int) -> float:
        batches = iter(one_batch(config.vocab_size, length))
        start = time.process_time()
        float(step(batches)["loss"])
        return time.process_time() - start

    lengths = list(map(int, FLAGS.lengths))
    first = {length: seconds(length) for length in lengths}
    rounds = [{length: seconds(length) for length in lengths} for _ in range(FLAGS.steps)]
    print(f"{'length':>8}{'first step':>12}{'later step':>12}")
    for length in lengths:
        print(f"{length:8}{first[length]:12.2f}{statistics.median(times[length] for times in rounds):12.3f}")
    print(f"{'all':>8}{sum(first.values()):12.2f}")


def one_batch(vocab_size: int, length: int) -> tf.data.Dataset:
    """A batch of random tokens. Its length is part of the data set's type only with --graph_for_each_length."""
    ids = np.random.default_rng(length).integers(5, vocab_size, [BATCH, length], np.int32)
    batches = tf.data.Dataset.from_tensors(dict(input_ids=ids, input_mask=np.ones_like(ids), segment_ids=0 * ids,
                                                label_ids=np.arange(BATCH, dtype=np.int32) % 2))
    if FLAGS.graph_for_each_length:
        return batches

    size = tf.Variable(length)  # its value is unknown when the graph is made

    def with_any_length(batch):
        return {name: tensor if tensor.shape.rank == 1 else tensor[:, :size] for name, tensor in batch.items()}

    return batches.map(with_any_length)


if __name__ == "__main__":
    app.run(naming_processor(main))

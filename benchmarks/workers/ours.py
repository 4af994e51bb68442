"""A whole training step of the trainer.

    python -m benchmarks.workers.ours float32|bfloat16 WORKLOAD DROPOUT [--jit_compile|--cpu_parts=1]
"""

import sys

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.training import trainer
from benchmarks.common import set_precision
from benchmarks.device_steps.programs import batch_of, training_step
from benchmarks.workers.serving import serve
from benchmarks.workers.workloads import WORKLOADS, with_dropout


def make_step():
    """A function that does a training step and waits for its loss."""
    precision, name, dropout, *options = sys.argv[1:]
    workload, parts = WORKLOADS[name], 1 if options else trainer.parts_of_cpu()
    task, model_type = ("pre-training", "albert") if workload.predictions else ("SQuAD 1.1", "bert")
    trainer.divide_threads(parts)
    keras.utils.set_random_seed(1)
    set_precision(precision)
    config = AlbertConfig.from_dict(dict(with_dropout(workload.config, float(dropout)), model_type=model_type))
    ours = training_step(task, config, jit_compile="--jit_compile" in options, parts=parts)
    batches = iter(tf.data.Dataset.from_tensors(batch_of(task, workload)).repeat())
    train = ours.step
    return lambda: float(train(batches)["loss"])


if __name__ == "__main__":
    serve(make_step)

"""A whole training step of the trainer.

    python -m benchmarks.workers.ours float32|bfloat16 WORKLOAD DROPOUT [--jit_compile|--cpu_parts=1]
"""

import sys

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.span import AlbertSpan
from albert_tf.pretraining.objective import PretrainingObjective
from albert_tf.tasks.squad.task import SpanObjective
from albert_tf.training import trainer
from albert_tf.training.optimizer import create_optimizer
from benchmarks.computing import set_precision
from benchmarks.workers.serving import serve
from benchmarks.workers.workloads import WORKLOADS, Workload, with_dropout


def make_step():
    """A function that does a training step and waits for its loss."""
    precision, name, dropout, *options = sys.argv[1:]
    workload, jit_compile = WORKLOADS[name], "--jit_compile" in options
    parts = 1 if options else trainer.parts_of_cpu()
    trainer.divide_threads(parts)
    keras.utils.set_random_seed(1)
    set_precision(precision)
    config = AlbertConfig.from_dict(dict(with_dropout(workload.config, float(dropout)),
                                         model_type="albert" if workload.predictions else "bert"))
    objective = (PretrainingObjective(AlbertPretrainer(config)) if workload.predictions
                 else SpanObjective(AlbertSpan(config)))
    ours = trainer.Trainer(objective, jit_compile=jit_compile, parts=parts)
    ours.compile(create_optimizer("adamw", learning_rate=1e-4, num_train_steps=10000, num_warmup_steps=0))
    batches = iter(tf.data.Dataset.from_tensors(random_batch(workload)).repeat())
    train = ours.make_train_function()
    return lambda: float(train(batches)["loss"])


def random_batch(workload: Workload) -> dict:
    """A batch of random tokens, none of them padding."""
    random, vocab_size = np.random.default_rng(1), workload.config["vocab_size"]
    shape, predicted = [workload.batch, workload.seq], [workload.batch, workload.predictions]
    inputs = dict(
        input_ids=random.integers(5, vocab_size, shape, np.int32),
        input_mask=np.ones(shape, np.int32),
        segment_ids=np.broadcast_to(np.arange(workload.seq, dtype=np.int32) // (workload.seq // 2), shape),
    )
    if not workload.predictions:
        spans = {name: random.integers(0, workload.seq, workload.batch, np.int32)
                 for name in ("start_positions", "end_positions")}
        return dict(inputs, **spans)
    return dict(
        inputs,
        masked_lm_positions=np.broadcast_to(np.arange(1, workload.predictions + 1, dtype=np.int32), predicted),
        masked_lm_ids=random.integers(5, vocab_size, predicted, np.int32),
        masked_lm_weights=np.ones(predicted, np.float32),
        next_sentence_labels=random.integers(0, 2, [workload.batch, 1], np.int32),
    )


if __name__ == "__main__":
    serve(make_step)

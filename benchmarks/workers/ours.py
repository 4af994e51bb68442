"""The measured parts of albert_tf: a whole training step of the trainer, or the encoder of albert_base alone.

    python -m benchmarks.workers.ours float32|bfloat16 step WORKLOAD DROPOUT [--jit_compile|--cpu_parts=1]
    python -m benchmarks.workers.ours float32|bfloat16 forward|training [--jit_compile]
"""

import sys

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.span import AlbertSpan
from albert_tf.pretraining.objective import PretrainingObjective
from albert_tf.tasks.squad.task import SpanObjective
from albert_tf.training import trainer
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer
from benchmarks.computing import set_precision
from benchmarks.workers.serving import serve
from benchmarks.workers.workloads import WORKLOADS, Workload, with_dropout

BASE = WORKLOADS["albert_base"]


def make_step():
    precision, what = sys.argv[1:3]
    jit_compile = "--jit_compile" in sys.argv
    one_part = jit_compile or what != "step" or "--cpu_parts=1" in sys.argv
    count = 1 if one_part else trainer.parts_of_cpu()
    trainer.divide_threads(count)
    keras.utils.set_random_seed(1)
    set_precision(precision)
    optimizer = create_optimizer("adamw", learning_rate=1e-4, num_train_steps=10000, num_warmup_steps=0)
    if what == "step":
        return whole_step(WORKLOADS[sys.argv[3]], float(sys.argv[4]), optimizer, jit_compile, count)
    return _encoder_step(optimizer, what, jit_compile)


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


def whole_step(workload: Workload, dropout: float, optimizer, jit_compile: bool, count: int = 1):
    """A function that does a training step and waits for its loss."""
    values = dict(with_dropout(workload.config, dropout), model_type="albert" if workload.predictions else "bert")
    config = AlbertConfig.from_dict(values)
    objective = (PretrainingObjective(AlbertPretrainer(config)) if workload.predictions
                 else SpanObjective(AlbertSpan(config)))
    trainer = Trainer(objective, jit_compile=jit_compile, parts=count)
    trainer.compile(optimizer=optimizer)
    batches = iter(tf.data.Dataset.from_tensors(random_batch(workload)).repeat())
    train = trainer.make_train_function()
    return lambda: float(train(batches)["loss"])


def _encoder_step(optimizer, what, jit_compile):
    model = AlbertModel(AlbertConfig.from_dict(with_dropout(BASE.config, 0.0)))
    inputs = {name: tf.constant(value) for name, value in random_batch(BASE).items()}

    def outputs(training):
        outputs = model(inputs, training=training)
        return [tf.cast(outputs[name], tf.float32) for name in ("sequence_output", "pooled_output")]

    @tf.function(jit_compile=jit_compile or None)
    def forward():
        return tf.add_n([tf.reduce_sum(output) for output in outputs(training=False)])

    @tf.function(jit_compile=jit_compile or None)
    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_mean(tf.square(output)) for output in outputs(training=True)])
        return loss, tape.gradient(loss, model.trainable_variables)

    @tf.function
    def training():
        loss, found = gradients()
        clipped, _ = tf.clip_by_global_norm([tf.convert_to_tensor(gradient) for gradient in found], 1.0)
        optimizer.apply_gradients(zip(clipped, model.trainable_variables))
        return loss

    step = dict(forward=forward, training=training)[what]
    return lambda: float(step())


if __name__ == "__main__":
    serve(make_step)

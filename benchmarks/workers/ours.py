"""What of albert_tf is measured, at the base size: a whole training step through the trainer, or the encoder alone.

    python -m benchmarks.workers.ours float32|bfloat16 step|forward|training [--jit_compile]
"""

import sys

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer
from benchmarks.workers.serving import BATCH, PREDICTIONS, SEQ, serve

CONFIG = AlbertConfig.preset("albert_base_v2")


def make_step():
    precision, what = sys.argv[1:3]
    jit_compile = "--jit_compile" in sys.argv
    keras.utils.set_random_seed(1)
    keras.mixed_precision.set_global_policy("float32" if precision == "float32" else "mixed_bfloat16")
    optimizer = create_optimizer("adamw", learning_rate=1e-4, num_train_steps=10000, num_warmup_steps=0)
    return _whole_step(optimizer, jit_compile) if what == "step" else _encoder_step(optimizer, what, jit_compile)


def batch():
    random = np.random.default_rng(1)
    return dict(
        input_ids=random.integers(5, 30000, [BATCH, SEQ], np.int32),
        input_mask=np.ones([BATCH, SEQ], np.int32),
        segment_ids=np.broadcast_to(np.arange(SEQ, dtype=np.int32) // (SEQ // 2), [BATCH, SEQ]),
        masked_lm_positions=np.broadcast_to(np.arange(1, PREDICTIONS + 1, dtype=np.int32), [BATCH, PREDICTIONS]),
        masked_lm_ids=random.integers(5, 30000, [BATCH, PREDICTIONS], np.int32),
        masked_lm_weights=np.ones([BATCH, PREDICTIONS], np.float32),
        next_sentence_labels=random.integers(0, 2, [BATCH, 1], np.int32),
    )


def _whole_step(optimizer, jit_compile):
    trainer = Trainer(PretrainingTask(AlbertPretrainer(CONFIG)), jit_compile=jit_compile)
    trainer.compile(optimizer=optimizer)
    batches = iter(tf.data.Dataset.from_tensors(batch()).repeat())
    train = trainer.make_train_function()
    return lambda: float(train(batches)["loss"])


def _encoder_step(optimizer, what, jit_compile):
    model, inputs = AlbertModel(CONFIG), {name: tf.constant(value) for name, value in batch().items()}

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

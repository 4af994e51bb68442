"""keras-hub's AlbertBackbone of the base size: a forward pass, or one with its gradients and AdamW, under tf.function.

    python -m benchmarks.workers.keras_hub_backbone float32|bfloat16 forward|training
"""

import sys

import keras
import keras_hub
import tensorflow as tf

from benchmarks.workers.serving import serve
from benchmarks.workers.workloads import WORKLOADS


def make_step():
    precision, what = sys.argv[1:]
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy("float32" if precision == "float32" else "mixed_bfloat16")
    model = keras_hub.models.AlbertBackbone(vocabulary_size=30000, num_layers=12, num_heads=12, embedding_dim=128,
                                            hidden_dim=768, intermediate_dim=3072, dropout=0.0,
                                            max_sequence_length=512)
    batch_size, seq = WORKLOADS["albert_base"].batch, WORKLOADS["albert_base"].seq
    ids = tf.random.uniform([batch_size, seq], 5, 30000, tf.int32)
    batch = dict(token_ids=ids, padding_mask=tf.ones_like(ids),
                 segment_ids=tf.cast(tf.range(seq) >= seq // 2, tf.int32) + 0 * ids)
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0)
    optimizer.build(model.trainable_variables)
    variables = [variable.value for variable in model.trainable_variables]

    @tf.function
    def forward():
        outputs = model(batch, training=False)
        return (tf.reduce_sum(tf.cast(outputs["sequence_output"], tf.float32))
                + tf.reduce_sum(tf.cast(outputs["pooled_output"], tf.float32)))

    @tf.function
    def training():
        with tf.GradientTape() as tape:
            outputs = model(batch, training=True)
            loss = tf.reduce_mean(tf.square(tf.cast(outputs["sequence_output"], tf.float32))) + tf.reduce_mean(
                tf.square(tf.cast(outputs["pooled_output"], tf.float32)))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), model.trainable_variables))
        return loss

    step = dict(forward=forward, training=training)[what]
    return lambda: float(step())


if __name__ == "__main__":
    serve(make_step)

"""An objective with one variable, for tests of the training loop."""

import tensorflow as tf

from albert_tf import keras
from albert_tf.training.objective import Objective


class Slope(keras.Model):
    config = None  # it has no sizes to log

    def __init__(self):
        super().__init__()
        self.w = self.add_weight(name="w", shape=[], initializer="ones")
        self.built = True

    def call(self, inputs, training=False):
        return dict(y=self.w * inputs["x"])


class SlopeObjective(Objective):
    """Mean of w * x."""

    def __init__(self):
        super().__init__(Slope())

    def loss_denominators(self, batch):
        return dict(examples=tf.cast(tf.size(batch["x"]), tf.float32))

    def loss(self, outputs, batch, denominators):
        return tf.reduce_sum(outputs["y"]) / denominators["examples"], {}

    def predictions(self, outputs, batch):
        return outputs

"""TokenObjective: a student learns its teacher's hidden states of all tokens, layer by layer, and its vectors."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.vectors import normalized
from albert_tf.tasks.sentence_vectors.objective import SentenceVectorObjective
from albert_tf.training.objective import Batch, Tensors


class TokenObjective(SentenceVectorObjective):
    """Rows of one or two texts, [batch, seq], which the teacher reads in each step.

    Layer i of n learns layer i * m // n of the teacher's m (compare Jiao et al., 2020, TinyBERT). The loss is

        mean over tokens and layers of |state - teacher's state|^2 / (H * variance of the teacher's state)
        + mean over rows of 1 - cosine of the vectors of student and teacher

    A fine-tuning of pairs of texts starts from hidden states, which a model that learned vectors alone does not have.

    Raises:
      ValueError: the teacher has another hidden size, another size of vectors, or fewer layers.
    """

    def __init__(self, model: AlbertSentenceEncoder, teacher: AlbertSentenceEncoder):
        super().__init__(model)
        self._teacher = teacher
        teacher.trainable = False
        sizes, layers = ([getattr(each.config, name) for each in (model, teacher)]
                         for name in ("hidden_size", "num_hidden_layers"))
        if sizes[0] != sizes[1] or layers[0] > layers[1]:
            raise ValueError(f"the teacher has {layers[1]} layers of size {sizes[1]}, and the model {layers[0]} of "
                             f"{sizes[0]}: sizes must be equal, and the teacher must not have fewer layers")
        if model.vector_size != teacher.vector_size:
            raise ValueError(f"the teacher's vectors have {teacher.vector_size} dimensions, and the model's "
                             f"{model.vector_size}: sizes must be equal")

    def loss_denominators(self, batch: Batch) -> Tensors:
        """The number of rows, and of tokens."""
        return dict(super().loss_denominators(batch), tokens=tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32)))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the loss. Its terms are token_loss and vector_loss."""
        teacher = self._teacher(batch)
        mask = tf.cast(batch["input_mask"], tf.float32)  # [batch, seq]
        states, targets = (_layers(model, each) for model, each in ((self.model, outputs), (self._teacher, teacher)))
        targets = [targets[number * len(targets) // len(states) - 1] for number in range(1, len(states) + 1)]
        errors = [tf.reduce_sum(mask * _relative_error(*pair)) for pair in zip(states, targets)]
        token_loss = tf.add_n(errors) / len(errors) / denominators["tokens"]
        vectors = (normalized(each["sentence_embedding"]) for each in (outputs, teacher))
        cosines = tf.reduce_sum(tf.multiply(*vectors), axis=-1)  # [batch]
        vector_loss = tf.reduce_sum(1 - cosines) / denominators["examples"]
        return token_loss + vector_loss, dict(token_loss=token_loss, vector_loss=vector_loss)


def _layers(model: AlbertSentenceEncoder, outputs: Tensors) -> list[tf.Tensor]:
    """The output of each layer, [batch, seq, H]."""
    inner = model.config.inner_group_num
    return outputs["encoder_outputs"][inner - 1 :: inner]


def _relative_error(state: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """The mean squared error of each token's state as a share of the target's variance, float32 [batch, seq]."""
    state, target = (tf.cast(each, tf.float32) for each in (state, target))
    error = tf.reduce_mean(tf.math.squared_difference(state, target), axis=-1)
    return error / tf.math.reduce_variance(target, axis=-1)

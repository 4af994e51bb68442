"""Sentence vectors trained on pairs of texts: the losses, and the cosines as predictions."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.modeling.pooling import normalized
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.training.task import Batch, MeanLossTask, Tensors

OBJECTIVES = ("similarity", "contrastive")


class SentenceVectorTask(MeanLossTask):
    """Two texts in each row of a batch, [batch, 2, seq]. The objectives:

      similarity    squared error of the cosine; label_ids, float32 [batch], has the expected cosines (Reimers and
                    Gurevych, 2019)
      contrastive   cross entropy of cosine / temperature: among all second texts, the one of the same row must be the
                    nearest to a first text (Henderson et al., 2017). With one text twice in a row, which dropout makes
                    two vectors, it is unsupervised SimCSE (Gao et al., 2021).

    The contrastive objective compares the texts of one part (--cpu_parts) of one micro-batch on one replica. If a text
    occurs in several rows, the rows' second texts are not compared with it: a copy is no negative (see `copies`).

    A teacher is learned from with one text in each row, [batch, seq]: squared distance of the vectors, both of length
    1. The teacher's vectors must be as wide as the model's (see targets.py).

    Args:
      model: the encoder with its pooling.
      objective: one of OBJECTIVES.
      temperature: number by which the contrastive objective divides cosines.

    Raises:
      ValueError: there is no such objective.
    """

    model: AlbertSentenceEncoder
    TEACHER_OUTPUTS = dict(sentence_embedding=None)

    def __init__(self, model: AlbertSentenceEncoder, objective: str = "similarity", temperature: float = 0.05):
        super().__init__(model)
        if objective not in OBJECTIVES:
            raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}. Received: {objective!r}")
        self._objective, self._temperature = objective, temperature

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the mean loss over rows.

        Raises:
          ValueError: the objective is contrastive, and a micro-batch has a single row, whose loss is always 0.
        """
        vectors = outputs["sentence_embedding"]  # [batch, 2, H]
        if self._objective == "contrastive" and vectors.shape[0] == 1:
            raise ValueError("a contrastive objective needs at least 2 rows in each micro-batch of each device: set a "
                             "larger --train_batch_size, or fewer --gradient_accumulation_steps or --cpu_parts")
        if self._objective == "similarity":
            losses = tf.square(cosines_of_rows(vectors) - batch["label_ids"])  # [batch]
        else:
            first, second = tf.unstack(normalized(vectors), axis=1)  # [batch, H] each
            logits = tf.matmul(first, second, transpose_b=True) / self._temperature  # [batch, batch]
            logits = tf.where(copies(batch["input_ids"]), logits.dtype.min, logits)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(tf.shape(logits)[0]), logits)
        return tf.reduce_sum(losses) / denominators["examples"], {}

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """The micro-batch's share of the mean squared distance from the teacher's vectors."""
        vectors, targets = (normalized(each["sentence_embedding"]) for each in (outputs, teacher))  # [batch, H]
        return tf.reduce_sum(tf.math.squared_difference(vectors, targets)) / denominators["examples"]

    def predictions(self, outputs: Tensors) -> Tensors:
        """The cosine of the two texts of each row, float32 [batch]."""
        return dict(cosine=cosines_of_rows(outputs["sentence_embedding"]))


def copies(input_ids: tf.Tensor) -> tf.Tensor:
    """Which second texts are no negatives of which first texts, bool [batch, batch].

    Row i, column j is true if i and j differ, and the two rows have the same first text or the same second text, or the
    second text of j is the first text of i.

    Args:
      input_ids: [batch, 2, seq], the padded ids of both texts of each row.
    """
    first, second = tf.unstack(input_ids, axis=1)  # [batch, seq] each
    same = _equal_rows(first, first) | _equal_rows(second, second) | _equal_rows(first, second)
    return tf.linalg.set_diag(same, tf.zeros(tf.shape(first)[:1], tf.bool))


def _equal_rows(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """bool [rows of a, rows of b]"""
    return tf.reduce_all(tf.equal(a[:, None], b), axis=-1)


def cosines_of_rows(vectors: tf.Tensor) -> tf.Tensor:
    """The cosine of the two vectors of each row: [batch, 2, H] to [batch]."""
    first, second = tf.unstack(normalized(vectors), axis=1)
    return tf.reduce_sum(first * second, axis=-1)

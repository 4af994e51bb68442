"""SentenceVectorObjective: the losses of vectors of texts, and the cosines that scores are computed from."""

from __future__ import annotations

from typing import Callable, Sequence

import tensorflow as tf

from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.vectors import normalized
from albert_tf.training.objective import Batch, Objective, Tensors
from albert_tf.utils.bounds import check_one_of

OBJECTIVES = ("similarity", "contrastive")


class SentenceVectorObjective(Objective):
    """Two texts in each row of a batch, [batch, 2, seq], or with hard negatives [batch, 2 + negatives, seq].

    The objectives:

      similarity    squared error of the cosine; label_ids, float32 [batch], has the expected cosines (Reimers and
                    Gurevych, 2019)
      contrastive   cross entropy of cosine / temperature: among all second texts and all hard negatives, the second
                    text of the same row must be the nearest to a first text (Henderson et al., 2017). With one text
                    twice in a row, which dropout makes two vectors, it is unsupervised SimCSE (Gao et al., 2021). It
                    compares the texts of a micro-batch on all replicas, or with whole_batch of all micro-batches.

    With a teacher, each row has one text, [batch, seq]. The loss is the squared distance of the vectors, both of length
    1; with distillation_depths of the model, the mean over the whole model and those of its first layers. With
    matryoshka_dims, the loss is the sum of the losses over truncated vectors (Kusupati et al., 2022).
    """

    model: AlbertSentenceEncoder
    TEACHER_OUTPUTS = {"sentence_embedding": None}

    def __init__(self, model: AlbertSentenceEncoder, objective: str = "similarity", temperature: float = 0.05,
                 matryoshka_dims: Sequence[int] = (), whole_batch: bool = False):
        super().__init__(model)
        check_one_of("objective", objective, OBJECTIVES)
        self._objective, self._temperature, self._dims = objective, temperature, tuple(matryoshka_dims)
        if objective == "contrastive":
            self.compared_output, self.compares_batch = "sentence_embedding", whole_batch
        if self._dims:
            size = model.vector_size
            if not all(1 <= dim <= size for dim in self._dims):
                raise ValueError(f"matryoshka_dims must be from 1 to {size}, the number of dimensions of the vectors. "
                                 f"Received: {', '.join(map(str, self._dims))}")

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the mean loss over rows."""
        vectors = outputs["sentence_embedding"]  # [batch, texts, H]
        if self._objective == "contrastive" and vectors.shape[0] == 1 and vectors.shape[1] == 2:
            raise ValueError("a contrastive objective needs at least 2 rows in each micro-batch: set a larger "
                             "--train_batch_size, or fewer --gradient_accumulation_steps")
        losses = self._summed(lambda truncated: self._losses(truncated, batch), vectors)  # [batch]
        return tf.reduce_sum(losses) / denominators["examples"], {}

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """The micro-batch's share of the mean distance from the teacher's vectors."""
        vectors, depths = [outputs["sentence_embedding"]], self.model.settings.distillation_depths  # [batch, H] each
        for depth in depths:
            state = outputs["encoder_outputs"][depth * self.model.config.inner_group_num - 1]
            vectors.append(self.model.vectors(self.model.albert.outputs_of(state), batch["input_mask"]))
        distances = [self._summed(_distance, each, teacher["sentence_embedding"]) for each in vectors]
        return tf.add_n(distances) / len(distances) / denominators["examples"]

    def predictions(self, outputs: Tensors, batch: Batch) -> Tensors:
        """The cosine of the two texts of each row, float32 [batch].

        cosine_N is the same for vectors of N dimensions, for each of matryoshka_dims.
        """
        vectors = outputs["sentence_embedding"]
        truncated = {f"cosine_{dim}": cosines_of_rows(vectors[..., :dim])
                     for dim in self._dims if dim < self.model.vector_size}
        return dict(cosine=cosines_of_rows(vectors), **truncated)

    def _summed(self, losses: Callable[..., tf.Tensor], *vectors: tf.Tensor) -> tf.Tensor:
        """A loss of vectors, or its sum over truncated ones."""
        if not self._dims:
            return losses(*vectors)
        return tf.add_n([losses(*(each[..., :dim] for each in vectors)) for dim in self._dims])

    def _losses(self, vectors: tf.Tensor, batch: Batch) -> tf.Tensor:
        """The loss of each row, [batch]."""
        if self._objective == "similarity":
            return tf.square(cosines_of_rows(vectors) - batch["label_ids"])
        first, *candidates = tf.unstack(normalized(vectors), axis=1)  # [batch, H] each
        logits = tf.matmul(first, tf.concat(candidates, axis=0), transpose_b=True) / self._temperature
        logits = tf.where(copies(batch["input_ids"]), logits.dtype.min, logits)  # [batch, candidates of all rows]
        return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(tf.shape(logits)[0]), logits)


def _distance(vectors: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """The sum of the squared distances of vectors, [batch, H], from others, all scaled to length 1."""
    return tf.reduce_sum(tf.math.squared_difference(normalized(vectors), normalized(targets)))


def copies(input_ids: tf.Tensor) -> tf.Tensor:
    """True where a candidate must not be a negative of a first text, bool [batch, (1 + negatives) * batch].

    The candidates are all second texts, then all first hard negatives, and so on. A second text of another row is none
    if the rows share a first or a second text, or if it is the first text; a hard negative if it is one of the row's
    two texts. The ids are [batch, 2 + negatives, seq], padded.
    """
    first, second, *negatives = tf.unstack(input_ids, axis=1)  # [batch, seq] each
    same = _equal_rows(first, first) | _equal_rows(second, second) | _equal_rows(first, second)
    blocks = [tf.linalg.set_diag(same, tf.zeros(tf.shape(first)[:1], tf.bool))]
    blocks += [_equal_rows(first, each) | _equal_rows(second, each) for each in negatives]
    return tf.concat(blocks, axis=1)


def _equal_rows(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """bool [rows of a, rows of b]"""
    return tf.reduce_all(tf.equal(a[:, None], b), axis=-1)


def cosines_of_rows(vectors: tf.Tensor) -> tf.Tensor:
    """The cosine of the two vectors of each row: [batch, 2, H] to [batch]."""
    first, second = tf.unstack(normalized(vectors), axis=1)
    return tf.reduce_sum(first * second, axis=-1)

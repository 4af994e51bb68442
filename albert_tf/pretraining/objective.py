"""Pre-training: the masked-LM and sentence losses, and their metrics (release: run_pretraining.py).

Learning from the layers of a teacher, their outputs and their attention (DistilledPretrainingObjective):

A layer of the student learns from one layer of the teacher. The teacher may have another number of layers, another
width and another number of heads. It may be a BERT, or share its layers in another way.

Hidden states: the mean squared error of the layers' outputs (TinyBERT; Jiao et al., 2020, section 3.1). If the widths
differ, the student's outputs are multiplied by a matrix first. It is trained with the student, and all layers share it.

Attention: the relations of MiniLMv2 (Wang et al., 2021, section 3.1). The other losses of the field compare what each
head computes, the scores before the softmax (TinyBERT, section 3.1) or the probabilities (MiniLM; Wang et al., 2020,
section 3.1), so both models must have as many heads. A student rarely has as many heads as its teacher, and the mean
over heads would hide what single heads attend to. MiniLMv2 puts the vectors of all heads side by side and splits them
again into any number of relation heads. A relation is how similar the queries of two tokens are, or their keys, or
their values, as a distribution over the tokens of the text::

    relation(A) = softmax(A A^T / sqrt(size of a relation head))        A: queries, keys or values

The loss is the KL divergence of the student's relations from the teacher's, summed over queries, keys and values.

Differences from both papers: the losses are means over the layers, so that a weight means the same for any number of
layers; TinyBERT sums over them and also compares the embeddings, MiniLMv2 compares a single layer.
"""

from __future__ import annotations

from typing import Sequence

import tensorflow as tf

from albert_tf import keras
from albert_tf.modeling.albert_model import attention_vectors, layer_outputs
from albert_tf.modeling.encoder import masked_scores
from albert_tf.modeling.layers import ReleaseDense
from albert_tf.modeling.operations import fused
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.pretraining.config import LayerDistillation
from albert_tf.training.checkpoints import AUXILIARY
from albert_tf.training.distillation import divergence
from albert_tf.training.objective import Batch, Objective, Tensors


class PretrainingObjective(Objective):
    """Masked LM and sentence order. pretraining/reading.py makes the batches.

    Args:
      model: the model to train.
      has_sentence_loss: whether there is a sentence loss; False for the objective "none".
    """

    best_metric = "masked_lm_accuracy"

    def __init__(self, model: AlbertPretrainer, has_sentence_loss: bool = True):
        super().__init__(model)
        self._has_sentence_loss = has_sentence_loss
        names = ["masked_lm_accuracy", "masked_lm_loss"]
        names += ["sentence_order_accuracy", "sentence_order_loss"] if has_sentence_loss else []
        self._means = {name: keras.metrics.Mean(name=name) for name in names}
        self.metrics = list(self._means.values())

    def loss_denominators(self, batch: Batch) -> Tensors:
        """masked_tokens: the sum of masked_lm_weights; examples: the number of examples of the micro-batch."""
        return dict(examples=tf.reduce_sum(_is_example(batch)), masked_tokens=tf.reduce_sum(batch["masked_lm_weights"]))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the loss of the whole batch, and of its terms by name.

        Masked LM: weighted sum / (sum of weights + 1e-5). Sentence order: mean cross entropy. Loss: their sum.
        """
        losses = _fused_cross_entropies(batch["masked_lm_ids"], outputs["mlm_logits"])  # [batch, predictions]
        masked_lm = tf.reduce_sum(losses * batch["masked_lm_weights"])
        parts = dict(masked_lm_loss=masked_lm / (denominators["masked_tokens"] + 1e-5))
        if self._has_sentence_loss:
            losses = _sentence_losses(outputs, batch) * _is_example(batch)
            parts["sentence_order_loss"] = tf.reduce_sum(losses) / denominators["examples"]
        return tf.add_n(list(parts.values())), parts

    def update_metrics(self, batch: Batch, outputs: Tensors) -> None:
        """Adds a batch of an evaluation. Rows with is_real_example 0, which fill up the last batch, do not count."""
        real, weights = _is_example(batch), batch["masked_lm_weights"]
        if "is_real_example" in batch:
            weights *= real[:, None]
        hits = tf.equal(tf.argmax(outputs["mlm_logits"], axis=-1, output_type=tf.int32), batch["masked_lm_ids"])
        self._means["masked_lm_accuracy"].update_state(tf.cast(hits, tf.float32), weights)
        self._means["masked_lm_loss"].update_state(tf.nn.sparse_softmax_cross_entropy_with_logits(
            batch["masked_lm_ids"], outputs["mlm_logits"]), weights)
        if self._has_sentence_loss:
            labels = tf.reshape(batch["next_sentence_labels"], [-1])
            hits = tf.equal(tf.argmax(outputs["sop_logits"], axis=-1, output_type=tf.int32), labels)
            self._means["sentence_order_accuracy"].update_state(tf.cast(hits, tf.float32), real)
            self._means["sentence_order_loss"].update_state(_sentence_losses(outputs, batch), real)

    def results(self, has_sentence_labels: bool = True) -> dict[str, float]:
        """The values of the metrics, with the release's keys. "loss" is the sum of the losses.

        Metrics of the sentence objective are left out if the records have no sentence labels.
        """
        values = {name: float(mean.result()) for name, mean in self._means.items()
                  if has_sentence_labels or not name.startswith("sentence_order")}
        return dict(values, loss=sum(value for name, value in values.items() if name.endswith("_loss")))


class DistilledPretrainingObjective(PretrainingObjective):
    """Pre-training in which the masked-LM head also learns from the head of a teacher with the same vocabulary.

    With `layers`, the layers learn from the teacher's layers, too.

    The loss of masked tokens is (1 - alpha) times the cross entropy plus alpha times the divergence from the teacher
    (see distillation.divergence). The sentence loss stays as it is. The teacher reads each batch in the training step,
    since its logits, one for each piece and masked token, are too many for a cache.

    Args:
      model, teacher: the model to train, and the teacher, which is not trained.
      temperature: number by which the logits of both models are divided.
      alpha: weight of the divergence, from 0 to 1. With 0, the teacher's logits are not used.
      layers: how the model also learns from the teacher's layers (see LayerDistillation). None: it does not.
      arguments: arguments of the base class, such as has_sentence_loss.

    Raises:
      ValueError: the layers or heads of `layers` do not fit both models.
    """

    def __init__(self, model: AlbertPretrainer, teacher: AlbertPretrainer, temperature: float = 1.0,
                 alpha: float = 0.5, layers: LayerDistillation | None = None, **arguments):
        super().__init__(model, **arguments)
        self._teacher, self._temperature, self._alpha = teacher, temperature, alpha
        self._layer_losses = LayerLosses(model, teacher, layers) if layers and layers.is_used else None

    def loss_denominators(self, batch: Batch) -> Tensors:
        """The denominators of PretrainingObjective, and tokens: the number of tokens without padding."""
        denominators = super().loss_denominators(batch)
        if not self._layer_losses:
            return denominators
        return dict(denominators, tokens=tf.cast(tf.reduce_sum(batch["input_mask"]), tf.float32))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The same as in PretrainingObjective, plus distillation_loss and the losses of layers, before weighting."""
        total, parts = super().loss(outputs, batch, denominators)
        teacher_outputs = self._teacher(batch, training=False)
        if self._alpha:
            teacher_logits = tf.stop_gradient(teacher_outputs["mlm_logits"])
            losses = divergence(teacher_logits, outputs["mlm_logits"], self._temperature)  # [batch, predictions]
            distance = tf.reduce_sum(losses * batch["masked_lm_weights"]) / (denominators["masked_tokens"] + 1e-5)
            weighted = dict(parts, masked_lm_loss=(1 - self._alpha) * parts["masked_lm_loss"])
            total = tf.add_n([*weighted.values(), self._alpha * distance])
            parts = dict(parts, distillation_loss=distance)
        if self._layer_losses:
            of_layers, losses_of_layers = self._layer_losses(outputs, teacher_outputs, batch, denominators)
            total, parts = total + of_layers, dict(parts, **losses_of_layers)
        return total, parts


# TensorFlow's op takes twice as long (14.7 ms, fused 6.6 ms, for 320 x 8,000 logits on one core, forward and backward).
_fused_cross_entropies = fused(tf.nn.sparse_softmax_cross_entropy_with_logits, is_separate=False)


def _sentence_losses(outputs: Tensors, batch: Batch) -> tf.Tensor:
    """The cross entropy of each sentence label, [batch], or [batch * texts] for rows of several texts."""
    labels = tf.reshape(batch["next_sentence_labels"], [-1])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs["sop_logits"])


def _is_example(batch: Batch) -> tf.Tensor:
    """1 for each sentence label of an example, and 0 for one that fills up a batch or a row: float32, as the losses."""
    if "text_starts" in batch:
        starts = batch["text_starts"]
        return tf.reshape(tf.cast(starts[:, :-1] < starts[:, -1:], tf.float32), [-1])
    return batch.get("is_real_example", tf.ones(tf.shape(batch["input_ids"])[:1]))


PROJECTION = f"{AUXILIARY}hidden_projection"


class LayerLosses:
    """The losses of a student's layers.

    If hidden states are compared and the widths differ, the student gets the projection as `hidden_projection`: a
    part of its trained weights and of the run's checkpoints, which exports and other runs ignore.
    """

    def __init__(self, student: AlbertPretrainer, teacher: AlbertPretrainer, options: LayerDistillation):
        self._student, self._teacher, self._options = student, teacher, options
        ours, theirs = student.config, teacher.config
        self._teacher_layers = options.layers(ours, theirs)
        self._layers = range(1, ours.num_hidden_layers + 1)
        self._heads = options.heads(ours, theirs) if options.distillation_attention_weight else 1
        self._has_projection = bool(options.distillation_hidden_weight) and ours.hidden_size != theirs.hidden_size
        if self._has_projection:
            student.hidden_projection = ReleaseDense(PROJECTION, ours.hidden_size, theirs.hidden_size,
                                                     ours.initializer_range, use_bias=False)

    def __call__(
        self, outputs: Tensors, teacher_outputs: Tensors, batch: Batch, denominators: Tensors
    ) -> tuple[tf.Tensor, Tensors]:
        """A micro-batch's share of the weighted sum, and of each used loss before weighting: float32 scalars.

        denominators["tokens"] is the number of tokens of the whole batch without padding.
        """
        options, mask, count = self._options, tf.cast(batch["input_mask"], tf.float32), denominators["tokens"]
        losses, weighted = {}, []
        if options.distillation_hidden_weight:
            ours, theirs = self._both(layer_outputs, outputs, teacher_outputs)
            projected = map(self._student.hidden_projection, ours) if self._has_projection else ours
            loss = _mean([hidden_loss(*pair, mask, count) for pair in zip(projected, theirs)])
            losses["distillation_hidden_loss"] = loss
            weighted.append(options.distillation_hidden_weight * loss)
        if options.distillation_attention_weight:
            ours, theirs = self._both(attention_vectors, outputs, teacher_outputs)
            scores = masked_scores(mask, batch.get("text_starts"))
            loss = _mean([attention_loss(*pair, mask, count, self._heads, scores) for pair in zip(ours, theirs)])
            losses["distillation_attention_loss"] = loss
            weighted.append(options.distillation_attention_weight * loss)
        return tf.add_n(weighted), losses

    def _both(self, values_of, outputs: Tensors, teacher_outputs: Tensors) -> tuple[list, list]:
        """The values of the student's layers, and of the teacher's layers that they learn from."""
        theirs = values_of(self._teacher.albert, teacher_outputs, self._teacher_layers)
        return (values_of(self._student.albert, outputs, self._layers),
                tf.nest.map_structure(tf.stop_gradient, theirs))


def hidden_loss(outputs: tf.Tensor, teacher_outputs: tf.Tensor, mask: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """The squared error of outputs [batch, seq, width], averaged over the components and the tokens of the whole batch.

    mask, float32 [batch, seq], is 0 for padding; count, float32, is the number of tokens of the whole batch.
    """
    squares = tf.square(tf.cast(outputs, tf.float32) - tf.cast(teacher_outputs, tf.float32))
    return tf.reduce_sum(tf.reduce_mean(squares, axis=-1) * mask) / count


def attention_loss(
    vectors: Sequence[tf.Tensor], teacher_vectors: Sequence[tf.Tensor], mask: tf.Tensor, count: tf.Tensor, heads: int,
    scores: tf.Tensor
) -> tf.Tensor:
    """The divergences of the relations of queries, keys and values, summed; each is a mean over tokens and heads.

    The queries, keys and values are [batch, seq, width] each. The widths may differ; `heads`, the number of relation
    heads, divides both. mask and count are as for hidden_loss; scores is the result of masked_scores.
    """
    losses = [divergence(_relations(theirs, heads) + scores, _relations(ours, heads) + scores, 1.0)
              for ours, theirs in zip(vectors, teacher_vectors)]
    return tf.reduce_sum(tf.add_n(losses) * mask[:, None, :]) / (heads * count)  # of [batch, heads, seq]


def _relations(vectors: tf.Tensor, heads: int) -> tf.Tensor:
    """The logits of a relation, float32 [batch, heads, seq, seq]."""
    size = vectors.shape[-1] // heads
    split = tf.reshape(vectors, tf.concat([tf.shape(vectors)[:2], [heads, size]], axis=0))
    split = tf.transpose(split, [0, 2, 1, 3]) * size**-0.25  # [batch, heads, seq, size]; small numbers in float16, too
    return tf.cast(tf.matmul(split, split, transpose_b=True), tf.float32)


def _mean(values: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.add_n(values) / len(values)

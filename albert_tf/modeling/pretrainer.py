"""Models with heads of pre-training: AlbertPretrainer (release: run_pretraining.py) and AlbertPhonemePretrainer.

AlbertPretrainer has the masked-LM and sentence-order heads; AlbertPhonemePretrainer has both heads of PL-BERT (Li et
al., 2023, arXiv 2301.08810).
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel, ConfiguredModel, register, required
from albert_tf.modeling.layers import LayerNorm, OutputDense, ReleaseDense, ReleaseLayer, activation
from albert_tf.modeling.operations import dropouts
from albert_tf.modeling.settings import PhonemePretrainerSettings, PretrainerSettings


class MaskedLmHead(ReleaseLayer):
    """Dense H -> E, activation, LayerNorm, times the word table transposed, plus a bias per piece."""

    def __init__(self, config: AlbertConfig):
        super().__init__()
        scope = "cls/predictions/transform"
        self.dense = ReleaseDense(f"{scope}/dense", config.hidden_size, config.embedding_size, config.initializer_range)
        self.activation = activation(config.hidden_act)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm", config.embedding_size, config.layer_norm_eps)
        self.output_bias = self.variable("cls/predictions/output_bias", [config.vocab_size], "zeros")

    def call(self, sequence_output: tf.Tensor, positions: tf.Tensor, word_embeddings: tf.Tensor,
             training: bool) -> tf.Tensor:
        """The logits of the tokens at positions, int32 [batch, predictions]: float32 [batch, predictions, V].

        word_embeddings, [V, E], are from Embeddings.weights_for_step.
        """
        gathered = tf.gather(sequence_output, positions, batch_dims=1)  # [batch, predictions, H]
        transformed = self.layer_norm(self.activation(self.dense(gathered)), training)  # [batch, predictions, E]
        flat = tf.reshape(transformed, [-1, transformed.shape[-1]])
        logits = tf.matmul(flat, word_embeddings, transpose_b=True)
        logits = tf.cast(logits, tf.float32) + self.output_bias
        return tf.reshape(logits, tf.concat([tf.shape(positions), [logits.shape[-1]]], axis=0))


class MaskedLmModel(ConfiguredModel):
    """Base class of models that predict at masked_lm_positions, int32 [batch, predictions]."""

    def input_specs(
        self, batch_size: int | None = None, seq_length: int | None = None, num_predictions: int | None = None
    ) -> dict[str, tf.TensorSpec]:
        """The inputs' names, shapes and types; None is any size."""
        positions = tf.TensorSpec([batch_size, num_predictions], tf.int32, "masked_lm_positions")
        return dict(super().input_specs(batch_size, seq_length), masked_lm_positions=positions)


@register
class AlbertPretrainer(MaskedLmModel):
    """AlbertModel with both heads of pre-training.

    Call it with AlbertModel's inputs and masked_lm_positions, int32 [batch, predictions]. It returns AlbertModel's
    outputs, mlm_logits [batch, predictions, V] and sop_logits [batch, 2] (index 1: the segments are swapped), both
    float32. With text_starts, sop_logits are [batch * texts, 2].
    """

    uses_pooler = True
    HEAD_OUTPUTS = ("mlm_logits", "sop_logits")
    SETTINGS = PretrainerSettings

    def __init__(self, config: AlbertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(config)
        self.masked_lm = MaskedLmHead(config)
        self.sentence_order = OutputDense("cls/seq_relationship/", config.hidden_size, 2, config.initializer_range)
        self.built = True

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        """The outputs of AlbertModel, mlm_logits and sop_logits. `training` turns dropout on."""
        positions, = required(inputs, ("masked_lm_positions",), "[batch, predictions]")
        outputs = self.albert.encode(inputs, dropouts(inputs, training))
        mlm_logits = self.masked_lm(outputs["sequence_output"], positions, self.albert.embeddings.weights_for_step(),
                                    training)
        return dict(outputs, mlm_logits=mlm_logits, sop_logits=self.sentence_order(outputs["pooled_output"]))


_BLOCK = 1024  # rows of logits in memory at a time


@register
class AlbertPhonemePretrainer(MaskedLmModel):
    """AlbertModel with a head for phonemes and one for words.

    Call it with AlbertModel's inputs and masked_lm_positions, int32 [batch, predictions]. It returns AlbertModel's
    outputs, and mlm_logits [batch, predictions, V], float32. Each phoneme may have 85,000
    logits of words, so word_losses and summed_word_loss compute these together with their losses.

    Args:
      num_words: the number of words that the head for words knows.
      **settings: fields of PhonemePretrainerSettings.
    """

    HEAD_OUTPUTS = ("mlm_logits",)
    SETTINGS = PhonemePretrainerSettings
    settings: PhonemePretrainerSettings

    def __init__(self, config: AlbertConfig, num_words: int = 30000, **settings: Any):
        super().__init__(config, **settings)
        self.num_words = num_words
        self.albert = AlbertModel(config)
        self.phonemes = OutputDense("cls/phonemes/", config.hidden_size, config.vocab_size, config.initializer_range)
        self.words = OutputDense("cls/words/", config.hidden_size, num_words, config.initializer_range)
        self.built = True

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        """The outputs of AlbertModel, and mlm_logits. `training` turns dropout on."""
        positions, = required(inputs, ("masked_lm_positions",), "[batch, predictions]")
        outputs = self.albert.encode(inputs, dropouts(inputs, training))
        gathered = tf.gather(outputs["sequence_output"], positions, batch_dims=1)  # [batch, predictions, H]
        return dict(outputs, mlm_logits=self.phonemes(gathered))

    def summed_word_loss(self, vectors: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """The sum of the weighted cross entropies of words, for training.

        The gradients are computed with the losses, block by block, so that no logits are kept or computed twice.
        `vectors` are [rows, H]; `labels`, the ids of the words, and `weights` are int32 and float32 [rows].
        """
        vectors = self.words.in_compute_dtype(vectors)
        return _summed_loss(vectors, tf.convert_to_tensor(self.words.kernel), tf.convert_to_tensor(self.words.bias),
                            labels, weights)

    def word_losses(self, vectors: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The cross entropy of each word, and whether it has the largest logit: float32 [rows] each."""
        def losses(block: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
            logits = self.words(block[0])
            hits = tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), block[1])
            return tf.nn.sparse_softmax_cross_entropy_with_logits(block[1], logits), tf.cast(hits, tf.float32)

        blocks = _blocks(vectors), _blocks(labels)
        results = tf.map_fn(losses, blocks, fn_output_signature=(tf.float32, tf.float32))
        return tuple(tf.reshape(values, [-1])[: tf.shape(labels)[0]] for values in results)


def _blocks(rows: tf.Tensor) -> tf.Tensor:
    """Rows [n, ...] as [blocks, _BLOCK, ...], with zeros at the end. The number of rows must be known."""
    size = min(_BLOCK, rows.shape[0])
    padded = tf.pad(rows, [[0, -rows.shape[0] % size], *[[0, 0]] * (len(rows.shape) - 1)])
    return tf.reshape(padded, [-1, size, *rows.shape[1:]])


@tf.custom_gradient
def _summed_loss(vectors: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, labels: tf.Tensor,
                 weights: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    """The sum of the weighted cross entropies of vectors [rows, H] times kernel [words, H] transposed plus bias."""
    rounded_kernel, blocks = tf.cast(kernel, vectors.dtype), (_blocks(vectors), _blocks(labels), _blocks(weights))
    count, size, width = blocks[0].shape

    def add(i: tf.Tensor, total: tf.Tensor, of_kernel: tf.Tensor, of_bias: tf.Tensor,
            of_vectors: tf.TensorArray) -> tuple[tf.Tensor | tf.TensorArray, ...]:
        x, label, weight = (values[i] for values in blocks)
        logits = tf.cast(tf.matmul(x, rounded_kernel, transpose_b=True), tf.float32) + bias  # [size, words]
        losses, of_logits = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=logits, labels=label)
        of_logits *= weight[:, None]
        rounded = tf.cast(of_logits, x.dtype)
        return (i + 1, total + tf.reduce_sum(losses * weight),
                of_kernel + tf.cast(tf.matmul(rounded, x, transpose_a=True), tf.float32),
                of_bias + tf.reduce_sum(of_logits, axis=0), of_vectors.write(i, tf.matmul(rounded, rounded_kernel)))

    gradients = tf.TensorArray(vectors.dtype, count, element_shape=[size, width])
    _, total, of_kernel, of_bias, gradients = tf.while_loop(
        lambda i, *_: i < count, add, (0, tf.zeros([]), tf.zeros(kernel.shape), tf.zeros(bias.shape), gradients),
        maximum_iterations=count)
    of_vectors = tf.reshape(gradients.stack(), [-1, width])[: vectors.shape[0]]

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
        return tf.cast(upstream, vectors.dtype) * of_vectors, upstream * of_kernel, upstream * of_bias, None, None

    return total, gradient

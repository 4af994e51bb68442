"""AlbertPretrainer: the encoder with the masked-LM and sentence-order heads (release: run_pretraining.py)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.configured_model import ConfiguredModel, register, required
from albert_tf.modeling.dropout import dropouts
from albert_tf.modeling.layers import LayerNorm, OutputDense, ReleaseDense, ReleaseLayer, activation
from albert_tf.modeling.settings import PretrainerSettings


class MaskedLmHead(ReleaseLayer):
    """Dense H -> E, activation, LayerNorm, times the word table transposed, plus a bias per piece."""

    def __init__(self, config: AlbertConfig):
        super().__init__()
        scope = "cls/predictions/transform"
        self.dense = ReleaseDense(f"{scope}/dense", config.hidden_size, config.embedding_size, config.initializer_range)
        self.activation = activation(config.hidden_act)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm", config.embedding_size)
        self.output_bias = self.variable("cls/predictions/output_bias", [config.vocab_size], "zeros")

    def call(self, sequence_output, positions, word_embeddings):
        """The logits of the tokens at positions, int32 [batch, predictions]: float32 [batch, predictions, V].

        word_embeddings, [V, E], are from Embeddings.weights_for_step.
        """
        gathered = tf.gather(sequence_output, positions, batch_dims=1)  # [batch, predictions, H]
        transformed = self.layer_norm(self.activation(self.dense(gathered)))  # [batch, predictions, E]
        flat = tf.reshape(transformed, [-1, transformed.shape[-1]])
        logits = tf.matmul(flat, word_embeddings, transpose_b=True)
        logits = tf.cast(logits, tf.float32) + self.output_bias
        return tf.reshape(logits, tf.concat([tf.shape(positions), [logits.shape[-1]]], axis=0))


class MaskedLmModel(ConfiguredModel):
    """Base class of models that predict at masked_lm_positions, int32 [batch, predictions]."""

    def input_specs(self, batch_size=None, seq_length=None, num_predictions=None):
        """The inputs' names, shapes and types; None is any size."""
        positions = tf.TensorSpec([batch_size, num_predictions], tf.int32, "masked_lm_positions")
        return dict(super().input_specs(batch_size, seq_length), masked_lm_positions=positions)


@register
class AlbertPretrainer(MaskedLmModel):
    """AlbertModel with both heads of pre-training.

    Call it with AlbertModel's inputs and masked_lm_positions, int32 [batch, predictions]. It returns AlbertModel's
    outputs, mlm_logits [batch, predictions, V] and sop_logits [batch, 2] (index 1: the segments are swapped), both
    float32.
    """

    uses_pooler = True
    HEAD_OUTPUTS = ("mlm_logits", "sop_logits")
    SETTINGS = PretrainerSettings

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(config)
        self.masked_lm = MaskedLmHead(config)
        self.sentence_order = OutputDense("cls/seq_relationship/", config.hidden_size, 2, config.initializer_range)
        self.built = True

    def call(self, inputs, training=False):
        """The outputs that the class describes."""
        positions, = required(inputs, ("masked_lm_positions",), "[batch, predictions]")
        outputs = self.albert.encode(inputs, dropouts(inputs, training))
        mlm_logits = self.masked_lm(outputs["sequence_output"], positions, self.albert.embeddings.weights_for_step())
        return dict(outputs, mlm_logits=mlm_logits, sop_logits=self.sentence_order(outputs["pooled_output"]))

"""The factorized embedding: tables of width E (Lan et al., 2020, section 3.1; release: modeling.py)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.layers import LayerNorm, ReleaseLayer, truncated_normal


class Embeddings(ReleaseLayer):
    """The sum of word, segment and position embeddings, with LayerNorm and dropout.

    Call it with input_ids and segment_ids, int32 [batch, seq], and a Dropouts object. It returns
    (word_embedding_output, embedding_output), both [batch, seq, E]. The encoder projects them from E to H.
    """

    def __init__(self, config: AlbertConfig):
        super().__init__()
        self.config = config
        self.word_embeddings = self._table("word_embeddings", config.vocab_size)
        self.token_type_embeddings = self._table("token_type_embeddings", config.type_vocab_size)
        self.position_embeddings = self._table("position_embeddings", config.max_position_embeddings)
        self.layer_norm = LayerNorm("bert/embeddings/LayerNorm", config.embedding_size)

    def _table(self, name: str, rows: int) -> tf.Variable:
        initializer = truncated_normal(self.config.initializer_range)
        return self.variable(f"bert/embeddings/{name}", [rows, self.config.embedding_size], initializer)

    def weights_for_step(self) -> tf.Tensor:
        """The word table in the compute dtype, [V, E], for the masked-LM head."""
        return self.in_compute_dtype(self.word_embeddings)

    def call(self, input_ids, segment_ids, dropouts):
        """Word embeddings, and the normalised sum of all three embeddings with dropout: [batch, seq, E] each."""
        words = tf.gather(self.word_embeddings, input_ids)  # [batch, seq, E]
        # One-hot, as the release does on TPU: the table has only two rows, and the gradient is dense.
        segments = tf.matmul(tf.one_hot(segment_ids, self.config.type_vocab_size), self.token_type_embeddings)
        positions = self.position_embeddings[: tf.shape(input_ids)[1]]
        summed = self.layer_norm(words + segments + positions, training=dropouts.training)
        return self.in_compute_dtype(words), dropouts(summed, self.config.hidden_dropout_prob)

"""AlbertSentenceEncoder: the encoder with a pooling, for vectors of texts (Reimers and Gurevych, 2019)."""

from __future__ import annotations

from typing import Mapping

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.configured_model import ConfiguredModel, as_rows, register, side_by_side
from albert_tf.modeling.dropout import dropouts
from albert_tf.modeling.pooling import SentencePooling, check_pooling, normalized, pooled


@register
class AlbertSentenceEncoder(ConfiguredModel):
    """AlbertModel with a pooling of its outputs.

    Args:
      config: the model's config.
      pooling: "mean", "max", "cls" or "pooler", see modeling/pooling.py.
      normalize: whether vectors have length 1.
      max_seq_length: the number of tokens to which scripts truncate a text; None for max_position_embeddings. The model
        itself truncates nothing.

    The inputs are AlbertModel's, [batch, seq], or have several texts in each row, [batch, texts, seq]. The outputs are
    AlbertModel's, of batch * texts rows, and sentence_embedding, float32 [batch, H] or [batch, texts, H].

    Raises:
      ValueError: there is no such pooling.
    """

    HEAD_OUTPUTS = ("sentence_embedding",)
    ARGUMENTS = ("pooling", "normalize")

    def __init__(self, config: AlbertConfig, pooling: str = "mean", normalize: bool = False,
                 max_seq_length: int | None = None, **kwargs):
        super().__init__(config, max_seq_length, **kwargs)
        check_pooling(pooling)
        self.albert = AlbertModel(config)
        self.pooling, self.normalize = pooling, normalize
        self.uses_pooler = pooling == "pooler"
        self.built = True

    @property
    def sentence_pooling(self) -> SentencePooling:
        """The constructor's arguments besides the config."""
        return SentencePooling(self.pooling, self.normalize, self.max_seq_length)

    def vectors(self, outputs: Mapping[str, tf.Tensor], input_mask: tf.Tensor) -> tf.Tensor:
        """The vector of each text, float32 [batch, H], from the encoder's outputs; see modeling/pooling.py."""
        vectors = pooled(outputs, input_mask, self.pooling)
        return normalized(vectors) if self.normalize else vectors

    def call(self, inputs, training=False):
        """The outputs that the class describes."""
        rows, texts = as_rows(inputs, "texts")
        outputs = self.albert.encode(rows, dropouts(inputs, training))
        vectors = self.vectors(outputs, rows["input_mask"])
        return dict(outputs, sentence_embedding=vectors if texts is None else side_by_side(vectors, texts))

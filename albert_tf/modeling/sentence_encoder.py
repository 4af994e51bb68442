"""AlbertSentenceEncoder: the encoder with a pooling, for vectors of texts (Reimers and Gurevych, 2019)."""

from __future__ import annotations

from typing import Mapping, Sequence

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.configured_model import ConfiguredModel, as_rows, register, side_by_side
from albert_tf.modeling.dropout import dropouts
from albert_tf.modeling.pooling import POOLINGS, SentencePooling, normalized, pooled
from albert_tf.modeling.vector_precision import VectorPrecision, as_ranges
from albert_tf.utils.bounds import check_one_of


@register
class AlbertSentenceEncoder(ConfiguredModel):
    """AlbertModel with a pooling of its outputs.

    Args:
      config: the model's config.
      pooling: "mean", "max", "cls" or "pooler", see modeling/pooling.py.
      normalize: whether vectors have length 1.
      max_seq_length: the number of tokens to which scripts truncate a text; None for max_position_embeddings. The model
        itself truncates nothing.
      truncate_dim: number of dimensions of the vectors; the others are left out before vectors are normalized. None for
        all.
      vector_precision, vector_ranges: the precision of the vectors of exported models (see VectorPrecision). Those of a
        call are float32.

    The inputs are AlbertModel's, [batch, seq], or have several texts in each row, [batch, texts, seq]. The outputs are
    AlbertModel's, of batch * texts rows, and sentence_embedding, float32 [batch, vector_size] or
    [batch, texts, vector_size].

    Attributes:
      vector_size: truncate_dim, or hidden_size.

    Raises:
      ValueError: there is no such pooling, truncate_dim is larger than hidden_size, or see VectorPrecision.
    """

    HEAD_OUTPUTS = ("sentence_embedding",)
    ARGUMENTS = ("pooling", "normalize", "truncate_dim", "vector_precision", "vector_ranges")

    def __init__(self, config: AlbertConfig, pooling: str = "mean", normalize: bool = False,
                 max_seq_length: int | None = None, truncate_dim: int | None = None,
                 vector_precision: str = "float32", vector_ranges: Sequence[Sequence[float]] | None = None, **kwargs):
        super().__init__(config, max_seq_length, **kwargs)
        check_one_of("pooling", pooling, POOLINGS)
        if truncate_dim is not None and not 1 <= truncate_dim <= config.hidden_size:
            raise ValueError(f"truncate_dim must be from 1 to the model's hidden_size, {config.hidden_size}. "
                             f"Received: {truncate_dim}")
        self.albert = AlbertModel(config)
        self.pooling, self.normalize, self.truncate_dim = pooling, normalize, truncate_dim
        self.vector_size = truncate_dim or config.hidden_size
        self.stored_vectors = VectorPrecision(vector_precision, vector_ranges if vector_ranges is None
                                              else as_ranges(vector_ranges))
        self.stored_vectors.check_size(self.vector_size)
        self.vector_precision, self.vector_ranges = self.stored_vectors.name, self.stored_vectors.ranges
        self.uses_pooler = pooling == "pooler"
        self.built = True

    @property
    def sentence_pooling(self) -> SentencePooling:
        """The constructor's arguments besides the config."""
        return SentencePooling(self.pooling, self.normalize, self.max_seq_length, self.truncate_dim)

    def vectors(self, outputs: Mapping[str, tf.Tensor], input_mask: tf.Tensor) -> tf.Tensor:
        """The vector of each text, float32 [batch, vector_size], from the encoder's outputs (modeling/pooling.py)."""
        vectors = pooled(outputs, input_mask, self.pooling)
        if self.truncate_dim:
            vectors = vectors[:, : self.truncate_dim]
        return normalized(vectors) if self.normalize else vectors

    def exported_outputs(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """sentence_embedding in the precision vector_precision."""
        return dict(sentence_embedding=self.stored_vectors.stored(outputs["sentence_embedding"]))

    def call(self, inputs, training=False):
        """The outputs that the class describes."""
        rows, texts = as_rows(inputs, "texts")
        outputs = self.albert.encode(rows, dropouts(inputs, training))
        vectors = self.vectors(outputs, rows["input_mask"])
        return dict(outputs, sentence_embedding=vectors if texts is None else side_by_side(vectors, texts))

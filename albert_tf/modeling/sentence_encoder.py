"""AlbertSentenceEncoder: the encoder with a pooling, for vectors of texts (Reimers and Gurevych, 2019)."""

from __future__ import annotations

from typing import Any, Mapping

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel, ConfiguredModel, as_rows, register, side_by_side
from albert_tf.modeling.layers import OutputDense, activation
from albert_tf.modeling.operations import dropouts
from albert_tf.modeling.settings import SentenceEncoderSettings
from albert_tf.modeling.vectors import normalized, pooled, prompt_text
from albert_tf.utils import bounds


@register
class AlbertSentenceEncoder(ConfiguredModel):
    """AlbertModel with a pooling of its outputs.

    Args:
      pooling, normalize, settings: fields of SentenceEncoderSettings.

    The inputs are AlbertModel's, [batch, seq], or have several texts in each row, [batch, texts, seq]. The outputs are
    AlbertModel's, of batch * texts rows, and sentence_embedding, float32 [batch, vector_size] or
    [batch, texts, vector_size].

    Attributes:
      vector_size: truncate_dim, or dense_size, or hidden_size.

    Raises:
      ValueError: there is no such pooling or prompt, truncate_dim exceeds the size of vectors, or
        a distillation depth is not below num_hidden_layers.
    """

    HEAD_OUTPUTS = ("sentence_embedding",)
    SETTINGS = SentenceEncoderSettings
    settings: SentenceEncoderSettings

    def __init__(self, config: AlbertConfig, pooling: str = "mean", normalize: bool = False, **settings: Any):
        super().__init__(config, pooling=pooling, normalize=normalize, **settings)
        truncate_dim, depths = self.settings.truncate_dim, self.settings.distillation_depths
        size = self.settings.dense_size or config.hidden_size
        if truncate_dim is not None:
            bounds.Bounds(1, size).check("truncate_dim", truncate_dim)
        if depths and max(depths) >= config.num_hidden_layers:
            raise ValueError("distillation_depths must be less than the model's number of layers, "
                             f"{config.num_hidden_layers}. Received: {', '.join(map(str, depths))}")
        prompt_text(self.settings.prompts, self.settings.default_prompt_name)  # raises if there is none
        self.albert = AlbertModel(config)
        self.dense = OutputDense("cls/vectors/", config.hidden_size, size, config.initializer_range) if (
            self.settings.dense_size) else None
        self.vector_size = truncate_dim or size
        self.uses_pooler = pooling == "pooler"
        self.built = True

    def vectors(self, outputs: Mapping[str, tf.Tensor], input_mask: tf.Tensor) -> tf.Tensor:
        """The vector of each text, float32 [batch, vector_size], from the encoder's outputs (modeling/vectors.py)."""
        vectors = pooled(outputs, input_mask, self.settings.pooling)
        if self.dense is not None:
            vectors = activation(self.settings.dense_act)(self.dense(vectors))
        if self.settings.truncate_dim:
            vectors = vectors[:, : self.settings.truncate_dim]
        return normalized(vectors) if self.settings.normalize else vectors

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        """The outputs of AlbertModel, and sentence_embedding. `training` turns dropout on."""
        rows, texts = as_rows(inputs, "texts")
        outputs = self.albert.encode(rows, dropouts(inputs, training))
        vectors = self.vectors(outputs, rows["input_mask"])
        return dict(outputs, sentence_embedding=vectors if texts is None else side_by_side(vectors, texts))

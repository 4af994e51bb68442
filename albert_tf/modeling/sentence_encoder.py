"""AlbertSentenceEncoder: the encoder with a pooling, for vectors of texts (Reimers and Gurevych, 2019)."""

from __future__ import annotations

from typing import Any, Mapping

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.arguments import (
    Argument,
    boolean,
    choice,
    optional_name,
    texts_by_name,
    whole_number,
    whole_numbers,
)
from albert_tf.modeling.configured_model import ConfiguredModel, as_rows, register, side_by_side
from albert_tf.modeling.dropout import dropouts
from albert_tf.modeling.vectors import (
    POOLINGS,
    VECTOR_PRECISIONS,
    VectorPrecision,
    as_ranges,
    normalized,
    pooled,
    prompt_text,
)
from albert_tf.utils import bounds


@register
class AlbertSentenceEncoder(ConfiguredModel):
    """AlbertModel with a pooling of its outputs.

    Args:
      pooling: "mean", "max", "cls" or "pooler", see modeling/vectors.py.
      normalize: whether vectors have length 1.
      max_seq_length: the number of tokens to which scripts truncate a text; None for max_position_embeddings. The model
        itself truncates nothing.
      truncate_dim: number of dimensions of the vectors; the others are left out before vectors are normalized. None for
        all.
      prompts: texts by name, such as dict(query="query: "), one of which functions of texts put before each text; as
        pairs of name and text in the attribute. The model itself reads ids.
      default_prompt_name: the name of that prompt; None for none.
      distillation_depths: the numbers of first layers that learned the vectors of a teacher as well, so that the model
        can be cut to them.
      vector_precision, vector_ranges: the precision of the vectors of exported models (see VectorPrecision). Those of a
        call are float32.

    The inputs are AlbertModel's, [batch, seq], or have several texts in each row, [batch, texts, seq]. The outputs are
    AlbertModel's, of batch * texts rows, and sentence_embedding, float32 [batch, vector_size] or
    [batch, texts, vector_size].

    Attributes:
      vector_size: truncate_dim, or hidden_size.

    Raises:
      ValueError: there is no such pooling, precision or prompt, ranges do not fit, truncate_dim exceeds hidden_size, or
        a distillation depth is not below num_hidden_layers.
    """

    HEAD_OUTPUTS = ("sentence_embedding",)
    pooling: str = choice("mean", POOLINGS)
    normalize: bool = boolean()
    truncate_dim: int | None = whole_number(None, bounds.WIDTH)
    prompts: Any = texts_by_name()
    default_prompt_name: str | None = optional_name()
    distillation_depths: tuple[int, ...] = whole_numbers(bounds.LAYERS, is_compared=False)
    vector_precision: str = choice("float32", VECTOR_PRECISIONS, is_stored=False)
    vector_ranges: Any = Argument(None, lambda name, value: as_ranges(value), is_stored=False)

    def __init__(self, config: AlbertConfig, *arguments, **keywords):
        super().__init__(config, *arguments, **keywords)
        if self.truncate_dim is not None:
            bounds.Bounds(1, config.hidden_size).check("truncate_dim", self.truncate_dim)
        if self.distillation_depths and max(self.distillation_depths) >= config.num_hidden_layers:
            raise ValueError("distillation_depths must be less than the model's number of layers, "
                             f"{config.num_hidden_layers}. Received: {', '.join(map(str, self.distillation_depths))}")
        prompt_text(self.prompts, self.default_prompt_name)  # raises if there is none
        self.albert = AlbertModel(config)
        self.vector_size = self.truncate_dim or config.hidden_size
        self.stored_vectors = VectorPrecision(self.vector_precision, self.vector_ranges)
        self.stored_vectors.check_size(self.vector_size)
        self.uses_pooler = self.pooling == "pooler"
        self.built = True

    def vectors(self, outputs: Mapping[str, tf.Tensor], input_mask: tf.Tensor) -> tf.Tensor:
        """The vector of each text, float32 [batch, vector_size], from the encoder's outputs (modeling/vectors.py)."""
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

"""The heads for SQuAD.

AlbertSpan, for 1.1, has one dense layer for start and end (release: squad_utils.create_v1_model).
AlbertConditionalSpan, for 2.0, predicts the end of an answer from its start (release: squad_utils.create_v2_model).
"""

from __future__ import annotations

from typing import Any, Mapping

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel, ConfiguredModel, register, required
from albert_tf.modeling.layers import LayerNorm, OutputDense, ReleaseDense
from albert_tf.modeling.operations import Dropouts, dropouts
from albert_tf.modeling.settings import ConditionalSpanSettings, SpanSettings
from albert_tf.utils import bounds


@register
class AlbertSpan(ConfiguredModel):
    """AlbertModel, and a dense layer to a start and an end logit for each token.

    Its settings are SpanSettings. Call it with AlbertModel's inputs. It returns AlbertModel's outputs, start_logits and
    end_logits, float32 [batch, seq].
    """

    HEAD_OUTPUTS = ("start_logits", "end_logits")
    SETTINGS = SpanSettings

    def __init__(self, config: AlbertConfig, **settings: Any):
        super().__init__(config, **settings)
        self.albert = AlbertModel(config)
        self.span = OutputDense("cls/squad/", config.hidden_size, 2, config.initializer_range)
        self.built = True

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        """The outputs of AlbertModel, and start_logits and end_logits, [batch, seq]. `training` turns dropout on."""
        outputs = self.albert.encode(inputs, dropouts(inputs, training))
        start, end = tf.unstack(self.span(outputs["sequence_output"]), axis=-1)  # [batch, seq] each
        return dict(outputs, start_logits=start, end_logits=end)


# The release's logit of a position that p_mask excludes.
MASKED_LOGIT = -1e30


@register
class AlbertConditionalSpan(ConfiguredModel):
    """AlbertModel with start logits, end logits conditioned on a start, and an answerability logit.

    Args:
      start_n_top, end_n_top: the beam: number of starts, and number of ends per start.
      dropout_prob: dropout rate of the answerability head in training.
      **settings: fields of ConditionalSpanSettings.

    Call it with AlbertModel's inputs and p_mask, int32 [batch, seq], which is 1 for tokens where no answer may start or
    end. If the inputs have start_positions, int32 [batch] (training), the end is conditioned on that start. It then
    returns AlbertModel's outputs and::

      start_log_probs, end_log_probs [batch, seq]
      cls_logits [batch]

    Otherwise it searches the beam and returns AlbertModel's outputs and::

      start_top_log_probs, start_top_index [batch, start_n_top]
      end_top_log_probs, end_top_index [batch, start_n_top * end_n_top], with consecutive ends for each start
      cls_logits [batch]

    Indices are int32, all other outputs float32.

    Raises:
      ValueError: an input is missing or has a wrong shape, or the sequence has fewer tokens than the beam.
    """

    HEAD_OUTPUTS = ("start_log_probs", "end_log_probs", "start_top_log_probs", "start_top_index", "end_top_log_probs",
                    "end_top_index", "cls_logits")
    SETTINGS = ConditionalSpanSettings

    def __init__(self, config: AlbertConfig, start_n_top: int = 5, end_n_top: int = 5, dropout_prob: float = 0.1,
                 **settings: Any):
        super().__init__(config, **settings)
        bounds.CANDIDATES.check("start_n_top", start_n_top)
        bounds.CANDIDATES.check("end_n_top", end_n_top)
        bounds.check_finite("dropout_prob", dropout_prob, 0.0, 1.0)
        self.start_n_top, self.end_n_top, self.dropout_prob = start_n_top, end_n_top, dropout_prob
        self.albert = AlbertModel(config)
        size, stddev = config.hidden_size, config.initializer_range
        # Logits are float32, since in bfloat16 many candidates would have equal scores.
        self.start = ReleaseDense("start_logits/dense", size, 1, stddev, dtype=tf.float32)
        self.end_hidden = ReleaseDense("end_logits/dense_0", 2 * size, size, stddev)
        self.end_layer_norm = LayerNorm("end_logits/LayerNorm", size, config.layer_norm_eps)
        self.end = ReleaseDense("end_logits/dense_1", size, 1, stddev, dtype=tf.float32)
        self.answer_hidden = ReleaseDense("answer_class/dense_0", 2 * size, size, stddev)
        self.answer = ReleaseDense("answer_class/dense_1", size, 1, stddev, use_bias=False, dtype=tf.float32)
        self.built = True

    @property
    def beam_width(self) -> int:
        """The smallest number of tokens of a sequence that the beam can search."""
        return max(self.start_n_top, self.end_n_top)

    def input_specs(
        self, batch_size: int | None = None, seq_length: int | None = None, num_predictions: int | None = None
    ) -> dict[str, tf.TensorSpec]:
        """The inputs' names, shapes and types; None is any size."""
        p_mask = tf.TensorSpec([batch_size, seq_length], tf.int32, "p_mask")
        return dict(super().input_specs(batch_size, seq_length), p_mask=p_mask)

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        """The outputs of AlbertModel and of the head: of given starts, or of the beam. `training` turns dropout on."""
        _, p_mask = required(inputs, ("input_ids", "p_mask"), "[batch, seq]")
        dropout = dropouts(inputs, training)
        outputs = self.albert.encode(inputs, dropout)
        tokens = outputs["sequence_output"]  # [batch, seq, H]
        is_masked = tf.cast(p_mask, tf.float32)  # [batch, seq]
        start_logits = _masked(tf.squeeze(self.start(tokens), -1), is_masked)
        start_log_probs = tf.nn.log_softmax(start_logits)
        cls_logits = self._answerability(tokens, start_logits, dropout)
        if "start_positions" in inputs:
            start_positions, = required(inputs, ("start_positions",), "[batch]")
            start_tokens = tf.gather(tokens, start_positions[:, None], batch_dims=1)  # [batch, 1, H]
            end_log_probs = self._end_log_probs(tokens, start_tokens, is_masked, training)[:, 0]
            return dict(outputs, start_log_probs=start_log_probs, end_log_probs=end_log_probs, cls_logits=cls_logits)
        return dict(outputs, **self._beam(tokens, start_log_probs, is_masked, training), cls_logits=cls_logits)

    def _beam(self, tokens: tf.Tensor, start_log_probs: tf.Tensor, is_masked: tf.Tensor,
              training: bool) -> dict[str, tf.Tensor]:
        seq = tokens.shape[1]
        if seq is not None and seq < self.beam_width:
            raise ValueError(f"the beam has {self.beam_width} candidates, but the sequence has {seq} tokens only")
        start_top_log_probs, start_top_index = tf.math.top_k(start_log_probs, self.start_n_top)
        start_tokens = tf.gather(tokens, start_top_index, batch_dims=1)  # [batch, start_n_top, H]
        end_log_probs = self._end_log_probs(tokens, start_tokens, is_masked, training)  # [batch, start_n_top, seq]
        end_top_log_probs, end_top_index = tf.math.top_k(end_log_probs, self.end_n_top)
        flat = [-1, self.start_n_top * self.end_n_top]
        return dict(start_top_log_probs=start_top_log_probs, start_top_index=start_top_index,
                    end_top_log_probs=tf.reshape(end_top_log_probs, flat),
                    end_top_index=tf.reshape(end_top_index, flat))

    def _end_log_probs(self, tokens: tf.Tensor, start_tokens: tf.Tensor, is_masked: tf.Tensor,
                       training: bool) -> tf.Tensor:
        """The end's log probabilities, float32 [batch, starts, seq], for start_tokens [batch, starts, H]."""
        shape = tf.concat([tf.shape(start_tokens)[:2], tf.shape(tokens)[1:]], axis=0)  # [batch, starts, seq, H]
        pairs = tf.concat([tf.broadcast_to(tokens[:, None], shape),
                           tf.broadcast_to(start_tokens[:, :, None], shape)], axis=-1)
        hidden = self.end_layer_norm(tf.tanh(self.end_hidden(pairs)), training)
        return tf.nn.log_softmax(_masked(tf.squeeze(self.end(hidden), -1), is_masked[:, None]))

    def _answerability(self, tokens: tf.Tensor, start_logits: tf.Tensor, dropout: Dropouts) -> tf.Tensor:
        """The logit that there is no answer, [batch], from [CLS] and the mean token weighted by start probability."""
        weights = tf.cast(tf.nn.softmax(start_logits), tokens.dtype)
        expected_start = tf.einsum("bsh,bs->bh", tokens, weights)
        hidden = tf.tanh(self.answer_hidden(tf.concat([expected_start, tokens[:, 0]], axis=-1)))
        return tf.squeeze(self.answer(dropout(hidden, self.dropout_prob)), -1)


def _masked(logits: tf.Tensor, is_masked: tf.Tensor) -> tf.Tensor:
    return logits * (1.0 - is_masked) + MASKED_LOGIT * is_masked

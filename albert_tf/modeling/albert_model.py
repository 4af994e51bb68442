"""AlbertModel: embeddings, encoder and pooler as one Keras model (Lan et al., 2020, section 3.1).

And what its layers have computed: functions of the outputs of a call, so that the call is the same for those who do not
need them.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.configured_model import ENCODER_INPUTS, ConfiguredModel, register, required
from albert_tf.modeling.dropout import dropouts
from albert_tf.modeling.encoder import Encoder
from albert_tf.modeling.layers import LayerNorm, ReleaseDense, ReleaseLayer, truncated_normal
from albert_tf.modeling.settings import EncoderSettings


class Embeddings(ReleaseLayer):
    """The sum of word, segment and position embeddings, with LayerNorm and dropout.

    The encoder projects it from E to H.
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
        """word_embedding_output and embedding_output, [batch, seq, E] each, for ids, int32 [batch, seq]."""
        words = tf.gather(self.word_embeddings, input_ids)  # [batch, seq, E]
        # One-hot, as the release does on TPU: the table has only two rows, and the gradient is dense.
        segments = tf.matmul(tf.one_hot(segment_ids, self.config.type_vocab_size), self.token_type_embeddings)
        positions = self.position_embeddings[: tf.shape(input_ids)[1]]
        summed = self.layer_norm(words + segments + positions, training=dropouts.training)
        return self.in_compute_dtype(words), dropouts(summed, self.config.hidden_dropout_prob)


@register
class AlbertModel(ConfiguredModel):
    """ALBERT without a head (Lan et al., 2020; release: modeling.AlbertModel).

    The compute dtype is that of the global Keras policy when the model is made. Variables are always float32.

    Call it with a dict of input_ids, input_mask (1 for tokens, 0 for padding) and segment_ids, int32 [batch, seq] each.
    For repeatable dropout in training, add dropout_seed, int32 [2]. The result is a dict::

      pooled_output            [batch, H]
      sequence_output          [batch, seq, H]
      encoder_outputs          a list of [batch, seq, H], one per layer (and inner group)
      embedding_output, word_embedding_output  [batch, seq, E]

    Attributes:
      gradient_checkpointing: whether training keeps only the input of each layer in memory and computes the layer again
        for its gradient. Default: False.

    Raises:
      ValueError: an input is missing or has another shape, or the sequence is longer than max_position_embeddings.

    Example::

      model = AlbertModel(AlbertConfig.preset("albert_base_v2"))
      pooled = model(dict(input_ids=ids, input_mask=mask, segment_ids=segments))["pooled_output"]
    """

    HEAD_OUTPUTS = ("pooled_output", "sequence_output")
    SETTINGS = EncoderSettings

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.gradient_checkpointing = False
        self._random_pooler: np.ndarray | None = None
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.pooler = ReleaseDense("bert/pooler/dense", config.hidden_size, config.hidden_size,
                                   config.initializer_range)
        self.built = True

    def mark_pooler_as_random(self) -> None:
        """Remembers the pooler's values, for weights that have no pooler."""
        self._random_pooler = self.pooler.kernel.numpy()

    @property
    def has_random_pooler(self) -> bool:
        """Whether the pooler has random values, since the weights had none and no training has changed it since."""
        with tf.init_scope():  # exports ask while they trace a graph, which cannot read values
            return self._random_pooler is not None and np.array_equal(self._random_pooler, self.pooler.kernel.numpy())

    def exported_outputs(self, outputs):
        """The outputs that an export has: without pooled_output if the pooler is random."""
        left_out = ("pooled_output",) if self.has_random_pooler else ()
        return {name: value for name, value in self.head_outputs(outputs).items() if name not in left_out}

    def call(self, inputs, training=False):
        """The outputs that the class describes."""
        return self.encode(inputs, dropouts(inputs, training))

    def encode(self, inputs: dict, dropouts) -> dict:
        """The same as `call`, with a Dropouts object that the caller can use for further dropouts."""
        input_ids, input_mask, segment_ids = required(inputs, ENCODER_INPUTS, "[batch, seq]")
        word_embedding_output, embedding_output = self.embeddings(self._checked(input_ids), segment_ids, dropouts)
        encoder_outputs = self.encoder(embedding_output, input_mask, dropouts,
                                       recompute=self.gradient_checkpointing and dropouts.training)
        return dict(
            self.outputs_of(encoder_outputs[-1]),
            encoder_outputs=encoder_outputs,
            embedding_output=embedding_output,
            word_embedding_output=word_embedding_output,
        )

    def outputs_of(self, layer_output: tf.Tensor) -> dict:
        """pooled_output [batch, H] and sequence_output [batch, seq, H], if a layer with this output is the last one."""
        return dict(pooled_output=tf.tanh(self.pooler(layer_output[:, 0])), sequence_output=layer_output)

    def _checked(self, input_ids: tf.Tensor) -> tf.Tensor:
        """The same ids. Raises an error if there are more than max_position_embeddings."""
        seq, longest = input_ids.shape[1], self.config.max_position_embeddings
        if seq is None:  # in a graph for any length
            is_short = tf.debugging.assert_less_equal(
                tf.shape(input_ids)[1], longest, f"a sequence has more tokens than max_position_embeddings={longest}")
            with tf.control_dependencies([is_short]):  # otherwise the sum of the embeddings may fail first
                input_ids = tf.identity(input_ids)
        elif seq > longest:
            raise ValueError(f"the sequence has {seq} tokens, but the model has max_position_embeddings={longest}: "
                             f"make shorter ones, as tokenizer(texts, max_seq_length={longest}) does")
        return input_ids


def hidden_states(model: AlbertModel, outputs: dict) -> list[tf.Tensor]:
    """The input of the first layer, and the output of each layer and inner group, [batch, seq, H] each."""
    return [model.encoder.projected(outputs["embedding_output"]), *outputs["encoder_outputs"]]


def layer_outputs(model: AlbertModel, outputs: dict, layers: Sequence[int]) -> list[tf.Tensor]:
    """The outputs of layers, numbered from 1, [batch, seq, H] each: those of their last inner groups."""
    states = hidden_states(model, outputs)
    return [states[layer * model.config.inner_group_num] for layer in layers]


def attention_vectors(model: AlbertModel, outputs: dict, layers: Sequence[int]) -> list[list[tf.Tensor]]:
    """The queries, keys and values of layers, numbered from 1: three tensors [batch, seq, H] each, with heads in order.

    Those of a layer are the ones of its last inner group. The queries do not have the factor 1 / sqrt(head size).
    """
    states, encoder, config = hidden_states(model, outputs), model.encoder, model.config
    weights, _ = encoder.weights_for_step()
    blocks = [a for a, _ in encoder.blocks_in_order()]
    head_size = config.hidden_size // config.num_attention_heads

    def vectors(number: int) -> list[tf.Tensor]:
        """Those of a layer or inner group by its index, that of its input among the states."""
        block = blocks[number]
        x, shape = tf.reshape(states[number], [-1, config.hidden_size]), tf.shape(states[number])
        own = weights[number if encoder.has_layer_adapters else block]
        query, key, value = (tf.reshape(each, shape) for each in tf.split(
            encoder.attention_blocks[block].queries_keys_values(x, own), 3, axis=-1))
        return [query * head_size**0.5, key, value]

    return [vectors(layer * config.inner_group_num - 1) for layer in layers]

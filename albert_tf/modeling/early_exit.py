"""Early exit: an output after every layer, and predictions that stop when outputs agree (PABEE, Zhou et al., 2020).

A model with exit heads has an output layer for each layer of the encoder. Training sums the losses of all of them (see
loss_over_exits). In a prediction with a patience P, an example counts the consecutive layers whose answer agrees with
that of the layer before; when P have agreed, its answer is that of the current layer, and it leaves the batch::

    answers of layers 1 to 6    a  b  b  b  a  a
    agreements                  0  0  1  2  0  1        P = 2 exits after layer 4; P = 3, 4, 5 or 6 never does

The patience is one of the Keras model alone. For a number of layers that is always the same, first_layers of
weights/stored_model.py cuts the model, which then has no exit heads.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import tensorflow as tf

from albert_tf import devices
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.arguments import boolean, choice, whole_number
from albert_tf.modeling.configured_model import ENCODER_INPUTS, ConfiguredModel, required
from albert_tf.modeling.dropout import Dropouts, dropouts
from albert_tf.modeling.encoder import EXIT_HEADS, masked_scores
from albert_tf.modeling.layers import OutputDense
from albert_tf.modeling.vectors import POOLER, POOLINGS, pooled
from albert_tf.utils import bounds

NUM_LAYERS_USED = "num_layers_used"


class EarlyExitModel(ConfiguredModel):
    """Base class of the models that can have exit heads.

    A subclass calls `add_layers` in its constructor and defines `logits_of`. It also defines `rows_of` if an example
    can have several rows, and `agreement` if its logits are not [batch, labels].

    With exit heads the outputs also have exit_logits, the list of the logits after each layer. In a prediction with a
    patience, the outputs are logits and num_layers_used, int32 [batch], alone.

    Args:
      config: the model's config.
      exit_heads: whether there is an output after every layer.
      exit_pooling: one of POOLINGS: which vector of a text the outputs before the last layer read. "pooler" is that of
        PABEE; "mean" of the tokens learns sooner where layers have not been trained to gather a text in [CLS].
      pooling: which vector the output of the last layer reads. It is another one than the pooler's in a model that was
        cut after an earlier layer.
      exit_patience: number of consecutive layers whose answer agrees with the layer before, after which the prediction
        of an example stops; None if no example stops early.

    Raises:
      ValueError: there is no such pooling, a number is out of range, or there is a patience and no exit heads.
    """

    exit_heads: bool = boolean(is_compared=False)
    exit_pooling: str = choice(POOLER, POOLINGS, is_compared=False)
    pooling: str = choice(POOLER, POOLINGS)
    exit_patience: int | None = whole_number(None, bounds.LAYERS, is_stored=False)

    def __init__(self, config: AlbertConfig, *arguments, **keywords):
        super().__init__(config, *arguments, **keywords)
        for name in () if self.uses_pooler else ("exit_pooling", "pooling"):
            if getattr(self, name) != POOLER:
                raise ValueError(f"{name} is for models with one vector for a text. Received: {getattr(self, name)!r}")
        if self.exit_patience is not None:
            if not self.exit_heads:
                raise ValueError("exit_patience needs a model that was trained with exit heads (--exit_heads). "
                                 f"Received: exit_patience={self.exit_patience} for a model without them")
            bounds.Bounds(1, config.num_hidden_layers).check("exit_patience", self.exit_patience)

    def add_layers(self, scope: str, num_outputs: int) -> None:
        """Makes the encoder and all output layers. `scope` is that of the last one's variables in the release."""
        size, layers, stddev = self.config.hidden_size, self.config.num_hidden_layers, self.config.initializer_range
        if self.exit_heads and layers < 2:
            raise ValueError("exit heads need a model of at least 2 layers. Received: num_hidden_layers=1")
        self.albert = AlbertModel(self.config)
        self.classifier = OutputDense(scope, size, num_outputs, stddev)
        self.exits = [OutputDense(f"{EXIT_HEADS}{number}/", size, num_outputs, stddev)
                      for number in range(1, layers if self.exit_heads else 1)]
        self.built = True

    def rows_of(self, inputs) -> tuple[dict, Any]:
        """The encoder's inputs [batch * n, seq], and n, the rows of an example; None instead of 1 if there is one."""
        return dict(zip(ENCODER_INPUTS, required(inputs, ENCODER_INPUTS, "[batch, seq]"))), None

    def logits_of(self, head: OutputDense, outputs: dict, input_mask: tf.Tensor, count, dropout: Dropouts) -> tf.Tensor:
        """The logits [batch, ...] that a head computes from AlbertModel.outputs_of a layer.

        Args:
          outputs: pooled_output and sequence_output of batch * n rows.
          input_mask: int32 [batch * n, seq].
          count: the second result of rows_of.
        """
        raise NotImplementedError

    def agreement(self, before: tf.Tensor, logits: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
        """Whether the answers of two layers agree, bool [batch]: by default, whether they are the same label."""
        return tf.equal(tf.argmax(logits, -1), tf.argmax(before, -1))

    def call(self, inputs, training=False):
        """The outputs that the class describes."""
        dropout = dropouts(inputs, training)
        rows, count = self.rows_of(inputs)
        if self.exit_patience is not None and not training:
            return predict_early(self, self.exit_patience, rows, count)
        outputs = self.albert.encode(rows, dropout)
        logits = self._logits(self.classifier, self.pooling, outputs, rows["input_mask"], count, dropout)
        if not self.exit_heads:
            return dict(outputs, logits=logits)
        inner = self.config.inner_group_num  # a head follows the last inner group of a layer
        exit_logits = [self.logits_after(number, layer_output, rows["input_mask"], count, dropout)
                       for number, layer_output in enumerate(outputs["encoder_outputs"][inner - 1:-1:inner], 1)]
        return dict(outputs, logits=logits, exit_logits=[*exit_logits, logits])

    def logits_after(self, number: int, layer_output: tf.Tensor, input_mask: tf.Tensor, count, dropout: Dropouts):
        """The logits [batch, ...] after layer `number` of 1 to num_hidden_layers, whose output is [rows, seq, H]."""
        head, pooling = self.classifier, self.pooling
        if number < self.config.num_hidden_layers:
            head, pooling = self.exits[number - 1], self.exit_pooling
        return self._logits(head, pooling, self.albert.outputs_of(layer_output), input_mask, count, dropout)

    def _logits(self, head: OutputDense, pooling: str, outputs: dict, input_mask: tf.Tensor, count, dropout: Dropouts):
        if pooling != POOLER:
            outputs = dict(outputs, pooled_output=pooled(outputs, input_mask, pooling))
        return self.logits_of(head, outputs, input_mask, count, dropout)

    def head_outputs(self, outputs):
        """The outputs of the head, with the number of layers of a prediction with a patience."""
        used = {NUM_LAYERS_USED: outputs[NUM_LAYERS_USED]} if NUM_LAYERS_USED in outputs else {}
        return dict(super().head_outputs(outputs), **used)

    def exported_outputs(self, outputs):
        """The outputs that an export has. Raises ValueError for a model with a patience."""
        if NUM_LAYERS_USED in outputs:
            raise ValueError("exit_patience is for the Keras model: load the model with num_layers for an export")
        return super().exported_outputs(outputs)


def loss_over_exits(loss: Callable, outputs: dict, *arguments) -> tuple[tf.Tensor, dict]:
    """The mean of the losses of all layers, each weighted by its number from 1 (Zhou et al., 2020, section 3).

    Args:
      loss: function of outputs and the arguments that returns a loss, a scalar, and its terms by name.
      outputs: the outputs of a model. Without exit heads, the result is their loss.

    Returns:
      The mean, and the terms of the last layer's loss.
    """
    total, terms = loss(outputs, *arguments)
    if "exit_logits" not in outputs:
        return total, terms
    earlier = [loss(dict(outputs, logits=logits), *arguments)[0] for logits in outputs["exit_logits"][:-1]]
    weighted = [number * each for number, each in enumerate([*earlier, total], 1)]
    return tf.add_n(weighted) / sum(range(1, len(weighted) + 1)), terms


class _Remaining(NamedTuple):
    """The examples that are still computed, and the results of the others.

    Args:
      x: the output of the last layer, [examples * n * seq, H].
      input_mask: [examples * n, seq].
      index: of each example in the batch, int32 [examples].
      logits: of the last layer, [examples, ...].
      agreements: consecutive layers that agreed, int32 [examples].
      results: the logits of the examples that have finished, [batch, ...].
      num_layers_used: of the examples that have finished, int32 [batch].
    """

    x: tf.Tensor
    input_mask: tf.Tensor
    index: tf.Tensor
    logits: tf.Tensor
    agreements: tf.Tensor
    results: tf.Tensor
    num_layers_used: tf.Tensor


def predict_early(model: EarlyExitModel, patience: int, rows: dict, count) -> dict[str, tf.Tensor]:
    """Computes layer by layer, for fewer and fewer examples.

    Args:
      rows, count: the results of rows_of.

    Returns:
      logits, [batch, ...], and num_layers_used, int32 [batch].
    """
    if devices.is_tpu():
        raise ValueError("exit_patience needs batches that become smaller, which a TPU cannot compute: use num_layers")
    albert, no_dropout = model.albert, Dropouts(None)
    num_layers = albert.config.num_hidden_layers
    _, embedding_output, input_mask = albert.embed(rows, no_dropout)
    x = tf.reshape(albert.encoder.projected(embedding_output), [-1, albert.config.hidden_size])
    first, *others = _layers(albert)

    def answers(number: int, x: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
        shape = tf.concat([tf.shape(input_mask), [albert.config.hidden_size]], axis=0)
        return model.logits_after(number, tf.reshape(x, shape), input_mask, count, no_dropout)

    x = first(x, input_mask)
    first_logits = answers(1, x, input_mask)
    zeros = tf.zeros(tf.shape(first_logits)[:1], tf.int32)
    remaining = _Remaining(x, input_mask, index=tf.range(tf.size(zeros)), logits=first_logits, agreements=zeros,
                           results=first_logits, num_layers_used=zeros + 1)
    for number, layer in enumerate(others, 2):

        def step(remaining: _Remaining, number: int = number, layer: Callable = layer) -> _Remaining:
            x = layer(remaining.x, remaining.input_mask)
            after = answers(number, x, remaining.input_mask)
            agrees = model.agreement(remaining.logits, after, remaining.input_mask)
            agreements = tf.where(agrees, remaining.agreements + 1, 0)
            remaining = remaining._replace(x=x, logits=after, agreements=agreements)
            if number == num_layers:
                return _finished(remaining, number)
            if number <= patience:
                return remaining
            return _without(remaining, agreements >= patience, number, 1 if count is None else count)

        # The first examples can stop after layer patience + 1.
        if number <= patience + 1:
            remaining = step(remaining)
        else:
            remaining = tf.cond(tf.size(remaining.index) > 0, lambda step=step, remaining=remaining: step(remaining),
                                lambda remaining=remaining: remaining)
    return {"logits": remaining.results, NUM_LAYERS_USED: remaining.num_layers_used}


def _layers(albert: AlbertModel) -> list[Callable]:
    """Each layer, with all of its inner groups, as a function of x [rows * seq, H] and input_mask [rows, seq]."""
    encoder, config = albert.encoder, albert.config
    blocks, inner = list(encoder.blocks_in_order()), config.inner_group_num
    # If layers share weights, these are made once. Otherwise they are made where a layer is computed, if it is.
    is_shared = min(config.num_attention_blocks, config.num_ffn_blocks) < len(blocks) and not encoder.has_layer_weights
    shared = encoder.weights_for_step() if is_shared else None

    def weights(number: int, a: int, f: int) -> tuple:
        if shared:
            return shared[0][a], shared[1][f]
        return encoder.attention_blocks[a].weights_for_step(number), encoder.ffn_blocks[f].weights_for_step(number)

    def layer(first: int) -> Callable:
        def apply(x: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
            additive_mask = masked_scores(input_mask)
            for number, (a, f) in enumerate(blocks[first:first + inner], first):
                x = encoder.layer(a, f, additive_mask, Dropouts(None), number)(x, weights(number, a, f))
            return x

        return apply

    return [layer(first) for first in range(0, len(blocks), inner)]


def _finished(remaining: _Remaining, number: int) -> _Remaining:
    """All examples have the result of layer `number`."""
    index = remaining.index[:, None]
    used = tf.fill(tf.shape(remaining.index), number)
    return remaining._replace(
        results=tf.tensor_scatter_nd_update(remaining.results, index, remaining.logits),
        num_layers_used=tf.tensor_scatter_nd_update(remaining.num_layers_used, index, used))


def _without(remaining: _Remaining, is_finished: tf.Tensor, number: int, count) -> _Remaining:
    """The examples that have not finished. The others have the result of layer `number`."""
    # All examples get the result of this layer; those that continue get another one later.
    remaining = _finished(remaining, number)
    kept = tf.where(~is_finished)[:, 0]

    def kept_rows(tensor: tf.Tensor, rows) -> tf.Tensor:
        """[examples * rows, size] without the examples that have finished."""
        size = tensor.shape[-1] or tf.shape(tensor)[-1]
        examples = tf.reshape(tensor, [tf.size(is_finished), rows, size])
        return tf.reshape(tf.gather(examples, kept), [-1, size])

    return remaining._replace(
        x=kept_rows(remaining.x, count * tf.shape(remaining.input_mask)[1]),
        input_mask=kept_rows(remaining.input_mask, count),
        **{name: tf.gather(getattr(remaining, name), kept) for name in ("index", "logits", "agreements")})

"""The loop of predictions with early exit (see early_exit.py): layer by layer, for fewer and fewer examples."""

from __future__ import annotations

import collections
from typing import Any, Callable, NamedTuple, Sequence

import tensorflow as tf

from albert_tf import devices
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.dropout import Dropouts
from albert_tf.modeling.encoder import masked_scores

NUM_LAYERS_USED = "num_layers_used"


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


def predict_early(
    albert: AlbertModel, rows: dict, count, logits: Callable, agreement: Callable, patience: int, num_layers: int
) -> dict[str, tf.Tensor]:
    """Computes layer by layer, for fewer and fewer examples.

    Args:
      albert: the encoder.
      rows: its inputs, [batch * n, seq] each.
      count: n, the rows of an example.
      logits: function of a layer's number (from 1), its output [rows, seq, H] and the input_mask [rows, seq] that
        returns the logits [examples, ...].
      agreement: function of the logits of two layers and the input_mask that returns bool [examples].
      patience: number of layers that must agree with the layer before. With num_layers, no example stops early, and the
        graph has static shapes.
      num_layers: number of layers to use.

    Returns:
      logits, [batch, ...], and num_layers_used, int32 [batch].

    Raises:
      ValueError: examples can stop early, and the device is a TPU, which needs static shapes.
    """
    if patience < num_layers and devices.is_tpu():
        raise ValueError("exit_patience needs batches that become smaller, which a TPU cannot compute: use num_layers")
    no_dropout = Dropouts(None)
    _, embedding_output, input_mask = albert.embed(rows, no_dropout)
    x = tf.reshape(albert.encoder.projected(embedding_output), [-1, albert.config.hidden_size])
    first, *others = _layers(albert, no_dropout)[:num_layers]

    def answers(number: int, x: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
        shape = tf.concat([tf.shape(input_mask), [albert.config.hidden_size]], axis=0)
        return logits(number, tf.reshape(x, shape), input_mask)

    x = first(x, input_mask)
    first_logits = answers(1, x, input_mask)
    zeros = tf.zeros(tf.shape(first_logits)[:1], tf.int32)
    remaining = _Remaining(x, input_mask, index=tf.range(tf.size(zeros)), logits=first_logits, agreements=zeros,
                           results=first_logits, num_layers_used=zeros + 1)
    for number, layer in enumerate(others, 2):

        def step(remaining: _Remaining, number: int = number, layer: Callable = layer) -> _Remaining:
            x = layer(remaining.x, remaining.input_mask)
            after = answers(number, x, remaining.input_mask)
            agrees = agreement(remaining.logits, after, remaining.input_mask)
            agreements = tf.where(agrees, remaining.agreements + 1, 0)
            remaining = remaining._replace(x=x, logits=after, agreements=agreements)
            if number == num_layers:
                return _finished(remaining, number)
            return _without(remaining, agreements >= patience, number, count) if number > patience else remaining

        # The first examples can stop after layer patience + 1.
        if number <= patience + 1:
            remaining = step(remaining)
        else:
            remaining = tf.cond(tf.size(remaining.index) > 0, lambda step=step, remaining=remaining: step(remaining),
                                lambda remaining=remaining: remaining)
    return {"logits": remaining.results, NUM_LAYERS_USED: remaining.num_layers_used}


def _layers(albert: AlbertModel, dropout: Dropouts) -> list[Callable]:
    """Each layer, with all of its inner groups, as a function of x [rows * seq, H] and input_mask [rows, seq]."""
    encoder = albert.encoder
    blocks, inner = list(encoder.blocks_in_order()), albert.config.inner_group_num
    attention = _weights_of(encoder.attention_blocks, [a for a, _ in blocks], encoder.has_layer_weights)
    ffn = _weights_of(encoder.ffn_blocks, [f for _, f in blocks], encoder.has_layer_weights)

    def layer(first: int) -> Callable:
        def apply(x: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
            additive_mask = masked_scores(input_mask)
            for number, (a, f) in enumerate(blocks[first:first + inner], first):
                x = encoder.layer(a, f, additive_mask, dropout, number)(x, (attention(a, number), ffn(f, number)))
            return x

        return apply

    return [layer(first) for first in range(0, len(blocks), inner)]


def _weights_of(blocks: Sequence, uses: Sequence[int], of_layers: bool) -> Callable[[int, int], Any]:
    """The weights of a block, by its index and the layer: made once if several layers share them, or else by the layer.

    Args:
      blocks: the attention or the feed-forward blocks.
      uses: the index of each layer's block.
      of_layers: whether each layer has weights of its own in any case, since it has adapters.
    """
    if of_layers:
        return lambda index, layer: blocks[index].weights_for_step(layer)
    counts = collections.Counter(uses)
    shared = {index: blocks[index].weights_for_step() for index, count in counts.items() if count > 1}
    return lambda index, layer: shared[index] if index in shared else blocks[index].weights_for_step()


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

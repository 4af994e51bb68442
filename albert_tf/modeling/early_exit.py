"""Early exit: an output after every layer, and predictions that stop when outputs agree (PABEE, Zhou et al., 2020).

A model with exit heads has an output layer for each layer of the encoder. Training sums the losses of all of them (see
loss_over_exits). In a prediction with a patience P, an example counts the consecutive layers whose answer agrees with
that of the layer before; when P have agreed, its answer is that of the current layer, and it leaves the batch (see
exit_loop.py)::

    answers of layers 1 to 6    a  b  b  b  a  a
    agreements                  0  0  1  2  0  1        P = 2 exits after layer 4; P = 3, 4, 5 or 6 never does
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping, Sequence

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.configured_model import ConfiguredModel
from albert_tf.modeling.dropout import Dropouts, dropouts
from albert_tf.modeling.exit_loop import NUM_LAYERS_USED, predict_early
from albert_tf.modeling.layers import OutputDense
from albert_tf.modeling.pooling import POOLER, POOLINGS, pooled
from albert_tf.utils.bounds import Bounds, check_finite, check_one_of

# Scores of two layers that differ by less agree. STS-B's scores are from 0 to 5.
DEFAULT_TOLERANCE = 0.1
# The variables of the head of layer N are SCOPE + "N/output_weights" and "N/output_bias". The last layer has those of
# the model without exit heads, which can therefore read the weights too.
SCOPE = "exit_heads/layer_"


@dataclasses.dataclass(frozen=True)
class EarlyExit:
    """How a model with exit heads predicts. The default is the output of the last layer.

    Args:
      exit_patience: number of consecutive layers whose answer agrees with the layer before, after which an example
        stops; None if no example stops early.
      exit_tolerance: scores of a regression agree if they differ by less; None for DEFAULT_TOLERANCE.
      num_layers: number of layers to use, from the first on; None for all.
    """

    exit_patience: int | None = None
    exit_tolerance: float | None = None
    num_layers: int | None = None

    @property
    def is_used(self) -> bool:
        """Whether predictions can differ from the output of the last layer."""
        return self.exit_patience is not None or self.num_layers is not None

    def replaced_by(self, **values) -> EarlyExit:
        """The same with those of the values that are not None."""
        return dataclasses.replace(self, **{name: value for name, value in values.items() if value is not None})

    def check(self, config: AlbertConfig, has_exit_heads: bool, is_regression: bool) -> None:
        """Checks the values for a model.

        Raises:
          ValueError: a value is out of range, or the model has no exit heads or no use for a tolerance.
        """
        for name, value in dataclasses.asdict(self).items():
            if value is not None and not has_exit_heads:
                raise ValueError(f"{name} needs a model that was trained with exit heads (--exit_heads). "
                                 f"Received: {name}={value} for a model without them")
        if self.num_layers is not None:
            Bounds(1, config.num_hidden_layers).check("num_layers", self.num_layers)
        if self.exit_patience is not None:
            Bounds(1, self.num_layers or config.num_hidden_layers).check("exit_patience", self.exit_patience)
        if self.exit_tolerance is not None:
            if not is_regression:
                raise ValueError("exit_tolerance is for regression: labels agree only if they are equal. "
                                 f"Received: exit_tolerance={self.exit_tolerance}")
            check_finite("exit_tolerance", self.exit_tolerance, 0.0)


class ExitHeads(keras.layers.Layer):
    """The output layers of all layers but the last, whose output layer is the model's own.

    Args:
      config: the model's config.
      num_outputs: number of logits.

    Raises:
      ValueError: the model has a single layer.
    """

    def __init__(self, config: AlbertConfig, num_outputs: int):
        super().__init__(autocast=False)
        if config.num_hidden_layers < 2:
            raise ValueError("exit heads need a model of at least 2 layers. Received: num_hidden_layers=1")
        self.layers = [OutputDense(f"{SCOPE}{number}/", config.hidden_size, num_outputs, config.initializer_range)
                       for number in range(1, config.num_hidden_layers)]
        self.built = True


class EarlyExitModel(ConfiguredModel):
    """Base class of the models that can have exit heads.

    A subclass has `albert`, an AlbertModel, and `classifier`, the output layer of the last layer, makes the exit heads
    with `add_exit_heads`, and defines `rows_of` and `logits_of`, and `agreement` if its logits are not [batch, labels].

    Call it with the keyword arguments exit_patience, exit_tolerance and num_layers to predict with others than those
    of the constructor. With exit heads the outputs also have exit_logits, the list of the logits after each layer. With
    a patience or a number of layers, the outputs are logits and num_layers_used, int32 [batch], alone. Training uses
    all layers.

    Args:
      config, max_seq_length: see ConfiguredModel.
      exit_heads: whether there is an output after every layer.
      exit_pooling: one of POOLINGS: which vector of a text the outputs before the last layer read. "pooler" is that of
        PABEE; "mean" of the tokens learns sooner where layers have not been trained to gather a text in [CLS].
      exit_patience, exit_tolerance, num_layers: see EarlyExit.

    Raises:
      ValueError: there is no such exit_pooling; or see EarlyExit.check.
    """

    EXIT_ARGUMENTS = ("exit_heads", "exit_pooling", *(field.name for field in dataclasses.fields(EarlyExit)))

    def __init__(self, config: AlbertConfig, max_seq_length: int | None = None, exit_heads: bool = False,
                 exit_pooling: str = POOLER, exit_patience: int | None = None, exit_tolerance: float | None = None,
                 num_layers: int | None = None, **kwargs):
        super().__init__(config, max_seq_length, **kwargs)
        check_one_of("exit_pooling", exit_pooling, POOLINGS)
        if exit_pooling != POOLER and not self.uses_pooler:
            raise ValueError(f"exit_pooling is for models with one vector for a text. Received: {exit_pooling!r}")
        self.exit_heads, self.exit_pooling = exit_heads, exit_pooling
        self.exit_patience, self.exit_tolerance, self.num_layers = exit_patience, exit_tolerance, num_layers

    @property
    def is_regression(self) -> bool:
        """Whether the logit is a score."""
        return False

    @property
    def early_exit(self) -> EarlyExit:
        """The constructor's arguments for predictions."""
        return EarlyExit(self.exit_patience, self.exit_tolerance, self.num_layers)

    def add_exit_heads(self, num_outputs: int) -> None:
        """Makes the exit heads if there are any, and checks the arguments. The constructor calls it last."""
        self.early_exit.check(self.config, self.exit_heads, self.is_regression)
        if self.exit_heads:
            self.exits = ExitHeads(self.config, num_outputs)

    def rows_of(self, inputs) -> tuple[dict, Any]:
        """The encoder's inputs [batch * n, seq], and n, the rows of an example; None instead of 1 if there is one."""
        raise NotImplementedError

    def logits_of(self, head: OutputDense, outputs: dict, input_mask: tf.Tensor, count, dropout: Dropouts) -> tf.Tensor:
        """The logits [batch, ...] that a head computes from AlbertModel.outputs_of a layer.

        Args:
          head: the output layer.
          outputs: pooled_output and sequence_output of batch * n rows.
          input_mask: int32 [batch * n, seq].
          count: the second result of rows_of.
          dropout: the dropouts of the call.
        """
        raise NotImplementedError

    def agreement(self, before: tf.Tensor, logits: tf.Tensor, input_mask: tf.Tensor, tolerance: float) -> tf.Tensor:
        """Whether the answers of two layers agree, bool [batch]: the same label, or for regression nearly the score."""
        if self.is_regression:
            return tf.abs(logits - before)[:, 0] < tolerance
        return tf.equal(tf.argmax(logits, -1), tf.argmax(before, -1))

    def call(self, inputs, training=False, exit_patience=None, exit_tolerance=None, num_layers=None):
        """The outputs that the class describes."""
        exit_options = self.early_exit.replaced_by(exit_patience=exit_patience, exit_tolerance=exit_tolerance,
                                                   num_layers=num_layers)
        exit_options.check(self.config, self.exit_heads, self.is_regression)
        dropout = dropouts(inputs, training)
        rows, count = self.rows_of(inputs)
        if exit_options.is_used and not training:
            return self._predicted_early(rows, count, exit_options, dropout)
        outputs = self.albert.encode(rows, dropout)
        logits = self.logits_of(self.classifier, outputs, rows["input_mask"], count, dropout)
        if not self.exit_heads:
            return dict(outputs, logits=logits)
        inner = self.config.inner_group_num  # a head follows the last inner group of a layer
        exit_logits = [self._exit_logits(number, layer_output, rows["input_mask"], count, dropout)
                       for number, layer_output in enumerate(outputs["encoder_outputs"][inner - 1:-1:inner], 1)]
        return dict(outputs, logits=logits, exit_logits=[*exit_logits, logits])

    def _exit_logits(self, number: int, layer_output: tf.Tensor, input_mask: tf.Tensor, count, dropout: Dropouts):
        """The logits [batch, ...] after layer `number` of 1 to num_hidden_layers, whose output is [rows, seq, H]."""
        outputs = self.albert.outputs_of(layer_output)
        if number == self.config.num_hidden_layers:
            return self.logits_of(self.classifier, outputs, input_mask, count, dropout)
        if self.exit_pooling != POOLER:
            outputs["pooled_output"] = pooled(outputs, input_mask, self.exit_pooling)
        return self.logits_of(self.exits.layers[number - 1], outputs, input_mask, count, dropout)

    def head_outputs(self, outputs):
        """The outputs of the head, with the number of layers if it is known."""
        return dict(super().head_outputs(outputs), **num_layers_used(outputs))

    def _compiled_outputs(self, outputs, labels):
        """The arguments of losses and metrics, which have no use for the number of layers."""
        return super()._compiled_outputs({name: outputs[name] for name in self.HEAD_OUTPUTS}, labels)

    def _predicted_early(self, rows: dict, count, exit_options: EarlyExit, dropout: Dropouts) -> dict:
        tolerance = DEFAULT_TOLERANCE if exit_options.exit_tolerance is None else exit_options.exit_tolerance

        def logits(number: int, layer_output: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
            return self._exit_logits(number, layer_output, input_mask, count, dropout)

        def agreement(before: tf.Tensor, after: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
            return self.agreement(before, after, input_mask, tolerance)

        num_layers = exit_options.num_layers or self.config.num_hidden_layers
        return predict_early(self.albert, rows, 1 if count is None else count, logits, agreement,
                             exit_options.exit_patience or num_layers, num_layers)


def num_layers_used(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The output with this name, int32 [batch], of a model that predicts with early exit; empty for other outputs."""
    return {NUM_LAYERS_USED: outputs[NUM_LAYERS_USED]} if NUM_LAYERS_USED in outputs else {}


def loss_over_exits(loss_of: Callable[[tf.Tensor], tf.Tensor], outputs: dict) -> tf.Tensor:
    """The mean of the losses of all layers, each weighted by its number from 1 (Zhou et al., 2020, section 3).

    Args:
      loss_of: the loss of logits, a scalar.
      outputs: the outputs of a model. Without exit heads, the result is the loss of its logits.
    """
    exit_logits: Sequence[tf.Tensor] | None = outputs.get("exit_logits")
    if exit_logits is None:
        return loss_of(outputs["logits"])
    weighted = [number * loss_of(logits) for number, logits in enumerate(exit_logits, 1)]
    return tf.add_n(weighted) / sum(range(1, len(exit_logits) + 1))

"""AlbertModel (embeddings, encoder, pooler; Lan et al., 2020, section 3.1), and ConfiguredModel, the base of models.

ConfiguredModel makes Keras' save, load, clone, compile and fit work.
"""

from __future__ import annotations

import inspect
from typing import Any, Mapping, TypeAlias

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import Encoder, starts_of_tokens
from albert_tf.modeling.layers import LayerNorm, ReleaseDense, ReleaseLayer
from albert_tf.modeling.operations import Dropouts, dropouts
from albert_tf.modeling.settings import EncoderSettings, Settings

# Labels, or weights of examples: one value for all outputs, or by the output's name.
Labels: TypeAlias = "tf.Tensor | Mapping[str, tf.Tensor] | None"


class ConfiguredModel(keras.Model):
    """A Keras model that is built from an AlbertConfig. The constructor makes all of its variables.

    A subclass is decorated with `register`, lists the outputs of its head in HEAD_OUTPUTS, and names the class of its
    settings. Its constructor takes settings by their names; further arguments are attributes of a model.

    In compile and fit, a loss or metric is applied to the head's output. For a head with several outputs, losses,
    metrics, labels and sample weights are dicts by the output's name, or one value for all outputs. predict and export
    return the head's outputs only.
    """

    HEAD_OUTPUTS: tuple[str, ...] = ()
    SETTINGS: type[Settings]
    # Whether the outputs of the head depend on the pooler.
    uses_pooler: bool = False

    def __init__(self, config: AlbertConfig, **keywords: Any):
        settings = {name: keywords.pop(name) for name in self.SETTINGS.argument_names() if name in keywords}
        super().__init__(**keywords)
        self.config, self.settings = config, self.SETTINGS(**settings)

    @classmethod
    def argument_names(cls) -> tuple[str, ...]:
        """The names of the constructor's arguments besides the config, including the settings."""
        own = [name for name, each in inspect.signature(cls).parameters.items() if each.kind != each.VAR_KEYWORD]
        return tuple(dict.fromkeys([*own[1:], *cls.SETTINGS.argument_names()]))

    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments besides the config, by name."""
        settings = self.SETTINGS.names()
        return {name: getattr(self.settings if name in settings else self, name) for name in self.argument_names()}

    @property
    def row_length(self) -> int:
        """The largest number of tokens of a row when raw text is read."""
        return self.settings.row_length(self.config)

    def build(self, input_shape: object = None) -> None:
        """Does nothing, since the constructor has made all variables."""
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, for Keras."""
        return dict(name=self.name, trainable=self.trainable, config=self.config.to_dict(), **self.arguments())

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: object = None) -> ConfiguredModel:
        """The model that `get_config` describes."""
        arguments = dict(config)
        trainable = arguments.pop("trainable", True)
        model = cls(AlbertConfig.from_dict(arguments.pop("config")), **arguments)
        model.trainable = trainable
        return model

    def input_specs(
        self, batch_size: int | None = None, seq_length: int | None = None, num_predictions: int | None = None
    ) -> dict[str, tf.TensorSpec]:
        """Names, shapes and types of the inputs for predictions. All are int32.

        Args:
          batch_size: number of examples; None for any number.
          seq_length: tokens of each row; None for any number.
          num_predictions: masked_lm_positions of each example (AlbertPretrainer only); None for any number.
        """
        return {name: tf.TensorSpec([batch_size, seq_length], tf.int32, name) for name in ENCODER_INPUTS}

    def export(self, filepath: str, **kwargs: Any) -> None:
        """Writes a SavedModel. Its endpoint `serve` maps a dict of inputs of any length to the head's outputs."""
        archive = keras.export.ExportArchive()
        archive.track(self)
        archive.add_endpoint("serve", lambda inputs: self.exported_outputs(self(inputs)), [self.input_specs()])
        archive.write_out(filepath, **kwargs)

    def __call__(self, inputs: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The same as in Keras. The values of `inputs` may also be numbers or lists."""
        if not isinstance(inputs, Mapping):
            raise ValueError(f"the model takes a dict of {', '.join(ENCODER_INPUTS)}, ..., which the tokenizer makes "
                             f"of texts. Received: {type(inputs).__name__}")
        return super().__call__({name: value if hasattr(value, "shape") else tf.convert_to_tensor(value)
                                 for name, value in inputs.items()}, *args, **kwargs)

    def predict_step(self, data: Any) -> dict[str, tf.Tensor]:
        """The same as in Keras, but returns the outputs of the head only."""
        return self.head_outputs(super().predict_step(data))

    def compute_loss(self, x: Mapping[str, tf.Tensor], y: Labels, y_pred: dict[str, tf.Tensor],
                     sample_weight: Labels = None) -> tf.Tensor:
        """The same as in Keras, for the outputs of the head."""
        return super().compute_loss(x, y, self._compiled_outputs(y_pred, y), sample_weight)

    def compute_metrics(self, x: Mapping[str, tf.Tensor], y: Labels, y_pred: dict[str, tf.Tensor],
                        sample_weight: Labels) -> dict[str, tf.Tensor]:
        """The same as in Keras, for the outputs of the head."""
        return super().compute_metrics(x, y, self._compiled_outputs(y_pred, y), sample_weight)

    def head_outputs(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The outputs of the head, without the encoder's outputs."""
        return {name: outputs[name] for name in self.HEAD_OUTPUTS if name in outputs}

    def exported_outputs(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The outputs of the head that an export has."""
        return self.head_outputs(outputs)

    def _compiled_outputs(self, outputs: dict[str, tf.Tensor], labels: Labels) -> dict[str, tf.Tensor] | tf.Tensor:
        """The arguments of losses and metrics: a dict, or the tensor itself for a single output without a name."""
        outputs = self.head_outputs(outputs)
        are_named = isinstance(labels, dict) or isinstance(self.loss, dict)
        return outputs if len(outputs) > 1 or are_named else next(iter(outputs.values()))


def copy_of(model: ConfiguredModel) -> ConfiguredModel:
    """A model with the same arguments and weights, in the precision of the global policy and without an optimizer.

    Weights are found by their names, since a frozen layer within others changes the order of `model.weights`.
    """
    weights = {weight.name: weight for weight in model.weights}
    copy = type(model).from_config(model.get_config())
    for weight in copy.weights:
        weight.assign(weights[weight.name])
    return copy


def register(model_class: type) -> type:
    """Class decorator that registers a model class, so that Keras finds it when it loads a saved model."""
    return keras.saving.register_keras_serializable(package="albert_tf")(model_class)


ENCODER_INPUTS = ("input_ids", "input_mask", "segment_ids")


def as_rows(inputs: Mapping[str, tf.Tensor], several: str) -> tuple[dict[str, tf.Tensor], int | tf.Tensor | None]:
    """The encoder's inputs, [batch, seq] or [batch, n, seq], as [batch * n, seq], and n (None if there is none)."""
    has_several = "input_ids" in inputs and tf.convert_to_tensor(inputs["input_ids"]).shape.rank == 3
    tensors = required(inputs, ENCODER_INPUTS, f"[batch, {several}, seq]" if has_several else "[batch, seq]")
    if not has_several:
        return dict(zip(ENCODER_INPUTS, tensors)), None
    static, shape = tensors[0].shape, tf.shape(tensors[0])
    count, seq = (shape[axis] if static[axis] is None else static[axis] for axis in (1, 2))
    return {name: tf.reshape(tensor, [-1, seq]) for name, tensor in zip(ENCODER_INPUTS, tensors)}, count


def side_by_side(rows: tf.Tensor, count: int | tf.Tensor) -> tf.Tensor:
    """The reverse of as_rows, for a tensor with static sizes behind the rows: [batch * n, ...] to [batch, n, ...]."""
    return tf.reshape(rows, [-1, count, *rows.shape[1:]])


def required(inputs: Mapping[str, tf.Tensor], names: tuple[str, ...], shape: str) -> list[tf.Tensor]:
    """The tensors with these names, which must have one shape, with the rank of one in words, such as [batch, seq].

    They are integers; Keras 3 builds a model under a distribution strategy with their means, which are floats.
    """
    missing = [name for name in names if name not in inputs]
    if missing:
        raise ValueError(f"missing input: {', '.join(missing)}. Received: {', '.join(inputs)}")
    tensors = [tf.convert_to_tensor(inputs[name]) for name in names]
    for name, tensor in zip(names, tensors):
        if tensor.shape.rank != shape.count(",") + 1 or not tensor.shape.is_compatible_with(tensors[0].shape):
            like = f"; {names[0]} of shape {tensors[0].shape}" if tensor is not tensors[0] else ""
            raise ValueError(f"{name} must be {shape}. Received: {name} of shape {tensor.shape}{like}")
    return [tf.cast(tensor, tf.int32) if tensor.dtype.is_floating else tensor for tensor in tensors]


class Embeddings(ReleaseLayer):
    """The sum of word, segment and position embeddings, with LayerNorm and dropout; the encoder projects it to H."""

    def __init__(self, config: AlbertConfig):
        super().__init__()
        self.config = config
        self.word_embeddings = self._table("word_embeddings", config.vocab_size)
        self.token_type_embeddings = self._table("token_type_embeddings", config.type_vocab_size)
        self.position_embeddings = self._table("position_embeddings", config.max_position_embeddings)
        self.layer_norm = LayerNorm("bert/embeddings/LayerNorm", config.embedding_size, config.layer_norm_eps)

    def _table(self, name: str, rows: int) -> tf.Variable:
        return self.variable(f"bert/embeddings/{name}", [rows, self.config.embedding_size],
                             self.config.initializer_range)

    def weights_for_step(self) -> tf.Tensor:
        """The word table in the compute dtype, [V, E], for the masked-LM head."""
        return self.in_compute_dtype(self.word_embeddings)

    def call(self, input_ids: tf.Tensor, segment_ids: tf.Tensor, dropouts: Dropouts,
             text_starts: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """word_embedding_output and embedding_output, [batch, seq, E] each, for ids, int32 [batch, seq]."""
        words = tf.gather(self.word_embeddings, input_ids)  # [batch, seq, E]
        # One-hot, as the release does on TPU: the table has only two rows, and the gradient is dense.
        segments = tf.matmul(tf.one_hot(segment_ids, self.config.type_vocab_size), self.token_type_embeddings)
        seq = tf.shape(input_ids)[1]
        if text_starts is None:
            positions = self.position_embeddings[:seq]
        else:  # padding can be longer than a text
            indices_in_text = tf.range(seq) - starts_of_tokens(text_starts, seq)
            last = self.config.max_position_embeddings - 1
            positions = tf.gather(self.position_embeddings, tf.minimum(indices_in_text, last))
        summed = self.layer_norm(words + segments + positions, dropouts.training)
        return self.in_compute_dtype(words), dropouts(summed, self.config.hidden_dropout_prob)


@register
class AlbertModel(ConfiguredModel):
    """ALBERT without a head (Lan et al., 2020; release: modeling.AlbertModel).

    The compute dtype is taken from the global Keras policy when the model is made. Variables are always float32.

    Call it with a dict of input_ids, input_mask (1 for tokens, 0 for padding) and segment_ids, int32 [batch, seq] each.
    For repeatable dropout in training, add dropout_seed, int32 [2]. For rows of several texts, add text_starts, int32
    [batch, texts + 1]: the index of each text's first token, then, once or more, the index of the first padding. A
    token attends to the tokens of its text alone. Positions begin with 0 in each text, so rows can be longer than
    max_position_embeddings. The result is a dict::

      pooled_output            [batch, H]; with text_starts [batch * texts, H]
      sequence_output          [batch, seq, H]
      encoder_outputs          a list of [batch, seq, H], one per layer (and inner group)
      embedding_output, word_embedding_output  [batch, seq, E]

    Attributes:
      gradient_checkpointing: whether training keeps only the input of each layer in memory and computes the layer again
        for its gradient. Default: False.

    Raises:
      ValueError: an input is missing or has another shape, or the sequence is longer than max_position_embeddings. The
        length of a text in a row of several is not checked.

    Example::

      model = AlbertModel(AlbertConfig.preset("albert_base_v2"))
      pooled = model(dict(input_ids=ids, input_mask=mask, segment_ids=segments))["pooled_output"]
    """

    HEAD_OUTPUTS = ("pooled_output", "sequence_output")
    SETTINGS = EncoderSettings

    def __init__(self, config: AlbertConfig, **kwargs: Any):
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

    def exported_outputs(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The outputs that an export has: without pooled_output if the pooler is random."""
        left_out = ("pooled_output",) if self.has_random_pooler else ()
        return {name: value for name, value in self.head_outputs(outputs).items() if name not in left_out}

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        """The outputs above, from a dict of inputs as above. `training` turns dropout on."""
        return self.encode(inputs, dropouts(inputs, training))

    def encode(self, inputs: Mapping[str, tf.Tensor], dropouts: Dropouts) -> dict[str, Any]:
        """The same as `call`, with a Dropouts object that the caller can use for further dropouts."""
        input_ids, input_mask, segment_ids = required(inputs, ENCODER_INPUTS, "[batch, seq]")
        text_starts = inputs.get("text_starts")
        if text_starts is None:
            input_ids = self._checked(input_ids)
        word_embedding_output, embedding_output = self.embeddings(input_ids, segment_ids, dropouts, text_starts)
        encoder_outputs = self.encoder(embedding_output, input_mask, dropouts, text_starts=text_starts,
                                       recompute=self.gradient_checkpointing and dropouts.training)
        return dict(
            self.outputs_of(encoder_outputs[-1], text_starts),
            encoder_outputs=encoder_outputs,
            embedding_output=embedding_output,
            word_embedding_output=word_embedding_output,
        )

    def outputs_of(self, layer_output: tf.Tensor, text_starts: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """pooled_output [batch, H] and sequence_output [batch, seq, H], if a layer with this output is the last one."""
        if text_starts is None:
            first_tokens = layer_output[:, 0]
        else:  # in a full row, the padding begins after the last token
            first = tf.minimum(text_starts[:, :-1], tf.shape(layer_output)[1] - 1)
            first_tokens = tf.reshape(tf.gather(layer_output, first, batch_dims=1), [-1, layer_output.shape[-1]])
        return dict(pooled_output=tf.tanh(self.pooler(first_tokens)), sequence_output=layer_output)

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

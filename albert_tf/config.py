"""AlbertConfig: a model's hyper-parameters, from a JSON file of the release or Hugging Face, or by the size's name."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import reprlib
from typing import Any, Sequence

from albert_tf.utils import bounds
from albert_tf.utils.files import errors_at, read_json_object
from albert_tf.utils.foreign_keys import check_supported
from albert_tf.utils.imports import tensorflow as tf

# The name of the config file next to a checkpoint.
CONFIG_NAME = "albert_config.json"
# By name, the published sizes and the model that comes with the package.
PRESETS = {path.stem: json.loads(path.read_text(encoding="utf-8"))
           for path in sorted(pathlib.Path(__file__).with_name("configs").glob("*.json"))}
SHARING = ("all", "attention", "ffn", "none")
HIDDEN_ACTS = ("gelu", "gelu_exact", "relu", "tanh", "linear")

_WHOLE_NUMBERS = dict(
    vocab_size=bounds.VOCAB_SIZE, embedding_size=bounds.WIDTH, hidden_size=bounds.WIDTH,
    num_hidden_layers=bounds.LAYERS, num_hidden_groups=bounds.LAYERS, num_attention_heads=bounds.WIDTH,
    intermediate_size=bounds.WIDTH, inner_group_num=bounds.LAYERS, max_position_embeddings=bounds.WIDTH,
    type_vocab_size=bounds.WIDTH)
LAYER_NORM_EPS = 1e-12  # the release's
_FRACTIONS = ("layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")

# Transformers has other names: the tanh approximation, which the release calls "gelu", and the exact function.
_ACTS_OF_TRANSFORMERS = {
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast", "gelu_accurate"), "gelu"),
    **dict.fromkeys(("gelu", "gelu_python"), "gelu_exact")}
# Every config.json of transformers has one of these keys.
_OF_TRANSFORMERS = ("model_type", "architectures", "transformers_version")
# What decides the number of weights. A config file without one of these would take the release's xxlarge.
_SIZES = ("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
          "intermediate_size")
_IGNORED_KEYS = frozenset(
    # in the release's files, but not used by its code
    "net_structure_type gap_size num_memory_blocks down_scale_factor layers_to_keep "
    # in Google's bert_config.json: the pooler of its multilingual model
    "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head "
    "pooler_type".split())
# Hyper-parameters that BERT does not have.
_NOT_OF_BERT = ("embedding_size", "num_hidden_groups", "inner_group_num", "cross_layer_sharing")
_DEFAULTS_OF_BERT = dict(hidden_size=768, num_attention_heads=12, intermediate_size=3072, hidden_dropout_prob=0.1,
                         attention_probs_dropout_prob=0.1)


@dataclasses.dataclass(frozen=True)
class AlbertConfig:
    """The hyper-parameters of an ALBERT encoder, with the release's names and defaults.

    Args:
      vocab_size: number of pieces, V.
      embedding_size: width E of the factorized embedding (Lan et al., 2020, section 3.1).
      hidden_size: width H of the encoder.
      num_hidden_layers: number of layers L.
      num_hidden_groups: number of groups of layers. The layers of a group share their parameters.
      num_attention_heads: number of attention heads; it must divide hidden_size.
      intermediate_size: width of the feed-forward block.
      inner_group_num: number of blocks in a group, each applied once per layer.
      hidden_act: "gelu" (the tanh approximation), "gelu_exact", "relu", "tanh" or "linear".
      hidden_dropout_prob: dropout after the embedding, the attention block and the feed-forward block.
      attention_probs_dropout_prob: dropout of the attention probabilities.
      max_position_embeddings: the largest number of tokens of a sequence.
      type_vocab_size: number of segment ids.
      initializer_range: standard deviation of the truncated normal distribution of initial values.
      layer_norm_eps: what each LayerNorm adds to the variance. The release has 1e-12 alone.
      cross_layer_sharing: what layers share (section 3.1 and table 4): "all" (both blocks, within each of
        num_hidden_groups groups), "attention" or "ffn" (only that block, over all layers), or "none".

    Raises:
      ValueError: a value is out of range, or two values contradict each other.
    """

    vocab_size: int
    embedding_size: int = 128
    hidden_size: int = 4096
    num_hidden_layers: int = 12
    num_hidden_groups: int = 1
    num_attention_heads: int = 64
    intermediate_size: int = 16384
    inner_group_num: int = 1
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = LAYER_NORM_EPS
    cross_layer_sharing: str = "all"

    def __post_init__(self) -> None:
        for name, allowed in _WHOLE_NUMBERS.items():
            allowed.check(name, getattr(self, name))
        for name in _FRACTIONS:
            value = getattr(self, name)  # NaN is not between 0 and 1
            _require(isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1,
                     f"{name} must be a number of at least 0 and below 1", name, value)
        _require(self.layer_norm_eps > 0, "layer_norm_eps must be above 0", "layer_norm_eps", self.layer_norm_eps)
        _require(self.hidden_act in HIDDEN_ACTS, f"hidden_act must be one of {', '.join(HIDDEN_ACTS)}",
                 "hidden_act", self.hidden_act)
        _require(self.cross_layer_sharing in SHARING, f"cross_layer_sharing must be one of {', '.join(SHARING)}",
                 "cross_layer_sharing", self.cross_layer_sharing)
        _require(self.hidden_size % self.num_attention_heads == 0,
                 f"num_attention_heads must divide hidden_size {self.hidden_size}",
                 "num_attention_heads", self.num_attention_heads)
        _require(self.num_hidden_groups <= self.num_hidden_layers,
                 f"num_hidden_groups must be at most num_hidden_layers {self.num_hidden_layers}",
                 "num_hidden_groups", self.num_hidden_groups)
        _require(self.num_hidden_layers * self.inner_group_num <= bounds.LAYERS.upper,
                 f"num_hidden_layers {self.num_hidden_layers} times inner_group_num must be at most "
                 f"{bounds.LAYERS.upper:,}", "inner_group_num", self.inner_group_num)
        _require(self.cross_layer_sharing == "all" or self.num_hidden_groups == 1,
                 f"with cross_layer_sharing {self.cross_layer_sharing!r}, num_hidden_groups must be 1",
                 "num_hidden_groups", self.num_hidden_groups)

    @classmethod
    def from_dict(cls, values: dict, is_bert: bool = False) -> AlbertConfig:
        """Makes a config of a parsed JSON file: the release's, transformers' (model_type "albert" or "bert") or ours.

        BERT is an ALBERT that shares no weights and does not factorize its embedding (Lan et al., 2020, section 3.1).

        Args:
          values: the JSON object.
          is_bert: whether it is a BERT even without a model_type, as in google-research/bert's bert_config.json.

        Raises:
          ValueError: vocab_size is missing, or a value is wrong; a key of the release's or our file is unknown; or a
            key of transformers' file, where others are ignored, has a value that is not supported.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        is_foreign = any(key in values for key in _OF_TRANSFORMERS)
        unknown = sorted(set(values) - known - _IGNORED_KEYS)
        if is_foreign:
            check_supported("config.json", values)
        elif unknown:
            raise ValueError(f"unknown config key: {', '.join(unknown)}; known keys: {', '.join(sorted(known))}")
        is_bert = is_bert or values.get("model_type") == "bert"
        if "vocab_size" not in values:
            raise ValueError("the config has no vocab_size")
        known -= {*_NOT_OF_BERT} if is_bert else {"cross_layer_sharing"} if is_foreign else set()
        arguments = {**(_DEFAULTS_OF_BERT if is_bert else {}), **{key: values[key] for key in known & values.keys()}}
        if is_bert:
            arguments.update(embedding_size=arguments["hidden_size"], cross_layer_sharing="none")
        if is_foreign:
            act = values.get("hidden_act", "gelu" if is_bert else "gelu_new")
            arguments["hidden_act"] = _ACTS_OF_TRANSFORMERS.get(act, act) if isinstance(act, str) else act
        return cls(**arguments)

    @classmethod
    def from_json_file(cls, path: str, is_bert: bool = False) -> AlbertConfig:
        """Reads albert_config.json, a Hugging Face config.json or, with is_bert, Google's bert_config.json.

        Raises:
          ValueError: the file is missing or not a JSON object; it lacks a size, such as hidden_size, which only Hugging
            Face's files may leave out; or see from_dict. The message has the path.
        """
        values = read_json_object(path, "config file")
        missing = [key for key in _SIZES if key not in values and not (is_bert and key in _NOT_OF_BERT)]
        with errors_at(path):
            if missing and not any(key in values for key in _OF_TRANSFORMERS):
                raise ValueError(f"the config has no {', '.join(missing)}, which the size of the model depends on")
            return cls.from_dict(values, is_bert)

    @classmethod
    def preset(cls, name: str) -> AlbertConfig:
        """The config of a published size: "albert_base_v2", "albert_xxlarge_v1", "bert_large", ...

        Dropout is the published one: 0.1 in version 1 of base, large and xlarge and in BERT, 0 in all others.

        Raises:
          ValueError: there is no such size; the message lists all names.
        """
        if name not in PRESETS:
            raise ValueError(f"no preset {name!r}: expected one of {', '.join(PRESETS)}")
        return cls(**PRESETS[name])

    @classmethod
    def from_file_or_preset(cls, name: str) -> AlbertConfig:
        """The config of a published size ("albert_base_v2"), or of a JSON file if there is no such size.

        Raises:
          ValueError: there is neither; or see from_json_file.
        """
        if name not in PRESETS and not tf.io.gfile.exists(name):
            raise ValueError(f"no such config file: {name}. The published sizes are {', '.join(PRESETS)}")
        return cls.preset(name) if name in PRESETS else cls.from_json_file(name)

    def __str__(self) -> str:
        return (f"{self.num_hidden_layers} layers, hidden size {self.hidden_size:,}, {self.num_attention_heads} heads, "
                f"intermediate size {self.intermediate_size:,}, embedding size {self.embedding_size:,}, "
                f"vocabulary of {self.vocab_size:,}")

    def to_dict(self) -> dict:
        """The fields and their values. The release has no layer_norm_eps, so its value there is left out."""
        values = dataclasses.asdict(self)
        if self.layer_norm_eps == LAYER_NORM_EPS:
            del values["layer_norm_eps"]
        return values

    def to_bert_dict(self) -> dict:
        """The values in BERT's config files. The config must describe a BERT."""
        return {name: value for name, value in self.to_dict().items() if name not in _NOT_OF_BERT}

    def to_json_string(self) -> str:
        """JSON with sorted keys, as the release writes it. from_json_file reads it."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

    def replace(self, **changes: Any) -> AlbertConfig:
        """A copy with other values, which are checked."""
        return dataclasses.replace(self, **changes)

    def differences(self, other: AlbertConfig) -> dict[str, tuple[Any, Any]]:
        """The hyper-parameters that differ between two configs and change the outputs, each with both values.

        Dropout and initializer_range are not compared: they only matter in training and at its start. Configs that
        describe the same sharing in other words, as groups or as a strategy, are equal.
        """
        if self.in_groups().without_training() == other.in_groups().without_training():
            return {}
        ours, theirs = dataclasses.asdict(self.without_training()), dataclasses.asdict(other.without_training())
        return {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}

    def without_training(self) -> AlbertConfig:
        """A copy for inference: without dropout, and with the default initializer_range."""
        return self.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.02)

    def in_groups(self) -> AlbertConfig:
        """The same model in the release's terms: if nothing is shared, each layer is a group."""
        if self.cross_layer_sharing != "none":
            return self
        return self.replace(cross_layer_sharing="all", num_hidden_groups=self.num_hidden_layers)

    @property
    def is_bert(self) -> bool:
        """Whether the model is a BERT: nothing is shared, and the embedding is as wide as the encoder."""
        return (self.cross_layer_sharing == "none" and self.inner_group_num == 1
                and self.embedding_size == self.hidden_size)

    @property
    def attention_blocks(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, the indices of its inner blocks in the list of attention blocks."""
        return self._blocks("attention")

    @property
    def ffn_blocks(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, the indices of its inner blocks in the list of feed-forward blocks."""
        return self._blocks("ffn")

    @property
    def num_attention_blocks(self) -> int:
        """The number of different attention blocks."""
        return self.attention_blocks[-1][-1] + 1

    @property
    def num_ffn_blocks(self) -> int:
        """The number of different feed-forward blocks."""
        return self.ffn_blocks[-1][-1] + 1

    def _blocks(self, kind: str) -> tuple[tuple[int, ...], ...]:
        layers, inner = self.num_hidden_layers, range(self.inner_group_num)
        if self.cross_layer_sharing in ("all", kind):
            # The release's expression. In floating point, 22 layers in 22 groups never use group 15.
            group_of_layer: Sequence[int] = [int(layer / layers * self.num_hidden_groups) for layer in range(layers)]
        else:
            group_of_layer = range(layers)
        return tuple(tuple(group * self.inner_group_num + i for i in inner) for group in group_of_layer)


def _require(holds: bool, rule: str, name: str, value: object) -> None:
    if not holds:
        raise ValueError(f"{rule}. Received: {name}={reprlib.repr(value)}")


def described(differences: dict[str, tuple[Any, Any]], theirs: str, ours: str) -> str:
    """Differences for a message: "hidden_size is 64 in the run and 128 in --albert_config_file"."""
    return ", ".join(f"{name} is {first} in {theirs} and {second} in {ours}"
                     for name, (first, second) in differences.items())


def check_length(max_seq_length: int | None, config: AlbertConfig) -> None:
    """Raises ValueError if --max_seq_length is set and larger than max_position_embeddings."""
    if max_seq_length and max_seq_length > config.max_position_embeddings:
        raise ValueError(f"--max_seq_length={max_seq_length} is more than the config's max_position_embeddings, "
                         f"{config.max_position_embeddings}: set it to that number or less")

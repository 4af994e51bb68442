"""from_pretrained: builds a model with its weights, from any supported format."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import TYPE_CHECKING, Any, Callable, Collection, Mapping, Sequence

import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_variable
from albert_tf.modeling.layers import initialized_by, release_name
from albert_tf.weights.heads import HEADS, Head, encoder_of, head_named
from albert_tf.weights.stored_model import StoredModel, open_model
from albert_tf.weights.transforms import first_layers

if TYPE_CHECKING:
    from albert_tf.text.tokenization import FullTokenizer

_POOLER = "bert/pooler/"
# Settings that do not change any variable's shape: with another value a checkpoint loads but computes something else.
_NOT_IN_SHAPES = ("num_hidden_layers", "num_attention_heads", "hidden_act", "cross_layer_sharing", "layer_norm_eps")
_GROUP = re.compile(r"/group_\d+/")
# The counter in the release's checkpoints, and the one in SavedModels of tf.train.Checkpoint.
_COUNTERS = ("global_step", "save_counter")
_OF_KERAS = ("name", "trainable", "dtype")  # the arguments of all models
_MISSING = "missing"  # the reason for a variable without a stored value, such as a weight of a new head
# Variables with a value for each label, or word.
_LABEL_VARIABLES = {name for head in HEADS for weights in (head.label_weights, head.word_weights) if weights
                    for name in (weights, weights.replace("weights", "bias"))}
_POSITIONS = "bert/embeddings/position_embeddings"


def from_pretrained(
    path: str, model: str = "encoder", config: AlbertConfig | None = None, num_layers: int | None = None,
    **arguments: Any
) -> keras.Model:
    """Builds a model and loads its weights. Logs which variables were restored, and warns if a head was not.

    Args:
      path: a released directory or its .tar.gz, a run's directory (model.ckpt-best, else the latest checkpoint), a
        checkpoint's prefix, a Hugging Face folder of an ALBERT or a BERT, a BERT checkpoint of google-research/bert, a
        preset of keras-hub, or a TF-Hub module, as a path or URL; "hf://org/name[@revision][/subfolder]" on the Hugging
        Face Hub; or "albert_tiny_en", which comes with the package.
      model: "encoder", "pretrainer", "classifier" or another kind of model (docs/checkpoints.md lists them).
      config: the model's config; None for the config that comes with the weights.
      num_layers: the number of layers, from the first on, that the model is cut to; None for all layers. A warning
        is logged unless the weights were trained for that number.
      **arguments: arguments of the model's constructor. By default they have the values that are stored with the
        weights, such as a classifier's num_labels, label_names and max_seq_length.

    Raises:
      ValueError: the kind of model is unknown, or has no such argument; there are no weights or no config at the path,
        or no variable matches; or a value is not finite.

    Example::

      model = albert_tf.from_pretrained("albert_base_v2", model="pretrainer")
    """
    _check_arguments(model, arguments)  # before anything is read
    built, report = build(first_layers(open_model(path), num_layers), model, config, **arguments)
    warn_of_random_parts(model, report, path)
    return built


def _check_arguments(model: str, names: Collection[str]) -> None:
    """Raises ValueError if the kind of model is unknown, or has no arguments of these names."""
    known = {*head_named(model).model.argument_names(), *_OF_KERAS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f'model="{model}" has no argument {", ".join(unknown)}: the known ones are '
                         f'{", ".join(sorted(known))}')


def tokenizer_from_pretrained(path: str) -> FullTokenizer:
    """The tokenizer of the vocabulary that comes with weights, with the options that are stored with them.

    Its max_seq_length is the length with which the weights were fine-tuned, if it is stored, and otherwise the model's
    max_position_embeddings, so that the model takes all rows. It is 512 if neither is known.

    Args:
      path: see from_pretrained.

    Raises:
      ValueError: there are no weights at the path, no vocabulary comes with them, or it has more pieces than the model.

    Example::

      tokenizer = albert_tf.tokenizer_from_pretrained("albert_tiny_en")
      tokenizer(["A text."])["input_ids"]  # int32 [1, tokens]
    """
    source = open_model(path)
    if not source.vocabulary:
        raise ValueError(f"no vocabulary comes with the weights at {path}: pass a file to FullTokenizer("
                         "spm_model_file=...) or FullTokenizer(vocab_file=...)")
    config = source.optional_config
    tokenizer = source.vocabulary.tokenizer(config)
    lengths = source.settings.max_seq_length, config and config.max_position_embeddings
    tokenizer.max_seq_length = min((length for length in lengths if length), default=tokenizer.max_seq_length)
    return tokenizer


@dataclasses.dataclass(frozen=True)
class RestoreReport:
    """Which variables were restored, by the release's names."""

    restored: list[str]
    not_restored: dict[str, str]  # the variables that keep their initial values, with the reason for each
    not_used: list[str]  # the source's other variables
    optimizer_state: list[str]  # the source's optimizer slots and counters, which are never restored here

    @property
    def random_head(self) -> list[str]:
        """The variables outside the encoder that keep their initial values."""
        return [name for name in self.not_restored if not name.startswith("bert/")]

    def __str__(self) -> str:
        parts = [f"{len(self.restored)} variables restored"]
        if self.not_restored:
            parts.append("new, random: " + ", ".join(name if why == _MISSING else f"{name} ({why})"
                                                     for name, why in self.not_restored.items()))
        if self.not_used:
            parts.append("not used: " + ", ".join(self.not_used))
        if self.optimizer_state:
            parts.append(f"optimizer variables ignored: {len(self.optimizer_state)}")
        return "; ".join(parts)


def build(
    source: StoredModel, model: str | Callable[[], Any], config: AlbertConfig | None = None,
    init_from_group0: bool = False, **arguments: Any
) -> tuple[Any, RestoreReport]:
    """Builds a model with stored weights, and reports what was restored.

    No random values are drawn for restored variables, and only the model and one value are in memory at a time. `model`
    is the name of a kind of model, or a function that makes the model, or an objective that has one.
    """
    if isinstance(model, str):
        head = head_named(model)
        arguments = {**_stored_arguments(source, head, arguments), **arguments}
        make: Callable[[], Any] = functools.partial(head.model, config or source.config, **arguments)
    else:
        make = model
    matching = _Matching(source, init_from_group0)

    def initializer_of(name: str, shape: Sequence[int]) -> Callable[..., tf.Tensor] | None:
        stored = matching.find(name, shape)
        return None if stored is None else lambda shape, dtype, **_: _value(source, stored, shape)

    with initialized_by(initializer_of):
        made = make()
    report = matching.report()
    if config or not isinstance(model, str):
        built = made if isinstance(made, keras.Model) else made.model
        _check_config(built.config, source, [] if init_from_group0 else report.not_used)
    if isinstance(model, str) and any(name.startswith(_POOLER) for name in report.not_restored):
        encoder_of(made).mark_pooler_as_random()
    return made, report


def load_into(model: keras.Model, source: StoredModel) -> RestoreReport:
    """Assigns stored weights to the variables of a model with the same names, one by one, and reports the result.

    A classifier with another number of labels keeps its initial values, without an error (the paper starts RTE from
    MNLI). If the model has more positions than are stored, the others repeat the stored ones (Beltagy et al., 2020,
    section 5), so that they can be learned with longer inputs. If shapes or names do not fit, nothing is assigned.
    """
    matching = _Matching(source)
    matches = [(variable, matching.find(release_name(variable), variable.shape)) for variable in model.weights]
    report = matching.report()
    _check_config(model.config, source, report.not_used)
    for variable, name in matches:
        if name is not None:
            variable.assign(_value(source, name, variable.shape))
    return report


def _stored_arguments(source: StoredModel, head: Head, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a head's class that the weights determine and the caller does not set."""
    settings = source.settings.of_class(head.model.SETTINGS)
    stored = {name: getattr(settings, name) for name in settings.argument_names()}
    if head.word_weights and head.word_weights in source.tensors:
        stored["num_words"] = source.tensors[head.word_weights].shape[0]
    if head.label_weights:
        names = given.get("label_names")
        num_labels = given.get("num_labels") or (len(names) if names else source.num_labels(head.name))
        if num_labels is None:
            raise ValueError(f"{source.path} has no classifier: set num_labels")
        stored["num_labels"] = num_labels
        for name in ("label_names", "thresholds"):
            if stored.get(name) and len(stored[name]) != num_labels:
                del stored[name]
    return stored


def _value(source: StoredModel, name: str, shape: Sequence[int]) -> tf.Tensor:
    """The value of a variable with this shape. Missing position embeddings repeat the stored ones."""
    value, length = source.value(name), shape[0] if name == _POSITIONS else None
    if length is None or length == value.shape[0]:
        return value
    logging.warning("%s has %d positions, the model %d: the additional ones are initialized as copies of these, "
                    "beginning again at the first", source.path, value.shape[0], length)
    return tf.gather(value, tf.range(length) % value.shape[0])


class _Matching:
    """Matches variables with the values of a source."""

    def __init__(self, source: StoredModel, init_from_group0: bool = False):
        self._source, self._init_from_group0 = source, init_from_group0
        self._blocks = {block[:2] for block in map(block_variable, source.tensors) if block}  # (group, inner group)
        self._restored: list[str] = []
        self._used: set[str] = set()
        self._not_restored: dict[str, str] = {}  # by name, why

    def find(self, name: str, shape: Sequence[int]) -> str | None:
        """The source's name of a variable's value; None if the source has no value for it."""
        wanted = _GROUP.sub("/group_0/", name) if self._init_from_group0 else name
        block = block_variable(wanted)
        if block and self._blocks and block[:2] not in self._blocks:
            groups, inner = (max(numbers) + 1 for numbers in zip(*self._blocks))
            raise ValueError(f"{self._source.path} is another model: its groups and inner groups of layers are "
                             f"{groups} and {inner}, but the config asks for group {block.group + 1}, inner group "
                             f"{block.inner + 1}: use the config that belongs to the weights")
        if wanted not in self._source.tensors:
            self._not_restored[name] = _MISSING
            return None
        theirs, ours = list(self._source.tensors[wanted].shape), list(shape)
        if theirs == ours or (name == _POSITIONS and theirs[0] < ours[0] and theirs[1:] == ours[1:]):
            self._restored.append(name)
            self._used.add(wanted)
            return wanted
        if name in _LABEL_VARIABLES and theirs[1:] == ours[1:]:
            self._not_restored[name] = f"shape {theirs}, not {ours}"
            return None
        raise ValueError(f"{self._source.path} is another model: {wanted} has shape {theirs}, expected {ours}")

    def report(self) -> RestoreReport:
        """The report. Raises ValueError if no variable, or no variable of the encoder, has a value."""
        if not self._restored:
            raise ValueError(f"{self._source.path} has no variable of this model: nothing was restored")
        has_encoder, lacks_encoder = (any(name.startswith("bert/") for name in names)
                                      for names in (self._restored, self._not_restored))
        if lacks_encoder and not has_encoder:
            raise ValueError(f"{self._source.path} has a head but no encoder")
        unused = sorted(set(self._source.tensors) - self._used - set(self._not_restored))
        state = [name for name in unused if name.endswith(("/adam_m", "/adam_v")) or name in _COUNTERS]
        report = RestoreReport(self._restored, self._not_restored,
                               [name for name in unused if name not in state], state)
        logging.info("%s: %s", self._source.path, report)
        return report


def warn_of_random_parts(model: str, report: RestoreReport, path: str) -> None:
    """Logs a warning if a part on which the model's outputs depend has random values."""
    parts = {"cls/predictions/": "masked-LM head", "cls/seq_relationship/": "sentence-order head",
             _POOLER: "pooler", "bert/": "encoder"}
    head = head_named(model)
    names = [next((part for prefix, part in parts.items() if name.startswith(prefix)),
                  f"{head.name.replace('_', ' ')} head") for name in report.not_restored]
    random = [part for part in dict.fromkeys(names) if part != "pooler" or head.has_pooler]
    if random:
        has_others = any(reason.startswith("shape") for reason in report.not_restored.values())
        logging.warning("the variables of the %s start with random values, since %s has %s", " and the ".join(random),
                        path, "weights of other shapes for them" if has_others else "no weights for them")


def _check_config(config: AlbertConfig, source: StoredModel, not_used: Collection[str]) -> None:
    """Warns if the config changes what the weights compute. Raises ValueError if its groups of layers differ.

    The model may have only the first layers. `not_used` are the variables of the source that it does not have.
    """
    theirs = source.optional_config
    if theirs is None:
        return
    common = slice(min(config.num_hidden_layers, theirs.num_hidden_layers))
    if any(map(block_variable, not_used)) and (config.attention_blocks[common], config.ffn_blocks[common]) != (
            theirs.attention_blocks[common], theirs.ffn_blocks[common]):
        groups = [f"{each.num_hidden_groups} groups of {each.inner_group_num} blocks, shared by "
                  f"{each.cross_layer_sharing!r}" for each in (theirs, config)]
        raise ValueError(f"{source.path} is another model: its layers have {groups[0]}, and the config "
                         f"has {groups[1]}: use the config that belongs to the weights")
    for name, (ours, there) in config.differences(theirs).items():
        if name in _NOT_IN_SHAPES:
            logging.warning("%s was trained with %s=%s, but is used with %s", source.path, name, there, ours)

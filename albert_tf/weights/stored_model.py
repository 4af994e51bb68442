"""StoredModel: a stored model in any format: weights with the release's names, config, vocabulary, settings.

`restore` and `build_restored` give the weights to a model's variables and report the result. `unshared` gives each
layer its own copy of weights that layers share. `first_layers` cuts a model with exit heads. `merged` adds low-rank
adapters to the kernels.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Callable, Iterator, Mapping, Sequence, TypeVar

import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import EXIT_HEADS, block_scope, block_variable
from albert_tf.modeling.layers import check_finite_weights, release_name
from albert_tf.utils.bounds import Bounds
from albert_tf.weights.heads import HEAD_NAMES, HEADS, head_named, head_of_variables
from albert_tf.weights.settings import SETTINGS, Settings
from albert_tf.weights.vocabulary_files import VocabularyFiles

Made = TypeVar("Made")
_GROUP = re.compile(r"/group_\d+/")
# The counter in the release's checkpoints, and the one in SavedModels of tf.train.Checkpoint.
_COUNTERS = ("global_step", "save_counter")
# Variables with a value for each label.
_LABEL_VARIABLES = {name for head in HEADS if head.label_weights
                    for name in (head.label_weights, head.label_weights.replace("weights", "bias"))}
_MISSING = "missing"  # the reason for a variable that the source does not have, such as a new head's
_POSITIONS = "bert/embeddings/position_embeddings"


@dataclasses.dataclass(frozen=True)
class StoredModel:
    """A stored model, in the same form for every file format. Values are read only when they are needed.

    Args:
      path: path of the model, for messages.
      shapes: the shape of each value, by the release's name.
      read: function that returns the value with a release name.
      read_config: function that returns the model's config.
      vocabulary: the vocabulary that comes with the weights; empty if there is none.
      settings: how the model is used, as stored with the weights.
      module: the directory of a TF2 SavedModel whose variables have other names than the release's; `shapes` is empty
        then. It is used as an encoder. Reading its config and using it runs its graph.
      read_step: function that returns the step at which a run of this package saved the weights; 0 for other weights.
    """

    path: str
    shapes: Mapping[str, Sequence[int]]
    read: Callable[[str], tf.Tensor]
    read_config: Callable[[], AlbertConfig]
    vocabulary: VocabularyFiles = VocabularyFiles()
    settings: Settings = Settings()
    module: str | None = None
    read_step: Callable[[], int] = lambda: 0

    def value(self, name: str) -> tf.Tensor:
        """The value with a release name.

        Raises:
          ValueError: it cannot be read, or is not finite.
        """
        value = self.read(name)
        check_finite_weights(name, value, self.path)
        return value

    def num_labels(self, *heads: str) -> int | None:
        """The number of labels of the classifier; None if there is no classifier.

        Args:
          *heads: the names of heads. Default: all.

        Raises:
          ValueError: the classifier's weights are not a matrix.
        """
        for name in (head_named(head).label_weights for head in heads or HEAD_NAMES):
            shape = self.shapes.get(name or "")
            if shape is not None and len(shape) != 2:
                raise ValueError(f"{self.path}: {name} must be [labels, hidden_size]. Received shape: {list(shape)}")
            if shape is not None:
                return shape[0]
        return None

    @property
    def config(self) -> AlbertConfig:
        """The model's config.

        Raises:
          ValueError: the source has none, or it is wrong.
        """
        return self.read_config()

    def renamed(self, keys: Mapping[str, str], **changes: Any) -> StoredModel:
        """The source of the values with the names keys[name], which have the name `name` there, and other changes."""
        return dataclasses.replace(self, shapes={name: self.shapes[key] for name, key in keys.items()},
                                   read=lambda name: self.read(keys[name]), **changes)


def heads_of_source(source: StoredModel) -> set[str]:
    """The names of the heads that stored weights may have been trained with; empty without a head, or if nothing tells.

    Without settings, the names of the variables tell. Regression and multiple choice have the same ones.
    """
    if source.settings.head:
        return {source.settings.head} - {"encoder"}
    head = head_of_variables(source.shapes).name
    if head == "classifier" and source.num_labels("classifier") == 1:
        return {"classifier", "multiple_choice"}
    return set() if head == "encoder" else {head}


def head_of_source(source: StoredModel) -> str:
    """The name of the head of stored weights: "encoder" if they have none.

    Raises:
      ValueError: it may be a regression or a multiple-choice model, which have the same variables.
    """
    heads = heads_of_source(source) or {"encoder"}
    if len(heads) > 1:
        raise ValueError(f"{source.path} can be a regression or a multiple-choice model: set the model to "
                         f"{' or '.join(sorted(heads))}")
    return heads.pop()


def config_of(source: StoredModel) -> AlbertConfig | None:
    """The config of a source; None if it has none, or it is wrong."""
    try:
        return source.config
    except ValueError:
        return None


@dataclasses.dataclass(frozen=True)
class RestoreReport:
    """Which variables were restored, by the release's names.

    Args:
      restored: the restored variables.
      not_restored: the variables that keep their initial values, with the reason for each.
      not_used: the source's other variables.
      optimizer_state: the source's optimizer slots and counters, which are never restored here.
    """

    restored: list[str]
    not_restored: dict[str, str]
    not_used: list[str]
    optimizer_state: list[str]

    def __str__(self):
        parts = [f"{len(self.restored)} variables restored"]
        if self.not_restored:
            parts.append("new, random: " + ", ".join(name if why == _MISSING else f"{name} ({why})"
                                                     for name, why in self.not_restored.items()))
        if self.not_used:
            parts.append("not used: " + ", ".join(self.not_used))
        if self.optimizer_state:
            parts.append(f"optimizer variables ignored: {len(self.optimizer_state)}")
        return "; ".join(parts)


def restore(model: keras.Model, source: StoredModel) -> RestoreReport:
    """Assigns the source's values to a model's variables with the same names, one by one, and logs the report.

    A classifier for another number of labels is not restored, which is not an error (the paper starts RTE from MNLI).
    Positions that the source does not have repeat those that it has, from the first on (Beltagy et al., 2020, section
    5), so that they can be learned with longer inputs.

    Args:
      model: any model of albert_tf.modeling.
      source: the values.

    Raises:
      ValueError: a value has another shape than its variable, the source has fewer groups of layers, or no variable of
        the encoder has a value (then nothing is assigned); or a value cannot be read or is not finite.
    """
    matching = _Matching(source)
    matches = [(variable, matching.find(release_name(variable), variable.shape)) for variable in model.weights]
    report = matching.report()
    for variable, name in matches:
        if name is not None:
            variable.assign(_value(source, name, variable.shape))
    logging.info("%s: %s", source.path, report)
    return report


def build_restored(
    make: Callable[[], Made], source: StoredModel, init_from_group0: bool = False
) -> tuple[Made, RestoreReport]:
    """Makes a model whose variables are initialized with the values of a source, and logs the report.

    No random values are drawn for these variables, and only the model and one value are in memory at a time.

    Args:
      make: function that makes the model, or an object that has one.
      source: the values.
      init_from_group0: whether to initialize every group from group 0 of the source.

    Raises:
      ValueError: see `restore`.
    """
    matching = _Matching(source, init_from_group0)

    def create(next_creator, **variable):
        # Variables that are not trainable are metrics, or counters of Keras.
        name = variable["trainable"] and matching.find(variable["name"], variable["shape"])
        if name:
            variable["initial_value"] = lambda: _value(source, name, variable["shape"])
        return next_creator(**variable)

    with tf.variable_creator_scope(create):
        made = make()
    report = matching.report()
    logging.info("%s: %s", source.path, report)
    return made, report


def _value(source: StoredModel, name: str, shape) -> tf.Tensor:
    """The value of a variable with this shape. Missing position embeddings repeat those of the source."""
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
        self._blocks = {block[:2] for block in map(block_variable, source.shapes) if block}  # (group, inner group)
        self._restored: list[str] = []
        self._used: set[str] = set()
        self._not_restored: dict[str, str] = {}  # by name, why

    def find(self, name: str, shape) -> str | None:
        """The source's name of a variable's value; None if the source has no value for it.

        Raises:
          ValueError: the value has another shape, or the source has no block of layers for the variable. This is found
            out before the model has more blocks than the source.
        """
        wanted = _GROUP.sub("/group_0/", name) if self._init_from_group0 else name
        block = block_variable(wanted)
        if block and self._blocks and block[:2] not in self._blocks:
            groups, inner = (max(numbers) + 1 for numbers in zip(*self._blocks))
            raise ValueError(f"{self._source.path} is another model: its groups and inner groups of layers are "
                             f"{groups} and {inner}, but the config asks for group {block.group + 1}, inner group "
                             f"{block.inner + 1}: use the config that belongs to the weights")
        theirs, ours = self._source.shapes.get(wanted), list(shape)
        if theirs is None:
            self._not_restored[name] = _MISSING
        elif list(theirs) == ours or (name == _POSITIONS and theirs[0] < ours[0] and list(theirs[1:]) == ours[1:]):
            self._restored.append(name)
            self._used.add(wanted)
            return wanted
        elif (name in _LABEL_VARIABLES or name.startswith(EXIT_HEADS)) and list(theirs[1:]) == ours[1:]:
            self._not_restored[name] = f"shape {list(theirs)}, not {ours}"
        else:
            raise ValueError(f"{self._source.path} is another model: {wanted} has shape {list(theirs)}, expected "
                             f"{ours}")
        return None

    def report(self) -> RestoreReport:
        """The report. Raises ValueError if no variable, or no variable of the encoder, has a value."""
        if not self._restored:
            raise ValueError(f"{self._source.path} has no variable of this model: nothing was restored")
        if any(map(_is_in_encoder, self._not_restored)) and not any(map(_is_in_encoder, self._restored)):
            raise ValueError(f"{self._source.path} has a head but no encoder: if it was trained on a TF-Hub module, "
                             "set --albert_hub_module_handle to that module")
        unused = sorted(set(self._source.shapes) - self._used - set(self._not_restored))
        return RestoreReport(self._restored, self._not_restored,
                             [name for name in unused if not _is_optimizer_state(name)],
                             [name for name in unused if _is_optimizer_state(name)])


def _is_in_encoder(name: str) -> bool:
    return name.startswith("bert/")


def _is_optimizer_state(name: str) -> bool:
    return name.endswith(("/adam_m", "/adam_v")) or name in _COUNTERS


def unshared_config(config: AlbertConfig) -> AlbertConfig:
    """The config of a model with the same layers, none of which share weights."""
    return config.replace(cross_layer_sharing="none", num_hidden_groups=1)


def unshared(source: StoredModel) -> StoredModel:
    """The source of a model with the same outputs in which each layer has its own weights.

    A source without sharing is returned unchanged.

    Raises:
      ValueError: it is a TF2 module whose graph is run, so that its layers cannot be changed.
    """
    if source.module:
        raise ValueError(f"{source.path} is a TF2 module whose own graph runs: its layers cannot be unshared")
    config = source.config
    if config.in_groups() == unshared_config(config).in_groups():
        return source
    names = {new: name for name in source.shapes for new in _copies(name, config)}
    return source.renamed(names, read_config=lambda: unshared_config(config))


def _copies(name: str, config: AlbertConfig) -> Iterator[str]:
    """The names of a variable's copies, one for each layer that uses it."""
    in_block = block_variable(name)
    if not in_block:
        yield name
        return
    group, inner, variable = in_block
    blocks = config.attention_blocks if in_block.is_of_attention else config.ffn_blocks
    for layer, used in enumerate(blocks):
        if group * config.inner_group_num + inner in used:
            yield f"{block_scope(layer, inner)}/{variable}"


def first_layers(source: StoredModel, num_layers: int | None) -> StoredModel:
    """The source of a model of the first layers of a model with exit heads, which has the output layer after them.

    Args:
      source: the model.
      num_layers: the number of layers; None for the unchanged source.

    Raises:
      ValueError: the model has no exit heads, or fewer layers.
    """
    if num_layers is None:
        return source
    if not source.settings.exit_heads:
        raise ValueError(f"num_layers needs a model that was trained with exit heads (--exit_heads), and {source.path} "
                         f"was not. Received: num_layers={num_layers}")
    config, settings = source.config, source.settings.replaced(exit_heads=False)
    Bounds(1, config.num_hidden_layers).check("num_layers", num_layers)
    groups = config.num_hidden_groups if config.cross_layer_sharing != "all" else (
        config.attention_blocks[num_layers - 1][0] // config.inner_group_num + 1)
    cut = config.replace(num_hidden_layers=num_layers, num_hidden_groups=groups)
    if cut.attention_blocks != config.attention_blocks[:num_layers]:  # it ends within a group
        source, cut = unshared(source), unshared_config(cut)
    blocks = {name: block_variable(name) for name in source.shapes}
    used = {True: cut.num_attention_blocks, False: cut.num_ffn_blocks}
    names = {name: name for name, block in blocks.items() if not name.startswith(EXIT_HEADS) and (
        block is None or block.group * cut.inner_group_num + block.inner < used[block.is_of_attention])}
    if num_layers < config.num_hidden_layers:
        settings = settings.replaced(pooling=settings.exit_pooling)
        scope = next(name for name in _LABEL_VARIABLES if name in names).rpartition("output_")[0]
        names.update({f"{scope}{name}": f"{EXIT_HEADS}{num_layers}/{name}"
                      for name in ("output_weights", "output_bias")})
    return source.renamed(names, read_config=lambda: cut, settings=settings)


def merged(source: StoredModel) -> StoredModel:
    """The source of a model whose low-rank adapters are added to its kernels; without adapters, it is the same source.

    If layers have adapters of their own, they do not share weights any more.

    Raises:
      ValueError: the scale of the adapters is not stored with them.
    """
    # By the name of a variable, the scope of its kernel and the number of its layer, if it belongs to one.
    if not any("/lora_" in name for name in source.shapes):
        return source
    from albert_tf.modeling.adapters import ADAPTER_NAME

    adapters = {name: match.groups() for name in source.shapes if (match := ADAPTER_NAME.fullmatch(name))}
    alpha = source.settings.lora_alpha
    if alpha is None:
        raise ValueError(f"{source.path} has low-rank adapters, and no {SETTINGS} with lora_alpha is beside it: copy "
                         "it from the run's directory")
    config = source.config
    scopes = {_adapted_scope(scope, layer, config): (scope, "" if layer is None else f"_{layer}")
              for scope, layer in adapters.values()}
    base = dataclasses.replace(source, settings=source.settings.replaced(lora_alpha=None), shapes={
        name: shape for name, shape in source.shapes.items() if name not in adapters})
    base = unshared(base) if any(layer is not None for _, layer in adapters.values()) else base

    def read(name: str) -> tf.Tensor:
        value, (scope, _, variable) = base.read(name), name.rpartition("/")
        if variable != "kernel" or scope not in scopes:
            return value
        stem, ending = scopes[scope]
        a, b = (source.read(f"{stem}/lora_{matrix}{ending}") for matrix in "ab")
        return value + alpha / a.shape[1] * tf.matmul(a, b)

    return dataclasses.replace(base, read=read)


def _adapted_scope(scope: str, layer: str | None, config: AlbertConfig) -> str:
    """The scope of the kernel to which an adapter is added; if it is that of a layer, in the model without sharing."""
    block = block_variable(scope)
    if layer is None or block is None:
        return scope
    return f"{block_scope(*divmod(int(layer), config.inner_group_num))}/{block.name}"

"""from_pretrained: builds a model with its weights, from any supported format.

WeightsReader does the same for tasks, with the user's settings.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Callable, Mapping, TypeVar

from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.layers import check_finite_weights, release_name
from albert_tf.weights.heads import Head, encoder_of, head_named
from albert_tf.weights.open_source import open_source
from albert_tf.weights.settings import declared
from albert_tf.weights.stored_model import (
    RestoreReport,
    StoredModel,
    build_restored,
    config_of,
    first_layers,
    restore,
    unshared,
)

if TYPE_CHECKING:
    from albert_tf.text.tokenization import FullTokenizer
    from albert_tf.training.task import TrainableTask
    from albert_tf.weights.tf_hub.encoder import HubEncoder

AnyTask = TypeVar("AnyTask", bound="TrainableTask")
_POOLER = "bert/pooler/"
# Settings that do not change any variable's shape: with another value a checkpoint loads but computes something else.
_NOT_IN_SHAPES = ("num_hidden_layers", "num_attention_heads", "hidden_act", "cross_layer_sharing")


def from_pretrained(
    path: str, model: str = "encoder", config: AlbertConfig | None = None, trust_module: bool = False,
    num_layers: int | None = None, **arguments
) -> keras.Model:
    """Builds a model and loads its weights. It logs which variables were restored, and warns of a head that was not.

    Args:
      path: a released directory or its .tar.gz, a run's directory (model.ckpt-best, else the latest checkpoint), a
        checkpoint's prefix, a Hugging Face folder of an ALBERT or a BERT, a BERT checkpoint of google-research/bert, a
        preset of keras-hub, or a TF-Hub module, as a path or URL; "hf://org/name[@revision][/subfolder]" on the Hugging
        Face Hub; or "albert_tiny_en", which comes with the package.
      model: "encoder", "sentence_encoder", "pretrainer", "classifier", "token_classifier", "span",
        "conditional_span" or "multiple_choice".
      config: the model's config; None for the config that comes with the weights.
      trust_module: whether to accept a TF2 module whose variables do not have the release's names. Its own graph then
        runs, like any program of its author.
      num_layers: the number of layers, from the first on, to which a model with exit heads is cut. Its output is then
        that of the exit head after them. None for all layers.
      **arguments: arguments of the model's constructor. By default they are those that are stored with the weights,
        such as a classifier's num_labels, label_names and max_seq_length.

    Returns:
      The model. For a TF2 module whose variables do not have the release's names, the encoder is the module itself
      instead of an AlbertModel.

    Raises:
      ValueError: the kind of model is unknown; there are no weights or no config at the path, or no variable matches; a
        value is not finite; or the module at the path is not trusted.

    Example::

      model = albert_tf.from_pretrained("albert_base_v2", model="pretrainer")
    """
    head_named(model)  # raises for an unknown name before anything is read
    built, report = build(first_layers(open_source(path, trust_module), num_layers), model, config, **arguments)
    warn_of_random_parts(model, report, path)
    return built


def tokenizer_from_pretrained(path: str) -> FullTokenizer:
    """The tokenizer of the vocabulary that comes with weights, with the options that are stored with them.

    Its max_seq_length is the length with which the weights were fine-tuned, if it is stored, and otherwise the model's
    max_position_embeddings, so that the model takes all rows. It is 512 if neither is known without running a graph.

    Args:
      path: see from_pretrained.

    Raises:
      ValueError: there are no weights at the path, or no vocabulary comes with them.
    """
    source = open_source(path, trust_module=True)  # only vocabulary and config are read: no graph runs
    if not source.vocabulary:
        raise ValueError(f"no vocabulary comes with the weights at {path}: pass a file to FullTokenizer("
                         "spm_model_file=...) or FullTokenizer(vocab_file=...)")
    tokenizer = source.vocabulary.tokenizer()
    tokenizer.max_seq_length = _row_length(source) or tokenizer.max_seq_length
    return tokenizer


def _row_length(source: StoredModel) -> int | None:
    """The largest number of tokens of a row that is stored with weights; None if none is known."""
    stored = source.settings.max_seq_length
    if source.module:
        return stored
    try:
        positions = source.config.max_position_embeddings
    except ValueError:  # some weights come without a config
        return stored
    return min(stored or positions, positions)


def build(
    source: StoredModel, model: str, config: AlbertConfig | None = None, **arguments
) -> tuple[keras.Model, RestoreReport]:
    """The same as from_pretrained, for an open source. Also returns the report of what was restored."""
    if source.module and model == "encoder":
        from albert_tf.weights.tf_hub.encoder import HubEncoder

        encoder = HubEncoder(source.module)
        return encoder, _module_report(encoder, encoder)
    head = head_named(model)
    config = config or source.config
    arguments = {**_stored_arguments(source, head, arguments), **arguments}
    if source.module:
        built = head.model(config, **arguments)
        return built, _use_module(built, source.module)
    built, report = build_restored(lambda: head.model(config, **arguments), source)
    if any(name.startswith(_POOLER) for name in report.not_restored):
        encoder_of(built).mark_pooler_as_random()
    return built, report


def _stored_arguments(source: StoredModel, head: Head, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a head's class that are stored with weights, or follow from them, and are not given.

    Raises:
      ValueError: nothing tells the number of labels.
    """
    stored = dict(max_seq_length=source.settings.max_seq_length)
    if source.settings.head in (None, head.name):  # the others are those of another head
        stored.update((name, value) for name, value in source.settings.values.items() if name in declared(head.name))
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


def make_with_weights(
    make: Callable[[], AnyTask], source: StoredModel, init_from_group0: bool = False
) -> tuple[AnyTask, RestoreReport]:
    """Makes a task whose model has the weights of `source`. Returns the task and a report of what was restored.

    Args:
      make: function that makes the task (albert_tf/tasks).
      source: the weights. A TF2 module replaces the encoder.
      init_from_group0: whether to initialize every group from group 0.

    Raises:
      ValueError: see load_checkpoint.
    """
    if source.module:
        task = make()
        return task, _use_module(task.model, source.module)
    task, report = build_restored(make, source, init_from_group0)
    _warn_of_another_config(task.model.config, source)
    return task, report


def load_checkpoint(model: keras.Model, path: str, trust_module: bool = False) -> RestoreReport:
    """Loads the weights at `path` into an existing model.

    Args:
      model: any model of albert_tf.modeling. It must not be compiled yet if the weights are a TF2 module, since that
        replaces the encoder.
      path, trust_module: see from_pretrained.

    Raises:
      ValueError: there are no weights, their shapes are those of another model, or no variable matches.
    """
    return load_source(model, open_source(path, trust_module))


def load_source(model: keras.Model, source: StoredModel) -> RestoreReport:
    """load_checkpoint of a source that is open already."""
    if source.module:
        return _use_module(model, source.module)
    report = restore(model, source)
    _warn_of_another_config(model.config, source)
    return report


def warn_of_random_parts(model: str, report: RestoreReport, path: str) -> None:
    """Logs a warning if a part on which the model's outputs depend has random values.

    Args:
      model: the kind of model (see from_pretrained).
      report: what was restored.
      path: path of the weights.
    """
    random = _random_parts(head_named(model), report)
    if random:
        has_others = any(reason.startswith("shape") for reason in report.not_restored.values())
        logging.warning("the variables of the %s start with random values, since %s has %s", " and the ".join(random),
                        path, "weights of other shapes for them" if has_others else "no weights for them")


def _random_parts(head: Head, report: RestoreReport) -> list[str]:
    """The plain names of the parts of a model that were not restored and that its outputs depend on."""
    parts = {"cls/predictions/": "masked-LM head", "cls/seq_relationship/": "sentence-order head",
             _POOLER: "pooler", "bert/": "encoder"}
    head_part = f"{head.name.replace('_', ' ')} head"
    missing = [next((part for prefix, part in parts.items() if name.startswith(prefix)), head_part)
               for name in report.not_restored]
    return [part for part in dict.fromkeys(missing) if part != "pooler" or head.has_pooler]


def _use_module(model: keras.Model, path: str) -> RestoreReport:
    """Replaces a model's encoder by a TF2 module."""
    from albert_tf.weights.tf_hub.encoder import use_module

    return _module_report(model, use_module(model, path))


def _module_report(model: keras.Model, encoder: HubEncoder) -> RestoreReport:
    """The report for a TF2 module: all of its variables are restored, and those of the head are missing."""
    for variable in encoder.weights:
        check_finite_weights(release_name(variable), variable, encoder.path)
    encoder_ids = {id(variable) for variable in encoder.weights}
    head = [variable for variable in model.weights if id(variable) not in encoder_ids]
    report = RestoreReport([release_name(variable) for variable in encoder.weights],
                           {release_name(variable): "missing" for variable in head}, [], [])
    logging.info("%s: %s", encoder.path, report)
    return report


def _warn_of_another_config(config: AlbertConfig, source: StoredModel) -> None:
    theirs = config_of(source)
    if theirs is None:
        return
    for name in _NOT_IN_SHAPES:
        ours, there = getattr(config, name), getattr(theirs, name)
        if ours != there:
            logging.warning("%s was trained with %s=%s, but is used with %s", source.path, name, there, ours)


@dataclasses.dataclass(frozen=True)
class WeightsReader:
    """Reads weights as the flags of weights say.

    Args:
      trusted_module: the path that the user has set as a TF-Hub module. A TF2 module there may run its own graph.
      init_from_group0: whether to initialize every group from group 0.
      unshared_path: the path of weights that layers share, and of which each layer gets its own copy; None for none.
      num_layers: the number of layers that models with exit heads are cut to; None for all.
    """

    trusted_module: str | None = None
    init_from_group0: bool = False
    unshared_path: str | None = None
    num_layers: int | None = None

    def make(self, new_task: Callable[[], AnyTask], path: str | None) -> tuple[AnyTask, RestoreReport | None]:
        """A task with the weights at a path (random weights if it is None), and a report of what was restored.

        A trusted TF2 module is always the model's encoder, since checkpoints of a run on it have the values of its
        variables, but not its graph.

        Raises:
          ValueError: see make_with_weights.
        """
        if self.trusted_module and self.trusted_module != path:
            source = open_source(self.trusted_module, trust_module=True)
            if source.module:
                task, _ = make_with_weights(new_task, source)
                return task, load_checkpoint(task.model, path) if path else None
        if path is None:
            return new_task(), None
        return make_with_weights(new_task, self.open(path), self.init_from_group0)

    def load(self, model: keras.Model, path: str) -> RestoreReport:
        """Loads the weights at a path into an existing model.

        Raises:
          ValueError: see load_checkpoint.
        """
        return load_source(model, self.open(path))

    def step(self, path: str) -> int:
        """The step at which a run of this package saved the weights at a path; 0 for other weights.

        Raises:
          ValueError: see open_source.
        """
        return open_source(path, path == self.trusted_module).read_step()

    def open(self, path: str) -> StoredModel:
        """The source at a path, cut to num_layers, and unshared if it is unshared_path.

        Raises:
          ValueError: as open_source, first_layers and unshared.
        """
        source = first_layers(open_source(path, path == self.trusted_module), self.num_layers)
        return unshared(source) if path == self.unshared_path else source

    def config(self, path: str) -> AlbertConfig | None:
        """The config of the weights at a path; None if they have none, or are a TF2 module with its own graph.

        Raises:
          ValueError: see open_source.
        """
        source = self.open(path)
        return None if source.module else config_of(source)

"""from_pretrained: a model with its weights, from wherever they are."""

from __future__ import annotations

from typing import Callable, TypeVar

from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.interchange.heads import head_named
from albert_tf.interchange.hub.encoder import HubEncoder, use_module
from albert_tf.interchange.open_source import open_source
from albert_tf.interchange.restoring import RestoreReport, build_restored, release_name, restore
from albert_tf.interchange.source import Source
from albert_tf.modeling.finite_weights import check_finite_weights
from albert_tf.tasks.task import Task
from albert_tf.text.tokenization import FullTokenizer

MadeTask = TypeVar("MadeTask", bound=Task)
# What no variable's shape depends on: with another value a checkpoint loads, and computes something else.
_UNSEEN = ("num_hidden_layers", "num_attention_heads", "hidden_act", "cross_layer_sharing")


def from_pretrained(
    path: str, model: str = "encoder", config: AlbertConfig | None = None, trust_module: bool = False, **arguments
) -> keras.Model:
    """Builds a model and puts weights in place; what was restored and what was not is logged.

    Args:
      path: a released directory or its .tar.gz, a run's directory (model.ckpt-best, else the latest checkpoint), a
        checkpoint's prefix, a Hugging Face folder of an ALBERT or a BERT, a BERT checkpoint of google-research/bert, or
        a TF-Hub module, by path or URL; or "albert_tiny_en", which comes with the package.
      model: "encoder", "sentence_encoder", "pretrainer", "classifier", "token_classifier", "span",
        "conditional_span" or "multiple_choice".
      config: of the model; by default the one that comes with the weights.
      trust_module: whether a TF2 module may be used whose variables' names are not the release's. Its own graph runs
        then, as any program of its author.
      **arguments: of that model's constructor; a classifier's num_labels is the checkpoint's, where not given.

    Returns:
      The model. A TF2 module whose variables' names are not the release's is the encoder itself, in place of an
      AlbertModel.

    Raises:
      ValueError: there is no such kind of model, no weights or config at the path, or nothing in it fits; a value is
        not finite; or the module at the path is not trusted.

    Example::

      model = albert_tf.from_pretrained("albert_base_v2", model="pretrainer")
    """
    head_named(model)  # an unknown name is told before anything is read
    return build(open_source(path, trust_module), model, config, **arguments)[0]


def tokenizer_from_pretrained(path: str) -> FullTokenizer:
    """The tokenizer of the vocabulary that comes with weights, with their casing.

    Args:
      path: as from_pretrained takes it.

    Raises:
      ValueError: there are no weights at the path, or no vocabulary comes with them.
    """
    return open_source(path, trust_module=True).vocabulary.tokenizer()  # a vocabulary is read, and no graph runs


def build(
    source: Source, model: str, config: AlbertConfig | None = None, **arguments
) -> tuple[keras.Model, RestoreReport]:
    """from_pretrained of a source that is open, with the report of what was restored."""
    if source.module and model == "encoder":
        encoder = HubEncoder(source.module)
        return encoder, _module_report(encoder, encoder)
    head = head_named(model)
    arguments.update({name: read(source) for name, read in head.arguments.items() if name not in arguments})
    config = config or source.config
    if source.module:
        built = head.model(config, **arguments)
        return built, _module_report(built, use_module(built, source.module))
    return build_restored(lambda: head.model(config, **arguments), source)


def make_with_weights(
    make: Callable[[], MadeTask], source: Source, init_from_group0: bool = False
) -> tuple[MadeTask, RestoreReport]:
    """Makes a task whose model has the weights of `source`, where they fit, and reports what was restored.

    Args:
      make: makes the task (albert_tf/tasks), under the strategy's scope or not.
      source: the weights; a TF2 module takes the encoder's place.
      init_from_group0: whether every group starts from group 0.

    Raises:
      ValueError: as load_checkpoint.
    """
    if source.module:
        task = make()
        return task, _module_report(task.model, use_module(task.model, source.module))
    task, report = build_restored(make, source, init_from_group0)
    _warn_of_another_config(task.model.config, source)
    return task, report


def load_checkpoint(model: keras.Model, path: str, trust_module: bool = False) -> RestoreReport:
    """Puts the weights at `path` into a model that is there already.

    Args:
      model: any model of albert_tf.modeling, before it is compiled: a TF2 module takes its encoder's place.
      path, trust_module: as from_pretrained takes them.

    Raises:
      ValueError: there are no weights, their shapes are of another model, or nothing fits.
    """
    return load_source(model, open_source(path, trust_module))


def load_source(model: keras.Model, source: Source) -> RestoreReport:
    """load_checkpoint of a source that is open already."""
    if source.module:
        return _module_report(model, use_module(model, source.module))
    report = restore(model, source)
    _warn_of_another_config(model.config, source)
    return report


def _module_report(model: keras.Model, encoder: HubEncoder) -> RestoreReport:
    """All of a module is in place, and nothing of the head on it."""
    for variable in encoder.weights:
        check_finite_weights(release_name(variable), variable, encoder.path)
    of_the_encoder = {id(variable) for variable in encoder.weights}
    head = [variable for variable in model.weights if id(variable) not in of_the_encoder]
    report = RestoreReport([release_name(variable) for variable in encoder.weights],
                           {release_name(variable): "missing" for variable in head}, [], [])
    logging.info("%s: %s", encoder.path, report)
    return report


def _warn_of_another_config(config: AlbertConfig, source: Source) -> None:
    try:
        theirs = source.config
    except ValueError:  # not every source has one, and here it is not needed
        return
    for name in _UNSEEN:
        ours, there = getattr(config, name), getattr(theirs, name)
        if ours != there:
            logging.warning("%s was trained with %s=%s, and is used with %s", source.path, name, there, ours)

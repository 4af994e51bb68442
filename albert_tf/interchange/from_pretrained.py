"""from_pretrained: a model with its weights, from wherever they are."""

from __future__ import annotations

import os

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.interchange.ours import is_ours, our_source
from albert_tf.interchange.restoring import RestoreReport, restore
from albert_tf.interchange.source import Source
from albert_tf.interchange.tf1 import tf1_source
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.conditional_span import AlbertConditionalSpan
from albert_tf.modeling.multiple_choice import AlbertMultipleChoice
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.span import AlbertSpan
from albert_tf.training.checkpoints import best_or_latest

MODELS = {
    "encoder": AlbertModel,
    "pretrainer": AlbertPretrainer,
    "classifier": AlbertClassifier,
    "span": AlbertSpan,
    "conditional_span": AlbertConditionalSpan,
    "multiple_choice": AlbertMultipleChoice,
}


def from_pretrained(path: str, model: str = "encoder", **arguments) -> tf.keras.Model:
    """Builds a model and puts weights in place; what was restored and what was not is logged.

    Args:
      path: a released directory or a run's (model.ckpt-best, else the latest checkpoint), or a checkpoint's prefix; the
        albert_config.json beside the checkpoint is its config.
      model: "encoder", "pretrainer", "classifier", "span", "conditional_span" or "multiple_choice".
      **arguments: of that model's constructor; a classifier's num_labels is the checkpoint's, where not given.

    Raises:
      ValueError: there is no such kind of model, no checkpoint or config at the path, or nothing in it fits.

    Example:
      model = albert_tf.from_pretrained("albert_base_v2", model="pretrainer")
    """
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}. Received: {model!r}")
    source = open_source(path)
    if model == "classifier" and "num_labels" not in arguments:
        arguments["num_labels"] = _num_labels(source)
    built = MODELS[model](AlbertConfig.from_json_file(source.config_file), **arguments)
    restore(built, source)
    return built


def load_checkpoint(model: tf.keras.Model, path: str, init_from_group0: bool = False) -> RestoreReport:
    """Puts the weights at `path` into a model that is there already: --init_checkpoint of every script.

    Args:
      model: any model of albert_tf.modeling.
      path: as from_pretrained takes it.
      init_from_group0: whether every group starts from group 0.

    Raises:
      ValueError: there is no checkpoint, its shapes are of another model, or nothing fits.
    """
    return restore(model, open_source(path), init_from_group0)


def open_source(path: str) -> Source:
    """The weights at a path, of any kind that is known here.

    Raises:
      ValueError: there is nothing of a known kind.
    """
    checkpoint = tf1_source(checkpoint_prefix(path))
    return our_source(checkpoint) if is_ours(checkpoint) else checkpoint


def checkpoint_prefix(path: str) -> str:
    """The prefix of the checkpoint that a path means: its own, or of a directory the best, the latest or the only one.

    Raises:
      ValueError: there is none, or it is not clear which.
    """
    if not tf.io.gfile.isdir(path):
        found = [path] if tf.io.gfile.exists(f"{path}.index") else []
    else:
        chosen = best_or_latest(path)
        others = [index[: -len(".index")] for index in sorted(tf.io.gfile.glob(os.path.join(path, "*.index")))]
        found = [chosen] if chosen else others
    if not found:
        raise ValueError(f"no checkpoint at {path}: a directory with model.ckpt-* or the path of one, without .index, is wanted")
    if len(found) > 1:
        raise ValueError(f"several checkpoints in {path}, name one: {', '.join(map(os.path.basename, found))}")
    return found[0]


def _num_labels(source: Source) -> int:
    if "output_weights" not in source.shapes:
        raise ValueError(f"num_labels is missing, and {source.path} has no classifier to take it from")
    return source.shapes["output_weights"][0]

"""from_pretrained: a model with its weights, from wherever they are."""

from __future__ import annotations

import os

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.interchange.ours import is_ours, load_our_checkpoint
from albert_tf.interchange.restoring import RestoreReport
from albert_tf.interchange.tf1 import load_tf1_checkpoint
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
CONFIG_NAME = "albert_config.json"


def from_pretrained(path: str, model: str = "encoder", **arguments) -> tf.keras.Model:
    """Builds a model and puts weights in place; what was restored and what was not is logged.

    Args:
      path: a released directory or a run's (model.ckpt-best, else the latest checkpoint), or a checkpoint's prefix; the
        albert_config.json beside the checkpoint is its config.
      model: "encoder", "pretrainer", "classifier", "span", "conditional_span" or "multiple_choice".
      **arguments: of that model's constructor, such as num_labels.

    Raises:
      ValueError: there is no such kind of model, no checkpoint or config at the path, or nothing in it fits.

    Example:
      model = albert_tf.from_pretrained("albert_base_v2", model="pretrainer")
    """
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}. Received: {model!r}")
    prefix = checkpoint_prefix(path)
    config = AlbertConfig.from_json_file(os.path.join(os.path.dirname(prefix), CONFIG_NAME))
    built = MODELS[model](config, **arguments)
    load_checkpoint(built, prefix)
    return built


def load_checkpoint(model: tf.keras.Model, path: str, init_from_group0: bool = False) -> RestoreReport:
    """Puts the weights at `path` into a model that is there already: --init_checkpoint of every script.

    Args:
      model: any model of albert_tf.modeling.
      path: a directory or a prefix, of the release's kind or ours.
      init_from_group0: whether every group starts from group 0.

    Raises:
      ValueError: there is no checkpoint, its shapes are of another model, or nothing fits.
    """
    prefix = checkpoint_prefix(path)
    load = load_our_checkpoint if is_ours(prefix) else load_tf1_checkpoint
    return load(model, prefix, init_from_group0)


def checkpoint_prefix(path: str) -> str:
    """The prefix of the checkpoint that a path means: its own, or the best or latest of a directory.

    Raises:
      ValueError: there is none.
    """
    prefix = best_or_latest(path) if tf.io.gfile.isdir(path) else path
    if prefix is None or not tf.io.gfile.exists(prefix + ".index"):
        raise ValueError(f"no checkpoint at {path}: a directory with model.ckpt-* or the path of one, without .index, is wanted")
    return prefix

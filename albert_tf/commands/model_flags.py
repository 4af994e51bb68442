"""The flags that select a model, and `resolve`, which finds the model that they select."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import tensorflow as tf
from absl import flags

from albert_tf.commands import help_text
from albert_tf.commands.options import define_float
from albert_tf.config import AlbertConfig
from albert_tf.modeling.pooling import POOLINGS, SentencePooling
from albert_tf.training.checkpoints import BEST
from albert_tf.weights.open_source import is_url
from albert_tf.weights.resolved_model import ModelRequest, ResolvedModel
from albert_tf.weights.vocabulary_files import VocabularyFiles

FLAGS = flags.FLAGS
# The flags of this module, for the manifests of what is computed with a model.
MODEL_FLAGS = ("init_checkpoint", "albert_hub_module_handle", "albert_config_file", "spm_model_file", "vocab_file",
               "do_lower_case", "keep_accents")


@help_text.group("Model")
def define_source_flags() -> None:
    """Defines the flags that select a model's config and weights."""
    flags.DEFINE_string("albert_config_file", None,
                        "Path of the model's albert_config.json, or the name of a published size "
                        "(albert_base_v2). Default: the config of the weights.")
    flags.DEFINE_string("init_checkpoint", None,
                        "Initial weights: a released directory or its .tar.gz (a path or a URL), a checkpoint, a "
                        "run's directory (of several runs the best), a Hugging Face folder, a TF-Hub module whose "
                        "variables have the release's names, or albert_tiny_en, which comes with the package.")
    flags.DEFINE_string("albert_hub_module_handle", None,
                        "Path or URL of a TF-Hub module with the initial weights, instead of --init_checkpoint. A TF2 "
                        "module whose variables do not have the release's names is used by running its own graph, so "
                        "use only modules that you trust.")


@help_text.group("Model")
def define_model_flags() -> None:
    """Defines the flags of a model to train: config, initial weights, dropout and sharing."""
    define_source_flags()
    define_float("hidden_dropout_prob", None, "Dropout rate, from 0 to 1, of the embeddings and of each layer's "
                 "outputs in training. Default: the config's.")
    define_float("attention_probs_dropout_prob", None, "Dropout rate, from 0 to 1, of the attention probabilities in "
                 "training. Default: the config's.")
    flags.DEFINE_bool("unshare_layers", False, "Whether to give each layer its own copy of the weights that layers "
                      "share. The outputs are the same at the start; training then changes each copy on its own.")


@help_text.group("Model")
def define_vocabulary_flags() -> None:
    """Defines the flags of the vocabulary, its casing and its accents."""
    flags.DEFINE_string("spm_model_file", None, "Path of the SentencePiece model. Default: the one that comes with the "
                        "weights.")
    flags.DEFINE_string("vocab_file", None,
                        "Path of the WordPiece vocabulary, for models without a SentencePiece model. Default: the "
                        "one that comes with the weights.")
    flags.DEFINE_bool("do_lower_case", None,
                      "Whether to lower-case text. Default: as stored with the weights or the vocabulary, or true if "
                      "nothing is stored.")
    flags.DEFINE_bool("keep_accents", None,
                      "Whether to keep accents. Default: as stored with the weights or the vocabulary, or false if "
                      "nothing is stored.")


@help_text.group("Model")
def define_pooling_flags(default: str = "mean", with_normalize: bool = True) -> None:
    """Defines the flags of pooling, which makes the vector of a text from the vectors of its tokens.

    Args:
      default: the pooling if none is stored with the weights.
      with_normalize: whether to define --normalize.
    """
    flags.DEFINE_enum("pooling", None, POOLINGS,
                      "The vector of a text: the mean or the maximum over its tokens, the vector of [CLS] (cls), or "
                      "the pooled output (pooler). Default: the pooling that is stored with the weights, or "
                      f"{default} if none is stored.")
    if with_normalize:
        flags.DEFINE_bool("normalize", None, "Whether to scale the vectors of texts to length 1. Default: as stored "
                          "with the weights, or false if nothing is stored.")


@help_text.group("Model")
def define_checkpoint_name_flag() -> None:
    """Defines the release's flag of a checkpoint in --albert_directory."""
    flags.DEFINE_string("checkpoint_name", BEST, "Name of the checkpoint in --albert_directory. If the default does "
                        "not exist, it is the latest or the only checkpoint.")


def checkpoint_in(directory: str) -> str:
    """The path of --checkpoint_name, or the directory itself if the flag is not set and its default does not exist."""
    path = os.path.join(directory, FLAGS.checkpoint_name)
    is_set = not FLAGS["checkpoint_name"].using_default_value
    return path if is_set or not is_url(directory) and tf.io.gfile.exists(f"{path}.index") else directory


def init_path() -> str | None:
    """The path of the initial weights, as an argument of load_checkpoint; None for random weights.

    Raises:
      ValueError: both flags of the initial weights are set.
    """
    if FLAGS.init_checkpoint and FLAGS.albert_hub_module_handle:
        raise ValueError("--init_checkpoint and --albert_hub_module_handle exclude each other: set one of them")
    return FLAGS.init_checkpoint or FLAGS.albert_hub_module_handle


def resolve(*heads: str) -> ResolvedModel:
    """The model that the flags select. A command calls this once, before it reads other files or writes any.

    Args:
      *heads: the names of the heads that a training script can use (see ResolvedModel).

    Raises:
      ValueError: see ResolvedModel and init_path.
    """
    trains = "do_train" in FLAGS
    dropout = {name: FLAGS[name].value for name in ("hidden_dropout_prob", "attention_probs_dropout_prob")
               if name in FLAGS and FLAGS[name].value is not None}
    has_vocabulary = "spm_model_file" in FLAGS
    request = ModelRequest(
        init_path(), FLAGS.albert_hub_module_handle, FLAGS.albert_config_file,
        "unshare_layers" in FLAGS and FLAGS.unshare_layers, dropout,
        vocabulary_from_flags() if has_vocabulary else VocabularyFiles(),
        FLAGS.output_dir if trains else None, FLAGS.do_train if trains else None,
        tuple(FLAGS.ensemble_checkpoints) if "ensemble_checkpoints" in FLAGS else ())
    return ResolvedModel(request, heads)


def vocabulary_from_flags() -> VocabularyFiles:
    """What the flags of the vocabulary set, for VocabularyFiles.replaced_by; empty if none is set."""
    return VocabularyFiles(FLAGS.spm_model_file, FLAGS.vocab_file, FLAGS.do_lower_case, FLAGS.keep_accents)


def sentence_pooling(model: ResolvedModel, default: str = "mean") -> SentencePooling:
    """The pooling, normalization and length of --pooling, --normalize and --max_seq_length.

    If a flag is not set or not defined, the value is the one stored with the weights, the run in --output_dir or the
    ensemble.

    Args:
      model: the result of `resolve`.
      default: the pooling if none is stored.
    """
    source = model.stored
    stored = source.settings.sentence_pooling if source else None
    pooling = pooling_from_flags(stored or SentencePooling(default))
    return model.setting("sentence_pooling", pooling, "pooling, --normalize or --max_seq_length") or pooling


def pooling_from_flags(stored: SentencePooling) -> SentencePooling:
    """`stored` with the values of --pooling, --normalize and --max_seq_length if these flags are set."""
    names = (field.name for field in dataclasses.fields(SentencePooling))
    values = {name: FLAGS[name].value for name in names if name in FLAGS}
    return dataclasses.replace(stored, **{name: value for name, value in values.items() if value is not None})


def pooling_arguments(selected: ResolvedModel, model: str) -> dict[str, Any]:
    """The pooling arguments of a model's constructor, from the flags of define_pooling_flags.

    Args:
      selected: the result of `resolve`.
      model: the kind of model (see from_pretrained). Only the sentence encoder has such arguments.

    Raises:
      ValueError: a flag of pooling is set for another model.
    """
    if model == "sentence_encoder":
        return dataclasses.asdict(sentence_pooling(selected))
    for name in ("pooling", "normalize"):
        if FLAGS[name].value is not None:
            raise ValueError(f"--{name} is for --model=sentence_encoder. Received: --model={model}")
    return {}


def default_length(model: ResolvedModel, largest: int) -> int:
    """The default of --max_seq_length in a fine-tuning script. It can be called before setup.set_up.

    It is the length that the run in --output_dir was trained with. If nothing is trained and there is no run, it is
    that of the weights that predict. If these have no length, it is `largest`, or max_position_embeddings if that is
    smaller. A config that cannot be read is not an error here but in ResolvedModel.config, which is used after
    setup.set_up has checked the flags.
    """
    stored = model.settings.max_seq_length
    if stored:
        return stored
    try:
        source = None if FLAGS.albert_config_file else model.stored
        if source and source.module:  # its config has no limit, and would run its graph
            return largest
        return min(largest, model.config.max_position_embeddings)
    except ValueError:
        return largest


def check_length(max_seq_length: int | None, config: AlbertConfig) -> None:
    """Raises ValueError if --max_seq_length is set and larger than max_position_embeddings."""
    if max_seq_length and max_seq_length > config.max_position_embeddings:
        raise ValueError(f"--max_seq_length={max_seq_length} is more than the config's max_position_embeddings, "
                         f"{config.max_position_embeddings}: set it to that number or less")

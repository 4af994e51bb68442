"""The flags that select a model, and functions that make its config, weights, vocabulary and pooling of them."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import tensorflow as tf
from absl import flags

from albert_tf import help, keras
from albert_tf.config import AlbertConfig
from albert_tf.finite import define_float
from albert_tf.interchange.download import is_url
from albert_tf.interchange.from_pretrained import build, warn_of_random_parts
from albert_tf.interchange.heads import head_of_variables
from albert_tf.interchange.open_source import open_source
from albert_tf.interchange.restoring import RestoreReport
from albert_tf.interchange.settings import Settings
from albert_tf.interchange.source import Source
from albert_tf.interchange.unsharing import unshared_config
from albert_tf.interchange.vocabulary_files import VocabularyFiles
from albert_tf.interchange.weights_reader import WeightsReader
from albert_tf.modeling.pooling import POOLINGS, SentencePooling
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.training.checkpoints import BEST
from albert_tf.training.several_runs import checkpoint_of

FLAGS = flags.FLAGS
# The flags of this module, for the manifests of what is computed with a model.
MODEL_FLAGS = ("init_checkpoint", "albert_hub_module_handle", "albert_config_file", "spm_model_file", "vocab_file",
               "do_lower_case", "keep_accents")


@help.group("Model")
def define_source_flags() -> None:
    """Defines the flags that select a model's config and weights."""
    flags.DEFINE_string("albert_config_file", None,
                        "Path of the model's albert_config.json, or the name of a published size "
                        "(albert_base_v2). Default: the config of the weights.")
    flags.DEFINE_string("init_checkpoint", None,
                        "Initial weights: a released directory or its .tar.gz (a path or a URL), a checkpoint, a "
                        "run's directory, a Hugging Face folder, a TF-Hub module whose variables have the release's "
                        "names, or albert_tiny_en, which comes with the package.")
    flags.DEFINE_string("albert_hub_module_handle", None,
                        "Path or URL of a TF-Hub module with the initial weights, instead of --init_checkpoint. A TF2 "
                        "module whose variables do not have the release's names is used by running its own graph, so "
                        "use only modules that you trust.")


@help.group("Model")
def define_model_flags() -> None:
    """Defines the flags of a model to train: config, initial weights, dropout and sharing."""
    define_source_flags()
    define_float("hidden_dropout_prob", None, "Dropout rate, from 0 to 1, of the embeddings and of each layer's "
                 "outputs in training. Default: the config's.")
    define_float("attention_probs_dropout_prob", None, "Dropout rate, from 0 to 1, of the attention probabilities in "
                 "training. Default: the config's.")
    flags.DEFINE_bool("unshare_layers", False, "Whether to give each layer its own copy of the weights that layers "
                      "share. The outputs are the same at the start; training then changes each copy on its own.")


@help.group("Model")
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


@help.group("Model")
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


@help.group("Model")
def define_checkpoint_name_flag() -> None:
    """Defines the release's flag of a checkpoint in --albert_directory."""
    flags.DEFINE_string("checkpoint_name", BEST, "Name of the checkpoint in --albert_directory. If the default does "
                        "not exist, it is the latest or the only checkpoint.")


def checkpoint_in(directory: str) -> str:
    """The path of --checkpoint_name, or the directory itself if the flag is not set and its default does not exist."""
    path = os.path.join(directory, FLAGS.checkpoint_name)
    is_set = not FLAGS["checkpoint_name"].using_default_value
    return path if is_set or not is_url(directory) and tf.io.gfile.exists(f"{path}.index") else directory


def starting_point() -> str | None:
    """The path of the initial weights, as an argument of load_checkpoint; None for random weights."""
    if FLAGS.init_checkpoint and FLAGS.albert_hub_module_handle:
        raise ValueError("--init_checkpoint and --albert_hub_module_handle exclude each other: set one of them")
    return FLAGS.init_checkpoint or FLAGS.albert_hub_module_handle


def _open(path: str) -> Source:
    return open_source(path, path == FLAGS.albert_hub_module_handle)


def _model_path() -> str | None:
    """The path that has the config and the vocabulary if no flag sets them.

    This is the initial weights, or the run in --output_dir, or the first of --ensemble_checkpoints.
    """
    ensemble = FLAGS.ensemble_checkpoints if "ensemble_checkpoints" in FLAGS else []
    return starting_point() or _run() or next(iter(ensemble), None)


def _run() -> str | None:
    """The checkpoint of the best run in a training script's --output_dir; None if there is none."""
    return checkpoint_of(FLAGS.output_dir) if "do_train" in FLAGS and FLAGS.output_dir else None


def _predicting_path() -> str | None:
    """The path of the weights that predict: the run in --output_dir, or what _model_path returns if there is none."""
    return _run() or _model_path()


def config() -> AlbertConfig:
    """The model's config, with the dropout and the sharing that the flags set.

    It is that of --albert_config_file, or of the initial weights, the run in --output_dir or the ensemble.
    """
    path = None if FLAGS.albert_config_file else _model_path()
    if FLAGS.albert_config_file:
        model_config = AlbertConfig.from_file_or_preset(FLAGS.albert_config_file)
    elif path:
        model_config = _open(path).config
    else:
        raise ValueError(_no_model())
    if "unshare_layers" in FLAGS and FLAGS.unshare_layers:
        model_config = unshared_config(model_config)
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    values = {name: FLAGS[name].value for name in names if name in FLAGS}
    return model_config.replace(**{name: value for name, value in values.items() if value is not None})


def _no_model() -> str:
    """The error message if neither flags nor a run tell the model."""
    weights = "set --init_checkpoint to weights, for example albert_tiny_en"
    if "do_train" not in FLAGS:
        return f"the model is missing: {weights}"
    if FLAGS.do_train:
        return f"the model is missing: {weights}, or --albert_config_file to start from random weights"
    return (f"there is no checkpoint in --output_dir={FLAGS.output_dir}: set it to the directory of a run, or set "
            "--init_checkpoint to weights that were trained for this task")


def pretrained(model: str, **arguments) -> keras.Model:
    """The model with the weights of --init_checkpoint or --albert_hub_module_handle.

    Args:
      model, arguments: see from_pretrained.
    """
    built, report = _pretrained(model, **arguments)
    warn_of_random_parts(model, report, str(starting_point()))
    return built


def pretrained_masked_lm() -> AlbertPretrainer:
    """The pretrainer with the weights of --init_checkpoint, for scripts that need its masked-LM head.

    Raises:
      ValueError: the weights have no masked-LM head, whose predictions would be random.
    """
    model, report = _pretrained("pretrainer")
    missing = [name for name in report.not_restored if name.startswith("cls/predictions/")]
    if missing:
        raise ValueError(f"{starting_point()} has no masked-LM head: {', '.join(missing)} are missing")
    return model


def _pretrained(model: str, **arguments) -> tuple[keras.Model, RestoreReport]:
    path = starting_point()
    if not path:
        raise ValueError("--init_checkpoint is missing")
    return build(_open(path), model, config() if FLAGS.albert_config_file else None, **arguments)


def weights_reader(init_from_group0: bool = False) -> WeightsReader:
    """A reader of weights, which trusts only --albert_hub_module_handle to run a module's own graph."""
    return WeightsReader(FLAGS.albert_hub_module_handle, init_from_group0, FLAGS.unshare_layers)


def vocabulary() -> VocabularyFiles:
    """The vocabulary of --spm_model_file or --vocab_file, or that of the run in --output_dir, or of other weights."""
    run = _run()
    return _vocabulary(run if run and _open(run).vocabulary else _model_path())


def starting_vocabulary() -> VocabularyFiles:
    """The vocabulary of --spm_model_file or --vocab_file, or that of --init_checkpoint; empty if there is none."""
    return _vocabulary(starting_point())


def vocabulary_from_flags() -> VocabularyFiles:
    """What the flags of the vocabulary set, for VocabularyFiles.replaced_by; empty if none is set."""
    return VocabularyFiles(FLAGS.spm_model_file, FLAGS.vocab_file, FLAGS.do_lower_case, FLAGS.keep_accents)


def _vocabulary(path: str | None) -> VocabularyFiles:
    stored = _open(path).vocabulary if path else VocabularyFiles()
    return stored.replaced_by(vocabulary_from_flags())


def head_of_weights() -> str | None:
    """The head (see from_pretrained) of the run in --output_dir, or of the initial weights; None without weights."""
    path = _predicting_path()
    return head_of_variables(_open(path).shapes).name if path else None


def settings() -> Settings:
    """The settings that are stored with the run in --output_dir, or with other weights if there is no run."""
    path = _predicting_path()
    return settings_of_weights(path) if path else Settings()


def settings_to_follow() -> Settings:
    """The result of `settings` if nothing is trained. A training follows its flags, so it has the default settings."""
    return Settings() if FLAGS.do_train else settings()


def settings_of_weights(path: str) -> Settings:
    """The settings that are stored with the weights at a path (see open_source)."""
    return _open(path).settings


def label_names() -> tuple[str, ...]:
    """The names of the model's labels, which are stored with its weights.

    Raises:
      ValueError: there is no model, or its labels have no names.
    """
    names = settings().label_names
    if names is None:
        raise ValueError("the tags are unknown: no label names are stored with the weights, and --train_file, which "
                         "has all tags, is missing")
    return names


def sentence_pooling(default: str = "mean") -> SentencePooling:
    """The pooling, normalization and length of --pooling, --normalize and --max_seq_length.

    If a flag is not set or not defined, the value is the one stored with the weights, the run in --output_dir or the
    ensemble.

    Args:
      default: the pooling if none is stored.
    """
    return pooling_from_flags(settings().sentence_pooling or SentencePooling(default))


def pooling_from_flags(stored: SentencePooling) -> SentencePooling:
    """`stored` with the values of --pooling, --normalize and --max_seq_length if these flags are set."""
    names = (field.name for field in dataclasses.fields(SentencePooling))
    values = {name: FLAGS[name].value for name in names if name in FLAGS}
    return dataclasses.replace(stored, **{name: value for name, value in values.items() if value is not None})


def pooling_arguments(model: str) -> dict[str, Any]:
    """The pooling arguments of a model's constructor, from the flags of define_pooling_flags.

    Args:
      model: the kind of model (see from_pretrained). Only the sentence encoder has such arguments.

    Raises:
      ValueError: a flag of pooling is set for another model.
    """
    if model == "sentence_encoder":
        return dataclasses.asdict(sentence_pooling())
    for name in ("pooling", "normalize"):
        if FLAGS[name].value is not None:
            raise ValueError(f"--{name} is for --model=sentence_encoder. Received: --model={model}")
    return {}


def default_length(largest: int) -> int:
    """The default of --max_seq_length in a fine-tuning script. It can be called before start.set_up.

    It is the length that the run in --output_dir was trained with. If nothing is trained and there is no run, it is
    that of the weights that predict. If these have no length, it is `largest`, or max_position_embeddings if that is
    smaller. A config that cannot be read is not an error here but in `config`, which is called after start.set_up has
    checked the flags.
    """
    used = _run() or (None if FLAGS.do_train else next(iter(FLAGS.ensemble_checkpoints), starting_point()))
    stored = _open(used).settings.max_seq_length if used else None
    if stored:
        return stored
    model_path = None if FLAGS.albert_config_file else _model_path()
    try:
        if model_path and _open(model_path).module:  # its config has no limit, and would run its graph
            return largest
        return min(largest, config().max_position_embeddings)
    except ValueError:
        return largest


def check_length(max_seq_length: int | None, config: AlbertConfig) -> None:
    """Raises ValueError if --max_seq_length is set and larger than max_position_embeddings."""
    if max_seq_length and max_seq_length > config.max_position_embeddings:
        raise ValueError(f"--max_seq_length={max_seq_length} is more than the config's max_position_embeddings, "
                         f"{config.max_position_embeddings}: set it to that number or less")

"""The options that select a model: its weights, config and vocabulary, its head, its layers.

These configs are made before TensorFlow is imported.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Annotated, Mapping

from albert_tf.options import Config
from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.weights.heads import HEAD_NAMES
from albert_tf.weights.runs import BEST
from albert_tf.weights.vocabulary import VocabularyFiles

# The options of a Source, for the manifests of what is computed with a model.
SOURCE_OPTIONS = ("init_checkpoint", "albert_hub_module_handle", "albert_config_file", "spm_model_file", "vocab_file",
                  "do_lower_case", "keep_accents")


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularySource(Config, group="Model"):
    """A vocabulary, its casing and its accents."""

    spm_model_file: Annotated[
        str | None, "Path of the SentencePiece model. Default: the one that comes with the weights, if there are "
        "any."] = None
    vocab_file: Annotated[
        str | None, "Path of the WordPiece vocabulary, for models without a SentencePiece model: it is ignored if "
        "--spm_model_file is set. Default: the one that comes with the weights, if there are any."] = None
    do_lower_case: Annotated[
        bool | None, "Whether to lower-case text. Default: as stored with the weights or the vocabulary, or true if "
        "nothing is stored."] = None
    keep_accents: Annotated[
        bool | None, "Whether to keep accents, which the release removes. Default: as stored with the weights or the "
        "vocabulary, or false if nothing is stored."] = None

    @property
    def user_vocabulary(self) -> VocabularyFiles:
        """What the options set, for VocabularyFiles.with_overrides; empty if none is set."""
        return VocabularyFiles(self.spm_model_file, self.vocab_file, self.do_lower_case, self.keep_accents)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source(VocabularySource, group="Model"):
    """A model: its weights, its config and its vocabulary."""

    albert_config_file: Annotated[
        str | None, "Path of the model's albert_config.json, or the name of a published size (albert_base_v2). "
        "Default: the config of the weights."] = None
    init_checkpoint: Annotated[
        str | None, "Initial weights: a released directory or its .tar.gz (a path or a URL), a checkpoint, a run's "
        "directory (of several runs the best), a Hugging Face folder, a file of PL-BERT, a preset of keras-hub, "
        "hf://org/name[@revision][/subfolder] on the Hugging Face Hub, a TF-Hub module, or albert_tiny_en, which comes "
        "with the package."] = None
    albert_hub_module_handle: Annotated[
        str | None, "Path or URL of a TF-Hub module with the initial weights, instead of --init_checkpoint."] = None
    unshare_layers: bool = False

    @property
    def init_path(self) -> str | None:
        """The path of the initial weights; None for random weights."""
        if self.init_checkpoint and self.albert_hub_module_handle:
            raise ValueError("--init_checkpoint and --albert_hub_module_handle exclude each other: set one of them")
        return self.init_checkpoint or self.albert_hub_module_handle

    @property
    def dropout(self) -> Mapping[str, float]:
        """The dropout rates that replace the config's, by their names in the config."""
        return {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainedSource(Source, group="Model"):
    """A model to train: also its dropout and its sharing."""

    hidden_dropout_prob: Annotated[
        float | None, "Dropout rate, from 0 to 1, of the embeddings and of each layer's outputs in training. Default: "
        "the rate in the config."] = None
    attention_probs_dropout_prob: Annotated[
        float | None, "Dropout rate, from 0 to 1, of the attention probabilities in training. Default: the "
        "rate in the config."] = None
    unshare_layers: Annotated[
        bool, "Whether to give each layer a copy of the weights that layers share. The outputs are the same at the "
        "start; training then changes each copy separately."] = False

    @property
    def dropout(self) -> Mapping[str, float]:
        """The rates that are set."""
        rates = dict(hidden_dropout_prob=self.hidden_dropout_prob,
                     attention_probs_dropout_prob=self.attention_probs_dropout_prob)
        return {name: rate for name, rate in rates.items() if rate is not None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadChoice(Config, group="Model"):
    """The head of a model (see ChosenModel.head)."""

    model: Annotated[
        str | None, OneOf(HEAD_NAMES), "The kind of model, which decides which head it has; encoder: none. Default: as "
        "stored with the weights, or inferred from the names of the variables."] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class FirstLayers(Config, group="Model"):
    """A model that is cut after one of its first layers."""

    num_layers: Annotated[
        int | None, bounds.LAYERS, "Number of layers, from the first on, that a trained model is cut to. Unless it was "
        "trained for that number (--distillation_depths), it may need further training. Default: all."] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReleasedCheckpoint(Config, group="Model"):
    """The release's option of a checkpoint in --albert_directory."""

    checkpoint_name: Annotated[
        str | None, f"Name of the checkpoint in --albert_directory. Default: {BEST}, or if it does not exist the "
        "latest or the only checkpoint."] = None

    def checkpoint_in(self, directory: str) -> str:
        """The path of the checkpoint, or the directory itself if nothing is set and the default does not exist."""
        from albert_tf.weights.stored_model import is_url

        path = os.path.join(directory, self.checkpoint_name or BEST)
        is_set = self.checkpoint_name is not None
        return path if is_set or not is_url(directory) and tf.io.gfile.exists(f"{path}.index") else directory


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sharing(Config):
    """A model that becomes smaller, or gets wider embeddings."""

    kept_layers: Annotated[
        tuple[int, ...], bounds.LAYERS, "Comma-separated numbers of the layers that the written model has, such as "
        "2,4,6 for every second layer of a BERT or of an ALBERT without sharing; it then needs further training. "
        "Default: all."] = ()
    embedding_size: Annotated[
        int | None, bounds.Bounds(1, 2**16), "Another embedding size (E) for the written model, which then needs "
        "further training. A larger one: new columns are random, and the weights that read them start at zero. A "
        "smaller one, for a BERT: a singular value decomposition of the word table."] = None
    share_layers: Annotated[
        int | None, bounds.LAYERS, "Number of groups of layers in the written model, from a BERT or an ALBERT without "
        "sharing. The layers of a group share the means of their weights, so the model needs further training. 1: all "
        "layers share."] = None

"""ResolvedModel: the model of a command, found once: path, config, vocabulary, settings and head.

A training script looks for the model in this order::

    with --do_train     the run in --output_dir, which is continued with its own config; else the flags and the initial
                        weights
    without --do_train  the run in --output_dir; else --ensemble_checkpoints; else --init_checkpoint

A run keeps what it was trained with. If a flag contradicts it, training ends with an error, since the weights would get
another meaning; evaluation, prediction and export use the run's value and log a warning.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
import os
from typing import Any, Callable, Collection, Sequence, TypeVar

import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import CONFIG_NAME, AlbertConfig, described
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training.checkpoints import numbered
from albert_tf.training.evaluation import checkpoint_of
from albert_tf.utils.files import read_bytes
from albert_tf.weights.from_pretrained import RestoreReport, build, warn_of_random_parts
from albert_tf.weights.heads import head_named
from albert_tf.weights.settings import Settings, VocabularyFiles, declared, settings_in, vocabulary_in
from albert_tf.weights.source import Source
from albert_tf.weights.stored_model import (
    StoredModel,
    config_of,
    first_layers,
    head_of_source,
    heads_of_source,
    is_url,
    open_source,
    unshared,
    unshared_config,
)

Value = TypeVar("Value")


class ResolvedModel:
    """The model of a command. Sources are opened when they are first needed, and only once.

    Args:
      source: the options that select the model.
      heads: the names of the heads that the command can use; empty for any.
      output_dir: the directory of the runs of a training; None for what does not train.
      do_train: whether a run is trained now; None for what never trains.
      ensemble: paths of checkpoints whose predictions are averaged.
      num_layers: the number of layers that models are cut to; None for all.

    Raises:
      ValueError: the run in output_dir is that of another task; it is to be continued and the flags contradict it; or
        members of the ensemble read texts in different ways. Nothing has been written then.
    """

    def __init__(self, source: Source, heads: Collection[str] = (), output_dir: str | None = None,
                 do_train: bool | None = None, ensemble: Sequence[str] = (), num_layers: int | None = None):
        self.source, self.output_dir, self.do_train, self.num_layers = source, output_dir, do_train, num_layers
        self.init_path = source.init_path
        path = checkpoint_of(output_dir) if output_dir else None
        if num_layers and do_train:
            raise ValueError("--num_layers cuts a trained model: train without it, then evaluate, predict or export")
        self.run: StoredModel | None = first_layers(self._open_run(path), num_layers) if path else None
        self.members = tuple(map(self.open, self._written_before(ensemble)))
        if heads:
            self.check_head(heads)
        for member in self.members:
            _check_has_config(member)
        _check_members([*([self.run] if self.run and not do_train else []), *self.members])
        if self.run:
            differences = list(filter(None, (self._config_difference(), *self._vocabulary_differences())))
            if differences:
                self._warn_or_refuse(differences)

    def open(self, path: str) -> StoredModel:
        """Opens weights, cut to num_layers, and with a copy for each layer if they are to be unshared."""
        source = first_layers(open_source(path), self.num_layers)
        return unshared(source) if self.source.unshare_layers and path == self.init_path else source

    def build(
        self, make: Callable[[], Any], path: str | None, init_from_group0: bool = False
    ) -> tuple[Any, RestoreReport | None]:
        """A task with the weights at a path (random ones for None), and a report of what was restored."""
        return build(self.open(path), make, init_from_group0=init_from_group0) if path else (make(), None)

    @functools.cached_property
    def initial(self) -> StoredModel | None:
        """The initial weights; None if there are none."""
        path = self.init_path
        if path and self.run:  # they do not predict
            return open_source(path)
        return self.open(path) if path else None

    @property
    def stored(self) -> StoredModel | None:
        """The stored model that has config, vocabulary and settings; None for a new model."""
        if self.run or self.do_train:
            return self.run or self.initial
        return self.members[0] if self.members else self.initial

    @functools.cached_property
    def config(self) -> AlbertConfig:
        """The model's config: that of the run, or the one that the flags and the initial weights give."""
        config = self._run_config or self._new_config()
        is_kept = self.run is not None and not self.do_train
        return config if is_kept else config.replace(**self.source.dropout)

    @functools.cached_property
    def vocabulary(self) -> VocabularyFiles:
        """The vocabulary of the run, with the user's options where nothing is stored; or that of the flags or weights.

        It is empty if there is none.
        """
        user = self.source.user_vocabulary
        if self.run and self.run.vocabulary:
            stored = self.run.vocabulary
            return dataclasses.replace(stored, **stored.options.with_defaults(user.options)._asdict())
        others = self.initial if self.run else self.stored
        return (others.vocabulary if others else VocabularyFiles()).with_overrides(user)

    @property
    def settings(self) -> Settings:
        """The settings that are stored with the run, or with the weights that predict.

        Those of initial weights to train do not count, since they are those of another task.
        """
        source = self.run or (None if self.do_train else self.stored)
        return source.settings if source else Settings()

    @property
    def heads(self) -> set[str]:
        """The names of the heads that the stored weights may have been trained with; empty without weights."""
        source = self.run or self.stored
        return heads_of_source(source) if source else set()

    def head(self, requested: str | None) -> str:
        """The head to build: the requested one, or that of the initial weights ("encoder" without a head)."""
        return requested or head_of_source(self._weights)

    def effective_value(self, name: str, requested: Value | None, flag: str | None = None) -> Value | None:
        """The value of a setting: the run's, or the user's, or the stored one.

        If the user wants another value than the run's, continuing it is an error, and all else logs a warning.
        """
        stored: Value | None = getattr(self.settings, name)
        if requested is None or stored is None or stored == requested:
            return stored if requested is None else requested
        if self.run is None:
            return requested
        self._warn_or_refuse([f"{name} is {_shown(stored)} in the run and {_shown(requested)} in --{flag or name}"])
        return stored

    def check_head(self, heads: Collection[str]) -> None:
        """Raises ValueError, which names the task of the run in output_dir, if the run has none of these heads."""
        trained_heads = heads_of_source(self.run) if self.run else set()
        if trained_heads and not trained_heads & set(heads):
            tasks = " or ".join(head_named(name).task for name in sorted(trained_heads))
            wanted = " or ".join(head_named(name).task for name in heads)
            raise ValueError(f"--output_dir={self.output_dir} has a run of {tasks}, and this is {wanted}: "
                             "choose another --output_dir")

    def pretrained(self, model: str, **arguments) -> keras.Model:
        """The model with the initial weights. Warns of parts with random values."""
        built, report = self._pretrained(model, **arguments)
        warn_of_random_parts(model, report, str(self.init_path))
        return built

    def pretrained_masked_lm(self) -> AlbertPretrainer:
        """The pretrainer with the initial weights, for scripts that need its masked-LM head."""
        model, report = self._pretrained("pretrainer")
        missing = [name for name in report.not_restored if name.startswith("cls/predictions/")]
        if missing:
            raise ValueError(f"{self.init_path} has no masked-LM head: {', '.join(missing)} are missing")
        return model

    def _pretrained(self, model: str, **arguments) -> tuple[keras.Model, RestoreReport]:
        return build(self._weights, model, self.config if self.source.albert_config_file else None, **arguments)

    @property
    def _weights(self) -> StoredModel:
        """The initial weights. Raises ValueError if there are none."""
        if not self.initial:
            raise ValueError("--init_checkpoint is missing")
        return self.initial

    def _written_before(self, ensemble: Sequence[str]) -> list[str]:
        """The members of the ensemble, without checkpoints that this training is to write."""
        if not (self.do_train and self.output_dir):
            return list(ensemble)
        directory = os.path.join(os.path.normpath(self.output_dir), "")
        return [path for path in ensemble if not os.path.join(os.path.normpath(path), "").startswith(directory)]

    def _open_run(self, path: str) -> StoredModel:
        """The run's checkpoint. A damaged one is not an error yet: training and evaluation pass over it."""
        directory = os.path.dirname(path)
        for prefix in (path, *reversed(numbered(directory).values())):
            try:
                return open_source(prefix)
            except ValueError as error:
                logging.warning("%s", error)
        return StoredModel(path, {}, lambda name: None, lambda: AlbertConfig.from_json_file(
            os.path.join(directory, CONFIG_NAME)), vocabulary_in(directory), settings_in(directory))

    @functools.cached_property
    def _run_config(self) -> AlbertConfig | None:
        """The config of the run; None if there is no run, or a run without a config."""
        if self.run is None:
            return None
        # Not that of the source: with adapters of layers, the source is the merged model, which shares nothing.
        path = os.path.join(os.path.dirname(self.run.path), CONFIG_NAME)
        return AlbertConfig.from_json_file(path) if tf.io.gfile.exists(path) else None

    def _new_config(self) -> AlbertConfig:
        """The config of the flags or the stored weights."""
        config_file, stored = self.source.albert_config_file, self.initial or self.run if self.run else self.stored
        if config_file and self.num_layers:
            raise ValueError("--num_layers cuts a trained model with its own config: remove --albert_config_file")
        if config_file:
            config = AlbertConfig.from_file_or_preset(config_file)
        elif stored:
            config = stored.config
        else:
            raise ValueError(self._no_model())
        return unshared_config(config) if self.source.unshare_layers else config

    def _no_model(self) -> str:
        """The error message if neither flags nor a run tell the model."""
        weights = "set --init_checkpoint to weights, for example albert_tiny_en"
        if self.do_train is None:
            return f"the model is missing: {weights}"
        if self.do_train:
            return f"the model is missing: {weights}, or --albert_config_file to start from random weights"
        return (f"there is no checkpoint in --output_dir={self.output_dir}: set it to the directory of a run, or "
                "set --init_checkpoint to weights that were trained for this task")

    def _warn_or_refuse(self, differences: list[str]) -> None:
        """Warns that the flags contradict the run, or raises ValueError if it is to be continued."""
        if self.do_train:
            raise ValueError(f"the run in --output_dir={self.output_dir} cannot be continued with these flags: "
                             f"{'; '.join(differences)}. Set the values of the run, or another --output_dir")
        for difference in differences:
            logging.warning("%s: the run in --output_dir=%s is used as it was trained", difference,
                            self.output_dir)

    def _config_difference(self) -> str | None:
        """In which values the config of the flags differs from that of the run; None if it does not."""
        source, run_config = self.source, self._run_config
        if run_config is None:
            return None
        flag, config = "--unshare_layers", run_config if source.unshare_layers else None
        if source.albert_config_file:
            flag, config = "--albert_config_file", AlbertConfig.from_file_or_preset(source.albert_config_file)
        elif self.init_path and not is_url(self.init_path):
            flag, config = "--init_checkpoint", self._initial_config()
        if config and source.unshare_layers:
            config = unshared_config(config)
        return described(run_config.differences(config), "the run", flag) or None if config else None

    def _initial_config(self) -> AlbertConfig | None:
        """The config of the initial weights, which a run that exists does not need; None if it cannot be read."""
        try:
            return config_of(self.initial) if self.initial else None
        except ValueError as error:
            logging.warning("%s; the run in --output_dir=%s does not need it", error, self.output_dir)
            return None

    def _vocabulary_differences(self) -> list[str]:
        user, stored = self.source.user_vocabulary, self.run.vocabulary if self.run else VocabularyFiles()
        differences = []
        if stored and user and tf.io.gfile.exists(user.path) and read_bytes(user.path) != read_bytes(stored.path):
            flag = "spm_model_file" if user.spm_model_file else "vocab_file"
            differences.append(f"the vocabulary is {stored.path} in the run and {user.path} in --{flag}")
        for name, kept in stored.options._asdict().items():
            value = getattr(user, name)
            if None not in (value, kept) and value != kept:
                differences.append(f"{name} is {kept} in the run and {value} in --{name}")
        return differences


def masked_lm(source: Source) -> tuple[AlbertPretrainer, FullTokenizer]:
    """The pretrainer that a source selects, for its masked-LM head, and its tokenizer."""
    selected = ResolvedModel(source)
    model = selected.pretrained_masked_lm()
    return model, selected.vocabulary.tokenizer(model.config)


def _check_has_config(member: StoredModel) -> None:
    """Raises ValueError if a member of an ensemble has no config, or a wrong one: that of another is not its own."""
    if config_of(member) is None:
        raise ValueError(f"{member.path} is a member of --ensemble_checkpoints and has no config: copy its "
                         f"{CONFIG_NAME} beside it")


def _check_members(sources: list[StoredModel]) -> None:
    """Raises ValueError, which names two sources, if they read texts or name labels in different ways."""
    for first, second in itertools.combinations(sources, 2):
        compared = {name for source in (first, second) for name, argument in declared(source.settings.head).items()
                    if argument.is_compared}
        readers: dict[str, Callable[[StoredModel], Any]] = {
            **{name: operator.attrgetter(f"settings.{name}") for name in sorted(compared)},
            "number of labels": StoredModel.num_labels, "vocabulary": _vocabulary}
        for name, read in readers.items():
            values = read(first), read(second)
            if None not in values and values[0] != values[1]:
                what = "they have other vocabularies" if name == "vocabulary" else (
                    f"{name} is {_shown(values[0])} in the first and {_shown(values[1])} in the second")
                raise ValueError(f"the predictions of {first.path} and {second.path} cannot be averaged: {what}")


def _vocabulary(source: StoredModel) -> tuple | None:
    """The content and the options of a vocabulary; None if there is none."""
    vocabulary = source.vocabulary
    return (read_bytes(vocabulary.path), vocabulary.do_lower_case is not False,
            bool(vocabulary.keep_accents)) if vocabulary else None


def _shown(value: Any) -> str:
    """A value for a message: names without quotes."""
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)

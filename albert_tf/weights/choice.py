"""The model of a command: its weights, config, vocabulary and settings, which `choose` determines at the start.

A run keeps what it was trained with. If a flag contradicts it, training ends with an error, since the weights would get
another meaning; evaluation, prediction and export use the run's value and log a warning.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from typing import Any, Callable, Collection, Iterator, Sequence, TypeVar

import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import CONFIG_NAME, AlbertConfig, described
from albert_tf.modeling.settings import Settings
from albert_tf.utils.files import read_bytes
from albert_tf.weights.from_pretrained import RestoreReport, build, warn_of_random_parts
from albert_tf.weights.heads import head_named
from albert_tf.weights.runs import best_or_latest, checkpoint_of, numbered, saved_runs
from albert_tf.weights.settings import remove_damaged_settings, settings_in
from albert_tf.weights.source import Source
from albert_tf.weights.stored_model import StoredModel, config_in, is_url, open_model
from albert_tf.weights.transforms import first_layers, unshared, unshared_config
from albert_tf.weights.vocabulary import VocabularyFiles, vocabulary_in

Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class Candidates:
    """The weights that the options of a command name. Each is opened once, when it is first needed."""

    source: Source = Source()
    output_dir: str | None = None  # the directory of the runs of a training; None for what does not train
    do_train: bool = False  # whether a run is trained now
    ensemble: Sequence[str] = ()  # paths of checkpoints, to average their predictions
    num_layers: int | None = None  # the number of layers that models are cut to; None for all

    @functools.cached_property
    def run(self) -> StoredModel | None:
        """The best checkpoint of the runs in output_dir, with all of its layers; None without one.

        A damaged one is not an error yet: training and evaluation pass over it.
        """
        if not self.output_dir:
            return None
        for directory in saved_runs(self.output_dir) if self.do_train else ():
            remove_damaged_settings(directory)
        best = checkpoint_of(self.output_dir)
        if not best:
            return None
        directory = os.path.dirname(best)
        for prefix in (best, *reversed(numbered(directory).values())):
            try:
                return open_model(prefix)
            except ValueError as error:
                logging.warning("%s", error)
        return StoredModel(best, {}, config_in(directory), vocabulary_in(directory), settings_in(directory))

    @functools.cached_property
    def members(self) -> dict[str, StoredModel]:
        """The ensemble by path, without checkpoints that this training is to write."""
        runs = os.path.join(os.path.normpath(self.output_dir), "") if self.output_dir and self.do_train else None
        return {path: self._open(path) for path in self.ensemble
                if not (runs and os.path.join(os.path.normpath(path), "").startswith(runs))}

    @functools.cached_property
    def initial(self) -> StoredModel | None:
        """The initial weights; None for random ones."""
        return self._open(self.source.init_path) if self.source.init_path else None

    def open(self, path: str) -> StoredModel:
        """The weights at a path. Those of a run are opened again, since trainings and evaluations replace them."""
        initial = self.initial if path == self.source.init_path else None
        return initial or self.members.get(path) or self._open(path)

    def config(self, stored: StoredModel | None) -> AlbertConfig:
        """The config of the flags or the stored weights."""
        source = self.source
        if source.albert_config_file and self.num_layers:
            raise ValueError("--num_layers cuts a trained model, which has a config: remove --albert_config_file")
        if source.albert_config_file:
            config = AlbertConfig.from_file_or_preset(source.albert_config_file)
        elif stored:
            config = stored.config
        elif self.output_dir and not self.do_train:
            raise ValueError(f"there is no checkpoint in --output_dir={self.output_dir}: set it to the directory of a "
                             "run, or set --init_checkpoint to weights that were trained for this task")
        else:
            raise ValueError("the model is missing: set --init_checkpoint to weights, for example albert_tiny_en"
                             + (", or --albert_config_file to start from random weights" if self.do_train else ""))
        return unshared_config(config) if source.unshare_layers else config

    def _open(self, path: str) -> StoredModel:
        model = first_layers(open_model(path), self.num_layers)
        return unshared(model) if self.source.unshare_layers and path == self.source.init_path else model


@dataclasses.dataclass(frozen=True)
class ChosenModel:
    """The model of a command."""

    config: AlbertConfig
    vocabulary: VocabularyFiles = VocabularyFiles()  # may be empty
    # Of the run, or of the weights that predict. Empty for a new run, since initial weights are of another task.
    settings: Settings = Settings()
    weights: StoredModel | None = None  # the run's, the first of an ensemble, or the initial ones; None: random
    candidates: Candidates = Candidates()

    @property
    def source(self) -> Source:
        """The options that select the model."""
        return self.candidates.source

    @property
    def run(self) -> StoredModel | None:
        """The best checkpoint of the run in output_dir; None without a run."""
        return self.weights if self.candidates.run else None

    @property
    def members(self) -> tuple[StoredModel, ...]:
        """The checkpoints of an ensemble, which averages their predictions."""
        return tuple(self.candidates.members.values())

    @property
    def trained(self) -> StoredModel | None:
        """The weights of the run, or those that predict; None for a new run."""
        return self.run if self.candidates.do_train else self.weights

    @property
    def heads(self) -> set[str]:
        """The names of the heads that the weights may have been trained with; empty without weights."""
        return self.weights.heads if self.weights else set()

    def open(self, path: str) -> StoredModel:
        """Opens weights, cut to num_layers, and with a copy for each layer if they are to be unshared."""
        return self.candidates.open(path)

    def build_objective(
        self, make: Callable[[], Any], directory: str, init_from_group0: bool = False
    ) -> tuple[Any, RestoreReport | None]:
        """An objective with the initial weights, and a report of what was restored; None if the weights are random.

        They are random, too, if the run in `directory` has checkpoints, since one of them is restored next.
        """
        has_checkpoints = (numbered if self.candidates.do_train else best_or_latest)(directory)
        initial = None if has_checkpoints else self.candidates.initial
        return build(initial, make, init_from_group0=init_from_group0) if initial else (make(), None)

    def head(self, requested: str | None) -> str:
        """The head to build: the requested one, or the head of the initial weights ("encoder" without a head)."""
        return requested or self._initial.head

    def effective_value(self, name: str, requested: Value | None, flag: str | None = None) -> Value | None:
        """The value of a setting: the run's, or the user's, or the stored one.

        If the user wants another value than the run's, continuing it is an error, and all else logs a warning.
        """
        stored: Value | None = getattr(self.settings, name, None)
        if requested is None or stored is None or stored == requested:
            return stored if requested is None else requested
        if not self.run:
            return requested
        self.refuse_or_warn([f"{name} is {_format(stored)} in the run and {_format(requested)} in --{flag or name}"])
        return stored

    def check_head(self, heads: Collection[str]) -> None:
        """Raises ValueError, which names the task of the run in output_dir, if the run has none of these heads."""
        trained_heads = self.heads if self.run else set()
        if heads and trained_heads and not trained_heads & set(heads):
            tasks = " or ".join(head_named(name).task for name in sorted(trained_heads))
            wanted = " or ".join(head_named(name).task for name in heads)
            raise ValueError(f"--output_dir={self.candidates.output_dir} has a run of {tasks}, and this is {wanted}: "
                             "choose another --output_dir")

    def refuse_or_warn(self, differences: Sequence[str]) -> None:
        """Raises ValueError if the flags contradict the run that is to be continued. Warns of another run."""
        output_dir = self.candidates.output_dir
        if self.candidates.do_train and differences:
            raise ValueError(f"the run in --output_dir={output_dir} cannot be continued with these flags: "
                             f"{'; '.join(differences)}. Set the values of the run, or another --output_dir")
        for difference in differences:
            logging.warning("%s: the run in --output_dir=%s is used as it was trained", difference, output_dir)

    def pretrained(self, model: str, **arguments: Any) -> keras.Model:
        """The model with the initial weights. Warns of parts with random values."""
        built, report = self.build_initial(model, **arguments)
        warn_of_random_parts(model, report, str(self.source.init_path))
        return built

    def build_initial(self, model: str, **arguments: Any) -> tuple[keras.Model, RestoreReport]:
        """The model with the initial weights, and a report of what was restored."""
        return build(self._initial, model, self.config if self.source.albert_config_file else None, **arguments)

    @property
    def _initial(self) -> StoredModel:
        """The initial weights. Raises ValueError if there are none."""
        if not self.candidates.initial:
            raise ValueError("--init_checkpoint is missing")
        return self.candidates.initial


def choose(source: Source, heads: Collection[str] = (), output_dir: str | None = None, do_train: bool = False,
           ensemble: Sequence[str] = (), num_layers: int | None = None) -> ChosenModel:
    """Chooses the model of a command: opens what is stored, and compares it with the options.

    Args:
      source: the options that select the model.
      heads: the names of the heads that the command can use; empty for any.
      output_dir: the directory of the runs of a training; None for what does not train.
      do_train: whether a run is trained now.
      ensemble: paths of checkpoints, to average their predictions.
      num_layers: the number of layers that models are cut to; None for all.

    Raises:
      ValueError: there is no model; the run in output_dir is of another task; it is to be continued and the flags
        contradict it; or members of the ensemble read texts in different ways. Nothing has been written then.
    """
    if num_layers and do_train:
        raise ValueError("--num_layers cuts a trained model: train without it, then evaluate, predict or export")
    candidates = Candidates(source, output_dir, do_train, ensemble, num_layers)
    run, members = candidates.run, [*candidates.members.values()]
    _check_members(members, run if not do_train else None)
    if run:  # which continues, or predicts
        initial = _initial_beside(run, candidates)
        weights = first_layers(run, num_layers)
        config = weights.optional_config or candidates.config(initial or run)
        config = config.replace(**source.dropout) if do_train else config
        model = ChosenModel(config, _vocabulary_of_run(run, source, initial), weights.settings, weights, candidates)
        model.check_head(heads)
        model.refuse_or_warn([*_config_differences(source, run.optional_config, initial),
                              *_vocabulary_differences(source.user_vocabulary, run.vocabulary)])
        return model
    if members and not do_train:  # an ensemble
        stored: StoredModel | None = members[0]
        settings = members[0].settings
    elif initial := candidates.initial:  # initial weights
        stored, settings = initial, Settings() if do_train else initial.settings
    else:  # a new model
        stored, settings = None, Settings()
    config = candidates.config(stored).replace(**source.dropout)
    vocabulary = (stored.vocabulary if stored else VocabularyFiles()).with_overrides(source.user_vocabulary)
    return ChosenModel(config, vocabulary, settings, stored, candidates)


def _initial_beside(run: StoredModel, candidates: Candidates) -> StoredModel | None:
    """The initial weights, to compare them with a run's; None if the run does not need them."""
    source = candidates.source
    if run.optional_config and run.vocabulary and (source.albert_config_file or is_url(source.init_path or "")):
        return None
    try:
        return candidates.initial
    except ValueError as error:
        if run.optional_config is None:
            raise
        logging.warning("%s; the run in --output_dir=%s does not need it", error, candidates.output_dir)
        return None


def _vocabulary_of_run(run: StoredModel, source: Source, initial: StoredModel | None) -> VocabularyFiles:
    """The run's vocabulary. The user's options apply where the run has none."""
    if run.vocabulary:
        options = run.vocabulary.options.with_defaults(source.user_vocabulary.options)
        return dataclasses.replace(run.vocabulary, **options._asdict())
    return (initial.vocabulary if initial else VocabularyFiles()).with_overrides(source.user_vocabulary)


def _config_differences(
    source: Source, run_config: AlbertConfig | None, initial: StoredModel | None
) -> Iterator[str]:
    """Each difference between the config of the flags and the run's config."""
    flag, config = "--unshare_layers", run_config if source.unshare_layers else None
    if source.albert_config_file:
        flag, config = "--albert_config_file", AlbertConfig.from_file_or_preset(source.albert_config_file)
    elif source.init_path and not is_url(source.init_path):
        flag, config = "--init_checkpoint", initial.optional_config if initial else None
    if config and source.unshare_layers:
        config = unshared_config(config)
    if run_config and config:
        yield from filter(None, [described(run_config.differences(config), "the run", flag)])


def _vocabulary_differences(user: VocabularyFiles, stored: VocabularyFiles) -> Iterator[str]:
    """Each difference between the user's and the run's vocabulary and its options."""
    if stored and user and tf.io.gfile.exists(user.path) and read_bytes(user.path) != read_bytes(stored.path):
        flag = "spm_model_file" if user.spm_model_file else "vocab_file"
        yield f"the vocabulary is {stored.path} in the run and {user.path} in --{flag}"
    for name, kept in stored.options._asdict().items():
        value = getattr(user, name)
        if None not in (value, kept) and value != kept:
            yield f"{name} is {kept} in the run and {value} in --{name}"


def _check_members(members: Sequence[StoredModel], run: StoredModel | None) -> None:
    """Raises ValueError if one has no config, or if two, or the run, read texts or name labels in different ways."""
    for member in members:
        if member.optional_config is None:  # another member's config may differ
            raise ValueError(f"{member.path} is a member of --ensemble_checkpoints and has no config: copy its "
                             f"{CONFIG_NAME} beside it")
    for first, second in itertools.combinations([*([run] if run else []), *members], 2):
        compared = sorted({*first.settings.compared_names()} & {*second.settings.compared_names()})
        for name, values in (
            *((name, (getattr(first.settings, name), getattr(second.settings, name))) for name in compared),
            ("number of labels", (first.num_labels(), second.num_labels())),
            ("vocabulary", (_content(first.vocabulary), _content(second.vocabulary))),
        ):
            if None not in values and values[0] != values[1]:
                what = "they have other vocabularies" if name == "vocabulary" else (
                    f"{name} is {_format(values[0])} in the first and {_format(values[1])} in the second")
                raise ValueError(f"the predictions of {first.path} and {second.path} cannot be averaged: {what}")


def _content(vocabulary: VocabularyFiles) -> tuple | None:
    """The content and the options of a vocabulary; None if there is none."""
    return (read_bytes(vocabulary.path), vocabulary.do_lower_case is not False,
            bool(vocabulary.keep_accents)) if vocabulary else None


def _format(value: Any) -> str:
    """A value for a message: names without quotes."""
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)

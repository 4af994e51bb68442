"""The model of a command: its weights, config, vocabulary and settings, which `resolve` determines at the start.

A training script looks for the model in this order::

    with --do_train     the run in --output_dir, which continues with its config; else the flags and the initial
                        weights
    without --do_train  the run in --output_dir; else --ensemble_checkpoints; else --init_checkpoint

A run keeps what it was trained with. If a flag contradicts it, training ends with an error, since the weights would get
another meaning; evaluation, prediction and export use the run's value and log a warning.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from typing import Any, Callable, Collection, Iterator, Sequence, TypeVar

import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import CONFIG_NAME, AlbertConfig, described
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.settings import Settings
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training.checkpoints import numbered, saved_runs
from albert_tf.training.evaluation import checkpoint_of
from albert_tf.utils.files import read_bytes
from albert_tf.weights.from_pretrained import RestoreReport, build, warn_of_random_parts
from albert_tf.weights.heads import head_named
from albert_tf.weights.settings import remove_damaged_settings, settings_in
from albert_tf.weights.source import Pooling, Source, check_no_pooling, replaced_pooling
from albert_tf.weights.stored_model import StoredModel, config_in, is_url, open_model
from albert_tf.weights.transforms import first_layers, unshared, unshared_config
from albert_tf.weights.vocabulary import VocabularyFiles, vocabulary_in

Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class ResolvedModel:
    """The model of a command, as `resolve` has found it."""

    source: Source  # the options that select the model
    config: AlbertConfig  # of the run, or of the options and the initial weights
    vocabulary: VocabularyFiles = VocabularyFiles()  # the run's, or that of the options and the weights; may be empty
    run: StoredModel | None = None  # the run in output_dir, with its best or latest checkpoint
    members: tuple[StoredModel, ...] = ()  # the checkpoints of an ensemble, which averages their predictions
    initial: StoredModel | None = None  # the initial weights, unless the run does not need them
    output_dir: str | None = None
    do_train: bool | None = None
    num_layers: int | None = None

    @property
    def stored(self) -> StoredModel | None:
        """The stored model that has config, vocabulary and settings; None for a new model."""
        return self.run or (self.members[0] if self.members and not self.do_train else self.initial)

    @property
    def settings(self) -> Settings:
        """The settings that are stored with the run, or with the weights that predict.

        The settings of initial weights to train do not count, since they belong to another task.
        """
        source = self.run or (None if self.do_train else self.stored)
        return source.settings if source else Settings()

    @property
    def heads(self) -> set[str]:
        """The names of the heads that the stored weights may have been trained with; empty without weights."""
        return self.stored.heads if self.stored else set()

    def open(self, path: str) -> StoredModel:
        """Opens weights, cut to num_layers, and with a copy for each layer if they are to be unshared."""
        if self.initial and not self.run and path == self.source.init_path:
            return self.initial
        return _open(path, self.source, self.num_layers)

    def build(
        self, make: Callable[[], Any], path: str | None, init_from_group0: bool = False
    ) -> tuple[Any, RestoreReport | None]:
        """A task with the weights at a path (random ones for None), and a report of what was restored."""
        return build(self.open(path), make, init_from_group0=init_from_group0) if path else (make(), None)

    def head(self, requested: str | None) -> str:
        """The head to build: the requested one, or the head of the initial weights ("encoder" without a head)."""
        return requested or self._weights.head

    def effective_value(self, name: str, requested: Value | None, flag: str | None = None) -> Value | None:
        """The value of a setting: the run's, or the user's, or the stored one.

        If the user wants another value than the run's, continuing it is an error, and all else logs a warning.
        """
        stored: Value | None = getattr(self.settings, name, None)
        if requested is None or stored is None or stored == requested:
            return stored if requested is None else requested
        if self.run is None:
            return requested
        self.warn_or_refuse([f"{name} is {_format(stored)} in the run and {_format(requested)} in --{flag or name}"])
        return stored

    def check_head(self, heads: Collection[str]) -> None:
        """Raises ValueError, which names the task of the run in output_dir, if the run has none of these heads."""
        trained_heads = self.run.heads if self.run else set()
        if trained_heads and not trained_heads & set(heads):
            tasks = " or ".join(head_named(name).task for name in sorted(trained_heads))
            wanted = " or ".join(head_named(name).task for name in heads)
            raise ValueError(f"--output_dir={self.output_dir} has a run of {tasks}, and this is {wanted}: "
                             "choose another --output_dir")

    def warn_or_refuse(self, differences: Sequence[str]) -> None:
        """Warns that the flags contradict the run, or raises ValueError if it is to be continued."""
        if self.do_train and differences:
            raise ValueError(f"the run in --output_dir={self.output_dir} cannot be continued with these flags: "
                             f"{'; '.join(differences)}. Set the values of the run, or another --output_dir")
        for difference in differences:
            logging.warning("%s: the run in --output_dir=%s is used as it was trained", difference, self.output_dir)

    def pretrained(self, model: str, **arguments: Any) -> keras.Model:
        """The model with the initial weights. Warns of parts with random values."""
        built, report = self.build_initial(model, **arguments)
        warn_of_random_parts(model, report, str(self.source.init_path))
        return built

    def build_initial(self, model: str, **arguments: Any) -> tuple[keras.Model, RestoreReport]:
        """The model with the initial weights, and a report of what was restored."""
        return build(self._weights, model, self.config if self.source.albert_config_file else None, **arguments)

    @property
    def _weights(self) -> StoredModel:
        """The initial weights. Raises ValueError if there are none."""
        if not self.source.init_path:
            raise ValueError("--init_checkpoint is missing")
        return self.initial or open_model(self.source.init_path)  # a run may need them only now


def resolve(source: Source, heads: Collection[str] = (), output_dir: str | None = None, do_train: bool | None = None,
            ensemble: Sequence[str] = (), num_layers: int | None = None) -> ResolvedModel:
    """Finds the model of a command: opens what is stored, and compares it with the options.

    Args:
      source: the options that select the model.
      heads: the names of the heads that the command can use; empty for any.
      output_dir: the directory of the runs of a training; None for what does not train.
      do_train: whether a run is trained now; None for what never trains.
      ensemble: paths of checkpoints, to average their predictions.
      num_layers: the number of layers that models are cut to; None for all.

    Raises:
      ValueError: there is no model; the run in output_dir is of another task; it is to be continued and the flags
        contradict it; or members of the ensemble read texts in different ways. Nothing has been written then.
    """
    if num_layers and do_train:
        raise ValueError("--num_layers cuts a trained model: train without it, then evaluate, predict or export")
    for directory in saved_runs(output_dir) if output_dir and do_train else ():
        remove_damaged_settings(directory)
    path = checkpoint_of(output_dir) if output_dir else None
    run_config = config_in(os.path.dirname(path)) if path else None
    run = first_layers(_open_run(path, run_config), num_layers) if path else None
    members = tuple(_open(member, source, num_layers) for member in _written_before(ensemble, output_dir, do_train))
    for member in members:
        if member.optional_config is None:  # another member's config may differ
            raise ValueError(f"{member.path} is a member of --ensemble_checkpoints and has no config: copy its "
                             f"{CONFIG_NAME} beside it")
    _check_members([*([run] if run and not do_train else []), *members])
    initial, initial_config = _initial_weights(source, run, run_config, output_dir, num_layers)
    others = initial if run or do_train or not members else members[0]  # what tells the rest
    config = run_config or _new_config(source, others or run, num_layers, do_train, output_dir)
    if do_train or not run:
        config = config.replace(**source.dropout)
    user = source.user_vocabulary
    if run and run.vocabulary:
        options = run.vocabulary.options.with_defaults(user.options)
        vocabulary = dataclasses.replace(run.vocabulary, **options._asdict())
    else:
        vocabulary = (others.vocabulary if others else VocabularyFiles()).with_overrides(user)
    model = ResolvedModel(source, config, vocabulary, run, members, initial, output_dir, do_train, num_layers)
    if heads:
        model.check_head(heads)
    if run:
        model.warn_or_refuse([*_config_differences(source, run_config, initial_config),
                              *_vocabulary_differences(user, run.vocabulary)])
    return model


def masked_lm(source: Source) -> tuple[AlbertPretrainer, FullTokenizer]:
    """The pretrainer that a source selects, for its masked-LM head, and its tokenizer."""
    selected = resolve(source)
    model, report = selected.build_initial("pretrainer")
    missing = [name for name in report.not_restored if name.startswith("cls/predictions/")]
    if missing:
        raise ValueError(f"{source.init_path} has no masked-LM head: {', '.join(missing)} are missing")
    return model, selected.vocabulary.tokenizer(model.config)


def sentence_pooling(model: ResolvedModel, config: Pooling) -> dict[str, Any]:
    """The arguments of a sentence encoder that the options of pooling, prompt and max_seq_length set.

    If an option is not set, or the config does not have it, the value is the one stored with the weights, the run in
    --output_dir or the ensemble; without a stored pooling, it is the mean.
    """
    arguments = replaced_pooling(model.stored.settings if model.stored else Settings(), config)
    if model.settings.head != "sentence_encoder":
        return arguments
    return {name: model.effective_value(name, value, "prompt_name" if name == "default_prompt_name" else name)
            for name, value in arguments.items()}


def pooling_arguments(selected: ResolvedModel, head: str, config: Pooling) -> dict[str, Any]:
    """The arguments of a sentence encoder, from the options; none for another head."""
    if head != "sentence_encoder":
        check_no_pooling(config, f"--{{}} is for --model=sentence_encoder. Received: --model={head}")
        return {}
    return sentence_pooling(selected, config)


def _open(path: str, source: Source, num_layers: int | None) -> StoredModel:
    """Opens weights, cut to num_layers, and with a copy for each layer if they are to be unshared."""
    model = first_layers(open_model(path), num_layers)
    return unshared(model) if source.unshare_layers and path == source.init_path else model


def _open_run(path: str, config: AlbertConfig | None) -> StoredModel:
    """The run's checkpoint. A damaged one is not an error yet: training and evaluation pass over it."""
    directory = os.path.dirname(path)
    for prefix in (path, *reversed(numbered(directory).values())):
        try:
            return open_model(prefix)
        except ValueError as error:
            logging.warning("%s", error)
    return StoredModel(path, {}, config, vocabulary_in(directory), settings_in(directory))


def _written_before(ensemble: Sequence[str], output_dir: str | None, do_train: bool | None) -> list[str]:
    """The members of the ensemble, without checkpoints that this training is to write."""
    if not (do_train and output_dir):
        return list(ensemble)
    directory = os.path.join(os.path.normpath(output_dir), "")
    return [path for path in ensemble if not os.path.join(os.path.normpath(path), "").startswith(directory)]


def _initial_weights(source: Source, run: StoredModel | None, run_config: AlbertConfig | None, output_dir: str | None,
                     num_layers: int | None) -> tuple[StoredModel | None, AlbertConfig | None]:
    """The initial weights, and their config to compare with a run's; None if a run does not need them."""
    path = source.init_path
    if not path or run is None:
        return _open(path, source, num_layers) if path else None, None
    if run_config and run.vocabulary and (source.albert_config_file or is_url(path)):
        return None, None
    try:
        initial = open_model(path)  # neither cut nor unshared, since it does not predict
        return initial, initial.optional_config
    except ValueError as error:
        if run_config is None:
            raise
        logging.warning("%s; the run in --output_dir=%s does not need it", error, output_dir)
        return None, None


def _new_config(source: Source, stored: StoredModel | None, num_layers: int | None, do_train: bool | None,
                output_dir: str | None) -> AlbertConfig:
    """The config of the flags or the stored weights."""
    if source.albert_config_file and num_layers:
        raise ValueError("--num_layers cuts a trained model, which has a config: remove --albert_config_file")
    if source.albert_config_file:
        config = AlbertConfig.from_file_or_preset(source.albert_config_file)
    elif stored:
        config = stored.config
    elif do_train is False:
        raise ValueError(f"there is no checkpoint in --output_dir={output_dir}: set it to the directory of a run, or "
                         "set --init_checkpoint to weights that were trained for this task")
    else:
        raise ValueError("the model is missing: set --init_checkpoint to weights, for example albert_tiny_en"
                         + (", or --albert_config_file to start from random weights" if do_train else ""))
    return unshared_config(config) if source.unshare_layers else config


def _config_differences(
    source: Source, run_config: AlbertConfig | None, initial_config: AlbertConfig | None
) -> Iterator[str]:
    """Each difference between the config of the flags and the run's config."""
    flag, config = "--unshare_layers", run_config if source.unshare_layers else None
    if source.albert_config_file:
        flag, config = "--albert_config_file", AlbertConfig.from_file_or_preset(source.albert_config_file)
    elif source.init_path and not is_url(source.init_path):
        flag, config = "--init_checkpoint", initial_config
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


def _check_members(sources: list[StoredModel]) -> None:
    """Raises ValueError, which names two sources, if they read texts or name labels in different ways."""
    for first, second in itertools.combinations(sources, 2):
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

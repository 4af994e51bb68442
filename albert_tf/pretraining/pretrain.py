"""The work of run_pretraining: pre-training as a task, whose data are records of text or of phonemes."""

from __future__ import annotations

import abc
import os
import re
from typing import Any, Sequence

import tensorflow as tf
from absl import logging

from albert_tf import devices
from albert_tf.config import AlbertConfig, check_length
from albert_tf.data import batching
from albert_tf.data.batching import EvaluationData
from albert_tf.data.records import CountedFile
from albert_tf.modeling.pretrainer import AlbertPhonemePretrainer, AlbertPretrainer
from albert_tf.pretraining import reading
from albert_tf.pretraining.config import PretrainingConfig
from albert_tf.pretraining.objective import DistilledPretrainingObjective, PretrainingObjective, results
from albert_tf.pretraining.phoneme_objective import DistilledPhonemeObjective, PhonemeObjective, check_symbols
from albert_tf.pretraining.reading import RecordSet
from albert_tf.training.evaluation import format_results
from albert_tf.training.loop import Task, TrainingData, finish, run, training_in
from albert_tf.training.prediction import Predictions
from albert_tf.training.run import set_up
from albert_tf.training.teacher import Teacher
from albert_tf.training.trainer import number_of_parts, parts_of
from albert_tf.utils.files import check_directory, check_no_wildcard, expand_globs, make_directory
from albert_tf.weights.choice import ChosenModel, choose
from albert_tf.weights.from_pretrained import load_into
from albert_tf.weights.runs import best_or_latest
from albert_tf.weights.stored_model import open_model

_EVALUATION_SEED = 0  # of the masks of phonemes, which are the same in each evaluation


def pretrain(options: PretrainingConfig, command_line: str = "") -> None:
    """Trains and evaluates, or evaluates alone. The model card has the command line."""
    check_no_wildcard(options.output_dir)
    check_directory(options.output_dir)
    model = choose(options.source, ("pretrainer", "phoneme_pretrainer"), options.output_dir, options.do_train)
    strategy = set_up(options.devices, options.training.random_seed, options.batch_sizes,
                      options.training.gradient_accumulation_steps)
    with training_in([options.output_dir], strategy, options.do_train):
        make_directory(options.output_dir)
        task = _task(options, model, strategy)
        with batching.naming_changed_files(task.files):
            if options.do_train:
                run(task, options.output_dir, options.training.random_seed, task.dev_sets(), command_line)
            else:
                _evaluate(task)


def _task(options: PretrainingConfig, model: ChosenModel, strategy: tf.distribute.Strategy) -> PretrainingTask:
    """Opens the records, which choose the kind of the task."""
    config, input_file = model.config, options.input_file or ""
    training, evaluated = None, []
    if options.do_train:  # an evaluation has the length of its records
        check_length(options.max_seq_length, config)
        training = reading.open_records(expand_globs(input_file), options.max_seq_length,
                                        options.max_predictions_per_seq, config.vocab_size)
    if options.do_eval:
        evaluated = [_evaluation_records(options, patterns, config)
                     for patterns in options.eval_input_file or [input_file]]
    are_phonemes = {records.phonemes is not None for records in filter(None, [training, *evaluated])}
    if len(are_phonemes) > 1:
        raise ValueError("some records are of phonemes and others of text: they cannot be used together")
    return (PhonemePretraining if True in are_phonemes else TextPretraining)(options, model, strategy, training,
                                                                             evaluated)


class PretrainingTask(Task):
    """Pre-training on records. A subclass is for records of one kind, and makes their objective."""

    best_metric, reports_best = "masked_lm_accuracy", False  # as in the release
    HEAD: str  # the name of the model's head

    def __init__(self, options: PretrainingConfig, model: ChosenModel, strategy: tf.distribute.Strategy,
                 training_set: RecordSet | None, evaluation_sets: list[RecordSet]):
        super().__init__(model, strategy, options.training, options.devices)
        self.options, self.training_set, self.evaluation_sets = options, training_set, evaluation_sets
        self.vocabulary, self.init_from_group0 = model.vocabulary, options.init_from_group0
        self.files = _files_of([*filter(None, [training_set]), *evaluation_sets])
        self.datasets = {_name(file): file.made_from for file in self.files}
        self.evaluated_on = ", ".join(dict.fromkeys(map(_name, _files_of(evaluation_sets))))
        tokenizer = self.vocabulary.tokenizer(self.config) if self.vocabulary else None
        reading.check_tokenizer(self.files, tokenizer, self.config.vocab_size)
        self.teacher: Teacher | None = None
        self.teacher_model: AlbertPretrainer | AlbertPhonemePretrainer | None = None
        distillation = options.distillation
        if training_set and distillation.teacher_checkpoint and distillation.distillation_alpha:
            self.teacher = Teacher.of(distillation, self.HEAD, {})
            self.teacher.check_tokens(tokenizer, self.config, options.max_seq_length)
            if tokenizer is None and self.teacher.source.vocabulary:  # otherwise the two are equal
                reading.check_tokenizer(training_set.files, self.teacher.tokenizer, self.config.vocab_size)

    @abc.abstractmethod
    def objective(self, config: AlbertConfig) -> PretrainingObjective:
        """The model with random weights, with its losses."""

    def training_data(self, seed: int) -> TrainingData:
        """The batches of a run with a seed. The teacher, which reads them in each step, is made here."""
        options, num_devices = self.options, devices.count(self.strategy)
        assert self.training_set is not None
        batches = reading.TrainingBatches(self.training_set, options.training.train_batch_size, seed)
        if options.draws_masks:
            batches.draw_masks(self.config.vocab_size, options.masked_lm_prob)
        if options.pack_rows:
            micro_batches = num_devices * options.training.gradient_accumulation_steps
            rows = options.training.train_batch_size // micro_batches
            batches.pack_rows(options.pack_rows, micro_batches * number_of_parts(rows, parts_of(options.devices)))
        if self.teacher:
            with self.strategy.scope():
                self.teacher_model = self.teacher.model()
        are_packed = options.pack_rows > 0
        return TrainingData(options.training.schedule,
                            lambda first_step: lambda context: batches.from_step(first_step, context),
                            shapes_vary=are_packed, rows_vary=are_packed)

    def dev_sets(self) -> list[EvaluationData]:
        """The records of --eval_input_file."""
        return [batching.records_to_evaluate(records.files, records.parser(_EVALUATION_SEED),
                                             self.options.eval_batch_size, self.options.max_eval_steps)
                for records in self.evaluation_sets]

    def score(self, predictions: Sequence[Predictions]) -> dict[str, float]:
        """The results on each set. From the second set on, they have the name of the set's first file as a prefix."""
        scores: dict[str, float] = {}
        for records, (of_set,) in zip(self.evaluation_sets, predictions):
            files = records.files
            prefix = os.path.basename(files[0].path).split(".")[0] + "/" if scores else ""
            if prefix + "loss" in scores:
                prefix = files[0].path + "/"
            values = results(of_set, has_sentence_labels=_sentence_objective_of(files) != "none")
            scores.update({prefix + name: value for name, value in values.items()})
        return scores


class TextPretraining(PretrainingTask):
    """Masked LM and sentence order on records of text."""

    HEAD = "pretrainer"

    def __init__(self, options: PretrainingConfig, *arguments: Any):
        super().__init__(options, *arguments)
        sentence_objectives = {_sentence_objective_of(records.files) for records in self.evaluation_sets}
        if options.sentence_objective:
            sentence_objectives = {options.sentence_objective}
        elif self.training_set:
            sentence_objectives = {_sentence_objective_of(self.training_set.files)}
        self._has_sentence_loss = sentence_objectives != {"none"}

    def objective(self, config: AlbertConfig) -> PretrainingObjective:  # noqa: D102
        model = AlbertPretrainer(config)
        if self.teacher is None or self.teacher_model is None:
            return PretrainingObjective(model, self._has_sentence_loss)
        return DistilledPretrainingObjective(model, self.teacher_model, self.teacher.temperature, self.teacher.alpha,
                                             has_sentence_loss=self._has_sentence_loss)


class PhonemePretraining(PretrainingTask):
    """Masked phonemes and words on records of phonemes, which must have the same words and symbols."""

    HEAD = "phoneme_pretrainer"

    def __init__(self, options: PretrainingConfig, *arguments: Any):
        super().__init__(options, *arguments)
        formats = [records.phonemes for records in filter(None, [self.training_set, *self.evaluation_sets])]
        words = {(each.num_words, each.words_sha256, each.symbols, each.mask_id) for each in formats if each}
        if len(words) > 1:
            raise ValueError("the records have different words or phonemes: make --eval_input_file again with the "
                             "--word_vocab_file and --phoneme_table of --input_file")
        self._num_words, _, self._symbols, _ = words.pop()
        if stored := self.chosen.weights:
            check_symbols(stored.path, stored.settings.phonemes, self._symbols)
        for records in self.evaluation_sets:
            file = records.files[0]
            logging.info("%s: the most frequent phonemes and words give %s", file.path,
                         format_results(file.made_from["baselines"][options.word_predictions]))

    def objective(self, config: AlbertConfig) -> PhonemeObjective:  # noqa: D102
        model = AlbertPhonemePretrainer(config, self._num_words, phonemes=self._symbols)
        if self.teacher is None or self.teacher_model is None:
            return PhonemeObjective(model, self.options.word_predictions)
        return DistilledPhonemeObjective(model, self.teacher_model, self.teacher.temperature, self.teacher.alpha,
                                         word_predictions=self.options.word_predictions)


def _evaluate(task: PretrainingTask) -> None:
    """Evaluates the checkpoints in --output_dir, or --init_checkpoint if there are none."""
    output_dir, source = task.options.output_dir, task.chosen.source
    has_run = best_or_latest(output_dir)
    if not has_run and not source.init_path:
        raise ValueError(f"there is no checkpoint to evaluate in {output_dir}, and --init_checkpoint is not set")
    with task.strategy.scope():
        objective, _ = task.chosen.build_objective(task.training_objective, output_dir, task.init_from_group0)
    evaluator = task.evaluator(objective, task.dev_sets(), output_dir)
    if has_run:
        evaluator.evaluate_saved(lambda prefix, step: load_into(objective.model, open_model(prefix)))
        finish(task, output_dir, evaluator)
    else:
        logging.info("no checkpoint in %s: evaluating %s", output_dir, source.init_path)
        evaluator.report(0)


def _name(file: CountedFile) -> str:
    """The name of a file in the model card, in which the shards of a set of records are one entry."""
    return re.sub(r"-\d{5}-of-(\d{5})", r"-*-of-\1", os.path.basename(file.path))


def _evaluation_records(options: PretrainingConfig, patterns: str, config: AlbertConfig) -> RecordSet:
    """The set of an --eval_input_file, with the lengths of its first record."""
    paths = expand_globs(patterns)
    lengths = reading.lengths_of_records(paths[0]) or (options.max_seq_length, options.max_predictions_per_seq)
    if lengths[0] > config.max_position_embeddings:
        raise ValueError(f"{paths[0]} has examples of {lengths[0]} tokens, more than the config's "
                         f"max_position_embeddings, {config.max_position_embeddings}")
    return reading.open_records(paths, lengths[0], lengths[1], config.vocab_size)


def _files_of(sets: list[RecordSet]) -> list[CountedFile]:
    return [file for records in sets for file in records.files]


def _sentence_objective_of(files: list[CountedFile]) -> str:
    """The sentence objective of records according to their manifests; sentence order for the release's records."""
    paths = {file.made_from.get("objective", "sop"): file.path for file in files}
    if len(paths) > 1:
        made = ", ".join(f"{path} with {objective}" for objective, path in paths.items())
        raise ValueError(f"records were made with several sentence objectives ({made}): train on them with "
                         "--sentence_objective, and evaluate each with a separate --eval_input_file")
    return next(iter(paths))

"""The work of run_pretraining: reads records, trains, evaluates, and writes the model card."""

from __future__ import annotations

import functools
import os
import re
from typing import Callable

import tensorflow as tf
from absl import logging

from albert_tf import devices
from albert_tf.config import AlbertConfig, check_length
from albert_tf.data import batching
from albert_tf.data.records import CountedFile
from albert_tf.modeling.pretrainer import AlbertPhonemePretrainer, AlbertPretrainer
from albert_tf.pretraining import reading
from albert_tf.pretraining.config import PretrainingConfig
from albert_tf.pretraining.objective import DistilledPretrainingObjective, PretrainingObjective
from albert_tf.pretraining.phoneme_objective import (
    DistilledPhonemeObjective,
    PhonemeFormat,
    PhonemeObjective,
    check_symbols,
)
from albert_tf.pretraining.reading import RecordSet
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.evaluation import Evaluator, format_results
from albert_tf.training.run import new_trainer, set_up, train, training_in, write_run_card
from albert_tf.training.strategy import distributed, is_chief
from albert_tf.training.teacher import Teacher
from albert_tf.training.trainer import Trainer, number_of_parts, parts_of
from albert_tf.utils.files import check_directory, check_no_wildcard, expand_globs, make_directory
from albert_tf.weights.choice import ChosenModel, choose
from albert_tf.weights.runs import best_or_latest
from albert_tf.weights.settings import write_settings
from albert_tf.weights.stored_model import StoredModel

_EVALUATION_SEED = 0  # of the masks of phonemes, which are the same in each evaluation


def pretrain(options: PretrainingConfig, command_line: str = "") -> None:
    """Trains and evaluates, or evaluates alone. The model card has the command line."""
    check_no_wildcard(options.output_dir)
    check_directory(options.output_dir)
    model = choose(options.source, ("pretrainer", "phoneme_pretrainer"), options.output_dir, options.do_train)
    strategy = set_up(options.devices, options.training.random_seed, options.batch_sizes,
                      options.training.gradient_accumulation_steps)
    with training_in([options.output_dir], strategy, options.do_train):
        _pretrain(options, model, strategy, command_line)


def _pretrain(options: PretrainingConfig, selected: ChosenModel, strategy: tf.distribute.Strategy,
              command_line: str) -> None:
    config, vocabulary, output_dir = selected.config, selected.vocabulary, options.output_dir
    tokenizer = vocabulary.tokenizer(config) if vocabulary else None
    make_directory(output_dir)
    if options.do_train:  # an evaluation has the length of its records
        check_length(options.max_seq_length, config)
    input_file = options.input_file or ""
    training_sets = [reading.open_records(
        expand_globs(input_file), options.max_seq_length, options.max_predictions_per_seq, config.vocab_size)
    ] if options.do_train else []
    evaluation_sets = [_evaluation_records(options, patterns, config)
                       for patterns in options.eval_input_file or [input_file]] if options.do_eval else []
    all_files = _files_of(training_sets + evaluation_sets)
    formats = {records.phonemes for records in training_sets + evaluation_sets}
    for file in (records.files[0] for records in evaluation_sets if records.phonemes):
        logging.info("%s: the most frequent phonemes and words give %s", file.path,
                     format_results(file.made_from["baselines"][options.word_predictions]))
    reading.check_tokenizer(all_files, tokenizer, config.vocab_size)
    sentence_objectives = {_sentence_objective_of(records.files) for records in evaluation_sets}
    if options.sentence_objective:
        sentence_objectives = {options.sentence_objective}
    elif options.do_train:
        sentence_objectives = {_sentence_objective_of(training_sets[0].files)}
    distillation, teacher = options.distillation, None
    if options.do_train and distillation.teacher_checkpoint and distillation.distillation_alpha:
        teacher = Teacher.of(distillation, "pretrainer" if formats == {None} else "phoneme_pretrainer", {})
        teacher.check_tokens(tokenizer, config, options.max_seq_length)
        if tokenizer is None and teacher.source.vocabulary:  # otherwise the two are equal
            reading.check_tokenizer(training_sets[0].files, teacher.tokenizer, config.vocab_size)
    with strategy.scope():  # also for the metrics, which are sums over all replicas
        new_objective = (_phoneme_objective_factory(options, config, formats, teacher, selected.weights)
                         if formats != {None} else
                         _objective_factory(config, sentence_objectives != {"none"}, teacher))
        objective, _ = selected.build_objective(new_objective, output_dir, options.init_from_group0)
    training, schedule = options.training, options.training.schedule
    are_packed = options.pack_rows > 0
    trainer = new_trainer(objective, strategy, training, options.devices, schedule, shapes_vary=are_packed,
                          rows_vary=are_packed)
    checkpoints = Checkpoints(output_dir, trainer, config, training.keep_checkpoint_max, is_chief(strategy))
    evaluator = None
    if options.do_eval:
        evaluator = Evaluator(output_dir, lambda: _evaluate(options, trainer, objective, evaluation_sets, strategy),
                              objective.best_metric, checkpoints.save_best, is_chief(strategy))
    with batching.naming_changed_files(all_files):
        if options.do_train:
            batches_from = _batches_from_step(options, training_sets[0], config.vocab_size, devices.count(strategy))
            trained = train(trainer, checkpoints, batches_from, training, schedule, strategy, evaluator,
                            before_steps=lambda: write_settings(objective.model.settings, config, output_dir,
                                                                vocabulary))
            if is_chief(strategy):
                _write_card(options, command_line, objective.model, all_files, _files_of(evaluation_sets), evaluator,
                            trained)
        elif evaluator is not None:
            _evaluate_checkpoints(options, checkpoints, evaluator)
    if evaluator is not None:
        evaluator.draw()


def _objective_factory(
    config: AlbertConfig, has_sentence_loss: bool, teacher: Teacher | None
) -> Callable[[], PretrainingObjective]:
    """A function that makes the objective with random weights. The teacher is made here, with trained weights."""
    if teacher is None:
        return lambda: PretrainingObjective(AlbertPretrainer(config), has_sentence_loss)
    model = teacher.model()
    return lambda: DistilledPretrainingObjective(AlbertPretrainer(config), model, teacher.temperature, teacher.alpha,
                                                 has_sentence_loss=has_sentence_loss)


def _phoneme_objective_factory(
    options: PretrainingConfig, config: AlbertConfig, formats: set[PhonemeFormat | None], teacher: Teacher | None,
    stored: StoredModel | None
) -> Callable[[], PhonemeObjective]:
    """A function that makes the objective of records of phonemes, which must have the same words and symbols."""
    if None in formats:
        raise ValueError("some records are of phonemes and others of text: they cannot be used together")
    words = {(phonemes.num_words, phonemes.words_sha256, phonemes.symbols, phonemes.mask_id)
             for phonemes in formats if phonemes}
    if len(words) > 1:
        raise ValueError("the records have different words or phonemes: make --eval_input_file again with the "
                         "--word_vocab_file and --phoneme_table of --input_file")
    num_words, _, symbols, _ = words.pop()
    if stored:
        check_symbols(stored.path, stored.settings.phonemes, symbols)

    def model() -> AlbertPhonemePretrainer:
        return AlbertPhonemePretrainer(config, num_words, phonemes=symbols)

    if teacher is None:
        return lambda: PhonemeObjective(model(), options.word_predictions)
    trained = teacher.model()
    return lambda: DistilledPhonemeObjective(model(), trained, teacher.temperature, teacher.alpha,
                                             word_predictions=options.word_predictions)


def _write_card(
    options: PretrainingConfig, command_line: str, model: AlbertPretrainer, files: list[CountedFile],
    evaluated: list[CountedFile], evaluator: Evaluator | None, trained: bool
) -> None:
    """Writes the model card, in which the shards of a set of records are one entry."""
    def name(file: CountedFile) -> str:
        return re.sub(r"-\d{5}-of-(\d{5})", r"-*-of-\1", os.path.basename(file.path))

    datasets = {name(file): file.made_from for file in files}
    write_run_card(model, options.output_dir, options.training.schedule, options.training, command_line,
                   options.source.init_path, datasets, evaluator.best if evaluator else None,
                   ", ".join(dict.fromkeys(map(name, evaluated))), trained=trained)


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


def _batches_from_step(
    options: PretrainingConfig, records: RecordSet, vocab_size: int, num_devices: int
) -> Callable[[int], Callable[[tf.distribute.InputContext], tf.data.Dataset]]:
    """The `batches_from` function of train(): from a first step to a function from an InputContext to batches."""
    batches = reading.TrainingBatches(records, options.training.train_batch_size, options.training.random_seed)
    if options.draws_masks:
        batches.draw_masks(vocab_size, options.masked_lm_prob)
    if options.pack_rows:
        micro_batches = num_devices * options.training.gradient_accumulation_steps
        rows = options.training.train_batch_size // micro_batches
        batches.pack_rows(options.pack_rows, micro_batches * number_of_parts(rows, parts_of(options.devices)))
    return lambda first_step: lambda context: batches.from_step(first_step, context)


def _evaluate(
    options: PretrainingConfig, trainer: Trainer, objective: PretrainingObjective, evaluation_sets: list[RecordSet],
    strategy: tf.distribute.Strategy
) -> dict[str, float]:
    """The results on each set. From the second set on, they have the name of the set's first file as a prefix."""
    results: dict[str, float] = {}
    for records in evaluation_sets:
        files, parse = records.files, records.parser(_EVALUATION_SEED)
        steps = -(-sum(file.count for file in files) // options.eval_batch_size)
        steps = min(steps, options.max_eval_steps or steps)
        batches = distributed(strategy, functools.partial(
            batching.evaluation_record_batches, files, parse, options.eval_batch_size))
        trainer.evaluate(batches, steps=steps, verbose=0)
        prefix = os.path.basename(files[0].path).split(".")[0] + "/" if results else ""
        if prefix + "loss" in results:
            prefix = files[0].path + "/"
        scores = objective.results(has_sentence_labels=_sentence_objective_of(files) != "none")
        results.update({prefix + name: value for name, value in scores.items()})
    return results


def _evaluate_checkpoints(options: PretrainingConfig, checkpoints: Checkpoints, evaluator: Evaluator) -> None:
    """Evaluates the checkpoints in --output_dir, or --init_checkpoint if there are none."""
    output_dir = options.output_dir
    if best_or_latest(output_dir):
        evaluator.evaluate_saved(lambda prefix, step: checkpoints.restore(prefix))
    elif not options.source.init_path:
        raise ValueError(f"there is no checkpoint to evaluate in {output_dir}, and --init_checkpoint is not set")
    else:
        logging.info("no checkpoint in %s: evaluating %s", output_dir, options.source.init_path)
        evaluator.report(0)

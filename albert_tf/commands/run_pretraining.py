"""Pre-trains ALBERT on records of create_pretraining_data.py, and evaluates it.

    python -m albert_tf run_pretraining --albert_config_file=albert_base_v2 --input_file='data/train*.tfrecord' \\
        --eval_input_file=data/dev.tfrecord --do_eval --output_dir=model --spm_model_file=30k-clean.model

If it is started again with the same flags, it continues from the latest checkpoint, and ends with exactly the same
weights as without the interruption. The vocabulary is optional: it is copied to --output_dir, where other scripts find
it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from typing import Callable

import tensorflow as tf
from absl import flags, logging

from albert_tf.commands import flag_fields as fields, shared_flags as shared, training_flags, usage
from albert_tf.commands.training_flags import LayerDistillationOptions
from albert_tf.config import AlbertConfig, check_length
from albert_tf.data import streaming
from albert_tf.data.records import CountedFile
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.pretraining import reading
from albert_tf.pretraining.reading import RecordSet
from albert_tf.pretraining.task import DistilledPretrainingTask, LayerDistillation, PretrainingTask
from albert_tf.training.checkpoints import Checkpoints, best_or_latest, copy_as_best, numbered
from albert_tf.training.evaluation import Evaluator, write_plot
from albert_tf.training.options import RunOptions, Schedule, TrainerOptions, default_interval
from albert_tf.training.run import new_trainer, set_up, train, training_in
from albert_tf.training.strategy import distributed, is_chief
from albert_tf.utils import bounds
from albert_tf.utils.files import expand_globs, make_directory
from albert_tf.weights.model_card import write_run_card
from albert_tf.weights.resolved_model import ResolvedModel
from albert_tf.weights.settings import Settings, write_settings
from albert_tf.weights.teacher import Teacher

FLAGS = flags.FLAGS
SAVE_CHECKPOINTS_STEPS = 5000  # at most, if the flag is not set


@dataclasses.dataclass(frozen=True)
class Options(shared.ModelFlags, training_flags.TrainingFlags, training_flags.DeviceFlags, LayerDistillationOptions):
    """The flags of this command; `model` and `schedule` are made from several flags."""

    model: ResolvedModel = fields.made()
    schedule: Schedule = fields.made()
    input_share: list[int] = fields.made()
    input_file: list[str] = fields.strings(
        None, "Comma-separated list of paths and globs of the training records. Repeat the flag for several sets of "
        "records, whose lengths may differ: each step trains on one of the sets, and a step of shorter examples has "
        "more of them than --train_batch_size, so that all steps have equally many tokens.")
    eval_input_file: list[str] = fields.strings(
        None, "Comma-separated list of paths and globs of records that --do_eval evaluates. Repeat the flag for "
        "several sets: each set is evaluated on its own, at the length of its records, and the first one decides which "
        "checkpoint is the best. Default: --input_file.")
    max_seq_length: int = fields.integer(
        512, "Length of the examples in the training records, with padding: the --max_seq_length with which they were "
        "made. For several sets: the largest length, a multiple of the others.", bounds.SEQ_LENGTH)
    max_predictions_per_seq: int = fields.integer(
        20, "Length of the lists of masked tokens in the training records, with padding: the --max_predictions_per_seq "
        "with which they were made, or twice that with --do_permutation. For several sets: that of the longest "
        "examples.", bounds.PREDICTIONS)
    dynamic_masking: bool = fields.boolean(
        False, "Whether to draw new masks for the training records in each epoch, by the rules with which the records "
        "were made.")
    masked_lm_prob: float | None = fields.number(
        None, "Share of the tokens that --dynamic_masking masks at the start of the training. Default: the share with "
        "which the records were made. Evaluation keeps the masks of its records.", lower_bound=0.0, upper_bound=1.0)
    final_masked_lm_prob: float | None = fields.number(
        None, "Share of the tokens that --dynamic_masking masks at the end of the training. The share changes "
        "linearly, from step to step. Default: it stays the same.", lower_bound=0.0, upper_bound=1.0)
    do_train: bool = fields.boolean(True, "Whether to train.")
    do_eval: bool = fields.boolean(
        False, "Whether to evaluate. With --do_train, each checkpoint is evaluated when it is saved. Without it, the "
        "checkpoints in --output_dir are evaluated, or --init_checkpoint if there are none.")
    eval_batch_size: int = fields.integer(
        64, "Number of examples in an evaluation step, summed over all devices.", bounds.BATCH_SIZE)
    max_eval_steps: int = fields.integer(
        100, "Largest number of steps of an evaluation. 0: all records are evaluated.", bounds.STEPS.at_least(0))
    sentence_objective: str | None = fields.choice(
        None, ["sop", "nsp", "none"], "The sentence objective: sop or nsp for a sentence loss, none for no sentence "
        "loss. Default: the objective with which the records were made.")
    init_from_group0: bool = fields.boolean(
        False, "Whether to initialize the weights of every layer group from group 0 of --init_checkpoint.")

    @functools.cached_property
    def devices(self) -> training_flags.DeviceOptions:
        """On what the command computes."""
        return training_flags.device_options(self, "train", "eval")

    @functools.cached_property
    def run(self) -> RunOptions:
        """Where the run is."""
        return training_flags.run_options(self)

    @functools.cached_property
    def trainer(self) -> TrainerOptions:
        """How it is trained."""
        several = len(self.input_file) > 1
        return training_flags.trainer_options(self, self.devices, shapes_vary=several, rows_vary=several)

    @property
    def layers(self) -> LayerDistillation:
        """What the model learns from the layers of the teacher."""
        return LayerDistillation(self.distillation_hidden_weight, self.distillation_attention_weight,
                                 self.distillation_layers, self.distillation_relation_heads)


def define_flags() -> None:
    flags.DEFINE_multi_integer("input_share", None, "Whole number for each --input_file, in the same order: the share "
                               "of the steps that train on it. 3 and 1: three of four steps train on the first set. "
                               "Default: equal shares.", *bounds.SHARES)
    fields.define_float("masked_lm_budget", 0.0, "The release's flag for --dynamic_masking: any number above 0 turns "
                        "it on.", lower_bound=0.0)
    fields.define_float("poly_power", 1.0, "Power of the learning rate's polynomial decay. 1: linear decay.",
                        lower_bound=0.0)
    fields.define_integer("num_train_steps", 125000, "Number of training steps.", *bounds.STEPS)
    fields.define_integer("num_warmup_steps", 3125, "Number of steps in which the learning rate increases from 0 to "
                          "its peak.", *bounds.STEPS.at_least(0))
    fields.define_integer("start_warmup_step", 0, "The step at which the learning rate's warm-up begins.",
                          *bounds.STEPS.at_least(0))
    fields.define_fields(Options, optimizer="lamb", learning_rate=0.00176, train_batch_size=4096)


def options_from_flags() -> Options:
    if not (FLAGS.do_train or FLAGS.do_eval):
        raise ValueError("nothing to do: set --do_train or --do_eval")
    is_dynamic = FLAGS.dynamic_masking or FLAGS.masked_lm_budget > 0
    for name in ("masked_lm_prob", "final_masked_lm_prob"):
        if FLAGS[name].value is not None and not is_dynamic:
            raise ValueError(f"--{name} needs --dynamic_masking: without it, the records' own masks are used")
    input_file = FLAGS.input_file or []
    shares = FLAGS.input_share or [1] * len(input_file)
    if len(shares) != len(input_file):
        raise ValueError(f"--input_share must be set once for each of {len(input_file)} --input_file. "
                         f"Received: {len(shares)} times")
    if not (input_file or FLAGS.eval_input_file and not FLAGS.do_train):
        raise ValueError("--input_file is missing")
    return fields.from_flags(
        Options, model=fields.from_flags(shared.ModelFlags).resolve_model(
            "pretrainer", output_dir=FLAGS.output_dir, do_train=FLAGS.do_train),
        schedule=fields.from_flags(Schedule, save_checkpoints_steps=FLAGS.save_checkpoints_steps or default_interval(
            FLAGS.num_train_steps, SAVE_CHECKPOINTS_STEPS)),
        input_file=input_file, input_share=shares,
        eval_input_file=FLAGS.eval_input_file or input_file, dynamic_masking=is_dynamic)


def main() -> None:
    options = options_from_flags()
    strategy = set_up(options.devices)
    with training_in([options.run.output_dir], strategy, options.do_train):
        pretrain(options, strategy)


def pretrain(options: Options, strategy: tf.distribute.Strategy) -> None:
    """Trains and evaluates, or evaluates alone."""
    config, vocabulary = options.model.config, options.model.vocabulary
    tokenizer = vocabulary.tokenizer(config) if vocabulary else None
    make_directory(options.run.output_dir)
    check_length(options.max_seq_length, config)
    training_sets = training_records(options, config) if options.do_train else []
    evaluation_sets = [evaluation_records(options, patterns, config)
                       for patterns in options.eval_input_file] if options.do_eval else []
    all_files = files_of(training_sets + evaluation_sets)
    reading.check_tokenizer(all_files, tokenizer, config.vocab_size)
    objective = options.sentence_objective or objective_of(files_of(training_sets) or all_files)
    teacher = None
    if options.do_train and options.teacher_checkpoint and (options.distillation_alpha or options.layers.is_used):
        teacher = Teacher.of(options, "pretrainer", {})
        teacher.check_tokens(tokenizer, config, options.max_seq_length)
        if tokenizer is None and teacher.source.vocabulary:  # otherwise the two are equal
            reading.check_tokenizer(files_of(training_sets), teacher.tokenizer, config.vocab_size)
        options.layers.check(config, teacher.config)
    with strategy.scope():  # also for the metrics, which are sums over all replicas
        new_task = task_factory(config, objective != "none", teacher, options.layers)
        task, _ = options.model.build(new_task, initial_weights(options), options.init_from_group0)
    trainer = new_trainer(task, strategy, options.trainer, options.run, options.schedule)
    output_dir = options.run.output_dir
    checkpoints = Checkpoints(output_dir, trainer, config, options.run.keep_checkpoint_max, is_chief(strategy))
    evaluated: list[str] = []  # the checkpoints that were loaded, if nothing is trained

    def save_best() -> None:
        if options.do_train:
            checkpoints.save_best()
        elif is_chief(strategy):
            copy_as_best(evaluated[-1])

    evaluator = None
    if options.do_eval:
        evaluator = Evaluator(output_dir, lambda: evaluate(options, trainer, evaluation_sets, strategy),
                              task.best_metric, save_best, is_chief(strategy))
    with streaming.naming_changed_files(all_files):
        if options.do_train:
            batches_from = batches_from_step(options, training_sets, config.vocab_size)
            trained = train(trainer, checkpoints, batches_from, options.run, options.schedule, strategy, evaluator,
                            before_steps=lambda: write_settings(Settings("pretrainer"), config, output_dir,
                                                                         vocabulary))
            if is_chief(strategy):
                draw(options, evaluator)
                write_card(options, task.model, all_files, evaluator, trained)
        elif options.do_eval:
            evaluate_checkpoints(options, checkpoints, evaluator, evaluated)
            if is_chief(strategy):
                draw(options, evaluator)


def task_factory(
    config: AlbertConfig, has_sentence_loss: bool, teacher: Teacher | None, layers: LayerDistillation
) -> Callable[[], PretrainingTask]:
    """A function that makes the task with random weights. The teacher is made here, with its own weights."""
    if teacher is None:
        return lambda: PretrainingTask(AlbertPretrainer(config), has_sentence_loss)
    model = teacher.model()
    return lambda: DistilledPretrainingTask(AlbertPretrainer(config), model, teacher.temperature, teacher.alpha,
                                            has_sentence_loss, layers)


def draw(options: Options, evaluator: Evaluator | None) -> None:
    """Draws the evaluations as a chart, if there are any."""
    if evaluator is not None and evaluator.best:
        write_plot(options.run.output_dir, PretrainingTask.best_metric)


def write_card(
    options: Options, model: AlbertPretrainer, files, evaluator: Evaluator | None, trained: bool
) -> None:
    """Writes the model card, in which the shards of a set of records are one entry."""
    names = (re.sub(r"-\d{5}-of-(\d{5})", r"-*-of-\1", os.path.basename(file.path)) for file in files)
    datasets = {name: file.made_from for name, file in zip(names, files)}
    write_run_card(model, options.run, options.schedule, options.trainer, usage.command_line(), options.init_path,
                   datasets, evaluator.best if evaluator else None, trained=trained)


def training_records(options: Options, config: AlbertConfig) -> list[RecordSet]:
    """The set of each --input_file. If there are several, the shorter ones have the lengths of their first records."""
    given = options.max_seq_length, options.max_predictions_per_seq
    sets = []
    for patterns in options.input_file:
        paths = expand_globs(patterns)
        lengths = reading.lengths_of_records(paths[0]) if len(options.input_file) > 1 else None
        max_seq_length, max_predictions_per_seq = lengths if lengths is not None and lengths[0] < given[0] else given
        sets.append(reading.open_records(paths, max_seq_length, max_predictions_per_seq, config.vocab_size))
    if all(records.max_seq_length < given[0] for records in sets):
        raise ValueError(f"--max_seq_length={given[0]} is more than the length of the longest --input_file, "
                         f"{max(records.max_seq_length for records in sets)}: set it to that number")
    return sets


def evaluation_records(options: Options, patterns: str, config: AlbertConfig) -> RecordSet:
    """The set of an --eval_input_file, with the lengths of its first record."""
    paths = expand_globs(patterns)
    lengths = reading.lengths_of_records(paths[0]) or (options.max_seq_length, options.max_predictions_per_seq)
    if lengths[0] > config.max_position_embeddings:
        raise ValueError(f"{paths[0]} has examples of {lengths[0]} tokens, more than the config's "
                         f"max_position_embeddings, {config.max_position_embeddings}")
    return reading.open_records(paths, lengths[0], lengths[1], config.vocab_size)


def files_of(sets: list[RecordSet]) -> list[CountedFile]:
    return [file for records in sets for file in records.files]


def objective_of(files) -> str:
    """The sentence objective of records according to their manifests; sentence order for the release's records."""
    objectives = {file.made_from.get("objective", "sop") for file in files}
    return objectives.pop() if len(objectives) == 1 else "sop"


def initial_weights(options: Options) -> str | None:
    """--init_checkpoint; None if the run has its own checkpoints, which are restored later."""
    own = (numbered if options.do_train else best_or_latest)(options.run.output_dir)
    return None if own else options.init_path


def batches_from_step(options: Options, sets: list[RecordSet], vocab_size: int):
    """The `batches_from` function of train(): from a first step to a function from an InputContext to batches."""
    batches = reading.TrainingBatches(sets, options.input_share, options.run.train_batch_size,
                                      options.trainer.random_seed)
    if options.dynamic_masking:
        batches.draw_masks(vocab_size, options.masked_lm_prob, options.final_masked_lm_prob,
                           options.schedule.num_train_steps)
    return lambda first_step: lambda context: batches.from_step(first_step, context)


def evaluate(options: Options, trainer, evaluation_sets, strategy) -> dict[str, float]:
    """The results on each set. From the second set on, they have the name of the set's first file as a prefix."""
    results = {}
    for records in evaluation_sets:
        files, parse = records.files, reading.parser(records.max_seq_length, records.max_predictions_per_seq)
        steps = -(-sum(file.count for file in files) // options.eval_batch_size)
        steps = min(steps, options.max_eval_steps or steps)
        batches = distributed(strategy, lambda context, files=files, parse=parse: streaming.evaluation_record_batches(
            files, parse, options.eval_batch_size, context))
        trainer.evaluate(batches, steps=steps, verbose=0)
        prefix = os.path.basename(files[0].path).split(".")[0] + "/" if results else ""
        if prefix + "loss" in results:
            prefix = files[0].path + "/"
        scores = trainer.task.results(has_sentence_labels=objective_of(files) != "none")
        results.update({prefix + name: value for name, value in scores.items()})
    return results


def evaluate_checkpoints(options: Options, checkpoints, evaluator, evaluated: list[str]) -> None:
    """Evaluates the checkpoints in --output_dir, or --init_checkpoint if there are none.

    Args:
      evaluated: the prefixes of the checkpoints that were loaded, to which this function adds.
    """
    output_dir = options.run.output_dir
    if best_or_latest(output_dir):
        def load(prefix: str, step: int) -> None:
            checkpoints.restore(prefix)
            evaluated.append(prefix)

        evaluator.evaluate_saved(load)
    elif not options.init_path:
        raise ValueError(f"there is no checkpoint to evaluate in {output_dir}, and --init_checkpoint is not set")
    else:
        logging.info("no checkpoint in %s: evaluating %s", output_dir, options.init_path)
        evaluator.report(0)

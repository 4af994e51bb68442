"""The driver of the commands that fine-tune: from their flags to a model that is trained, scored and exported.

What differs between these commands stands in their modules: flags of their own, the fields of a class that derives from
Options, and a class that derives from CommandTask::

    @dataclasses.dataclass(frozen=True)
    class Options(finetuning.Options):
        train_file: str | None = fields.string(None, "Path of the examples to train on.")

    def define_flags():
        finetuning.define_flags(Options, max_seq_length=128)

    def options_from_flags():
        return finetuning.options_from_flags(Options, finetuning.set_defaults("classifier"))

    def main():
        finetuning.fine_tune(options_from_flags(), Reviews)  # Reviews is the CommandTask
"""

from __future__ import annotations

import abc
import dataclasses
import os
import pathlib
from typing import Any, Callable, Collection, Iterable, Mapping, Optional, Sequence, Tuple, TypeVar

import numpy as np
import tensorflow as tf
from absl import flags, logging

from albert_tf import keras
from albert_tf.commands import flag_fields as fields, shared_flags as shared, usage
from albert_tf.commands.distillation import Teacher
from albert_tf.config import AlbertConfig
from albert_tf.data.batching import bucket_lengths
from albert_tf.data.feature_table import FeatureCache, FeatureTable
from albert_tf.export.precision import with_precision
from albert_tf.modeling.early_exit import EarlyExit
from albert_tf.text.packing import SPECIAL_TOKENS
from albert_tf.training.checkpoints import saved_runs
from albert_tf.training.distillation import DistilledTask
from albert_tf.training.evaluation import shown, write_results
from albert_tf.training.finetuning import Evaluate, FineTuning, FineTuningOptions, Predictions
from albert_tf.training.strategy import chief_first, is_chief
from albert_tf.training.task import PredictingTask
from albert_tf.training.teacher_answers import answers, with_answers
from albert_tf.utils import bounds
from albert_tf.utils.files import make_directory
from albert_tf.utils.json_files import read_json_object
from albert_tf.utils.writing import check_export
from albert_tf.weights.heads import head_of
from albert_tf.weights.model_card import write_run_card
from albert_tf.weights.resolved_model import ResolvedModel
from albert_tf.weights.settings import SETTINGS, label_difference, settings_in, settings_of, write_settings

FLAGS = flags.FLAGS
RECIPES = pathlib.Path(__file__).parents[1] / "recipes"
# A table of features (None if it would be empty), and a function that writes its predictions; its other argument is the
# step of the checkpoint that predicts.
ToPredict = Tuple[Optional[FeatureTable], Callable[[Predictions, int], None]]


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags with the same names; `model` and `finetuning` are made from several flags."""

    model: ResolvedModel
    finetuning: FineTuningOptions
    output_dir: str
    cached_dir: str
    max_seq_length: int
    do_train: bool
    do_eval: bool
    do_predict: bool
    export_dir: str | None
    export_precision: str | None

    @property
    def splits(self) -> list[str]:
        """The splits that are trained on and evaluated: train, dev, both or none."""
        return ["train"] * self.do_train + ["dev"] * self.do_eval


AnyOptions = TypeVar("AnyOptions", bound=Options)


class CommandTask(abc.ABC):
    """What differs between the commands that fine-tune. It is made after TensorFlow has been set up.

    Args:
      options: the command's options.

    Attributes:
      config: the config of the model to train.
      tokenizer, cache: for the tables of features.
      best_metric: the result that decides which checkpoint is the best; higher is better.
      data_files: names of the files of training and evaluation data, for the model cards.
      lengths: the settings of the task's features (see Settings) by name, such as doc_stride.
      teacher: the model that the model learns from; None without one.
    """

    best_metric: str
    data_files: Collection[str] = ()
    lengths: Mapping[str, Any] = {}
    teacher: Teacher | None = None

    def __init__(self, options: Options):
        self.options = options
        self.config: AlbertConfig = options.model.config
        self.tokenizer = options.model.vocabulary.tokenizer(self.config)
        self.cache = FeatureCache(self.tokenizer, options.cached_dir)

    @abc.abstractmethod
    def new_task(self, config: AlbertConfig) -> PredictingTask:
        """The model with random weights, and its loss."""

    @abc.abstractmethod
    def training_table(self) -> FeatureTable:
        """The features to train on."""

    def teacher_table(self, table: FeatureTable) -> FeatureTable:
        """The examples of the training table, in the same order, as the teacher reads them.

        This one is the training table itself, for a teacher with the same vocabulary.
        """
        return table

    def targets(self, answers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the model learns of the teacher's answers (see teacher_answers.py): here the answers themselves."""
        return answers

    @property
    def is_evaluated(self) -> bool:
        """Whether checkpoints are evaluated."""
        return self.options.do_eval

    @abc.abstractmethod
    def evaluation(self) -> Evaluate:
        """Reads the dev set. Returns the function that evaluates a checkpoint (see training/finetuning.py)."""

    @abc.abstractmethod
    def predictions(self) -> Iterable[ToPredict]:
        """Reads what --do_predict predicts."""

    def prepare(self, runs: FineTuning) -> None:  # noqa: B027 (most commands do nothing)
        """Does what else the command does with the trained model before it predicts."""

    def use(self, runs: FineTuning) -> None:  # noqa: B027 (most commands do nothing)
        """Does what else the command does with the model, before it is exported."""

    def export(self, directory: str, model: keras.Model) -> None:
        """Writes a SavedModel. This one takes ids; those of the commands also take texts."""
        model.export(directory)


def fine_tune(options: AnyOptions, new_command_task: Callable[[AnyOptions], CommandTask]) -> None:
    """Does what the flags request: trains, evaluates, predicts, exports.

    Raises:
      ValueError: --max_seq_length is larger than max_position_embeddings, or what the task and FineTuning raise.
    """
    strategy = shared.set_up()
    task = new_command_task(options)
    shared.check_length(options.finetuning.buckets[-1], task.config)
    make_directory(options.output_dir)
    new_task = _distilled(task.new_task, task.teacher) if task.teacher else task.new_task
    runs = FineTuning(options.finetuning, strategy, task.config, new_task, options.model.reader(), task.best_metric)
    with chief_first(strategy):
        evaluate = task.evaluation() if task.is_evaluated else None
        to_predict = list(task.predictions()) if options.do_predict else []
    if options.do_train:
        _train(runs, options, task, evaluate)
    elif evaluate is not None:
        runs.evaluate(evaluate)
    task.prepare(runs)
    for table, write in to_predict:
        predictions = runs.predict(table) if table else [{}]
        if is_chief(strategy):
            write(predictions, runs.serving_step())
    task.use(runs)
    if options.export_dir:
        model = runs.best_model()
        if is_chief(strategy):
            task.export(options.export_dir, with_precision(model, options.export_precision))
            logging.info("exported to %s", options.export_dir)


def _train(runs: FineTuning, options: Options, task: CommandTask, evaluate: Evaluate | None) -> None:
    """Trains, and writes vocabulary, settings and model card of each run."""
    def write_inputs(directory: str, model: keras.Model) -> None:
        settings = dataclasses.replace(settings_of(model), max_seq_length=options.finetuning.buckets[-1],
                                       head=head_of(model).name, lora_alpha=_lora_alpha(options), **task.lengths)
        write_settings(settings, model.config, directory, options.model.vocabulary)

    def write_card(directory: str, seed: int, model: keras.Model, scores: dict[str, float], trained: bool) -> None:
        tuning = options.finetuning
        write_run_card(model, dataclasses.replace(tuning.run, output_dir=directory),
                       dataclasses.replace(tuning.trainer, random_seed=seed), shared.command_line(),
                       tuning.init_checkpoint, dict.fromkeys(task.data_files, {}), scores, tuning.recipe, trained)

    _check_alpha(options)
    if options.finetuning.early_stopping_patience and evaluate is None:
        raise ValueError("--early_stopping_patience needs evaluations: set --do_eval")
    with chief_first(runs.strategy):
        table = task.training_table()
    if task.teacher and task.teacher.alpha:
        table = _with_answers(table, options, task, runs.strategy)
    runs.train(table, evaluate, write_inputs, write_card)


def _lora_alpha(options: Options) -> float | None:
    """The alpha of the adapters that are trained; None without adapters."""
    lora = options.finetuning.trainer.lora
    return None if lora is None else lora.scale * lora.rank


def _check_alpha(options: Options) -> None:
    """Raises ValueError if the run that is continued has adapters with another alpha, or adapters or none."""
    run, alpha = options.model.run, _lora_alpha(options)
    stored = settings_in(os.path.dirname(run.path)).lora_alpha if run else alpha
    if stored != alpha:
        there, here = ("no adapters" if value is None else f"adapters with lora_alpha {value:g}"
                       for value in (stored, alpha))
        raise ValueError(f"the run in --output_dir={options.output_dir} has {there}, and these flags mean {here}: "
                         "continue it with its own flags, or choose another --output_dir")


def _distilled(new_task: Callable[[AlbertConfig], Any], teacher: Teacher) -> Callable[[AlbertConfig], DistilledTask]:
    return lambda config: DistilledTask(new_task(config), teacher.temperature, teacher.alpha)


def _with_answers(
    table: FeatureTable, options: Options, task: CommandTask, strategy: tf.distribute.Strategy
) -> FeatureTable:
    """The training examples with the teacher's answers."""
    teacher, tuning = task.teacher, options.finetuning
    assert teacher is not None
    with chief_first(strategy):
        teacher_table = task.teacher_table(table)
    with strategy.scope():
        model = teacher.model()
    answered = answers(model, teacher.outputs, teacher_table, options.cached_dir, strategy,
                       tuning.run.train_batch_size // tuning.trainer.gradient_accumulation_steps, tuning.trainer.parts)
    return with_answers(table, task.targets(answered), teacher.outputs)


def report_predicted(options: Options, scores: dict[str, float], step: int) -> None:
    """Logs the scores of what was predicted, and writes them to predict_results.txt and .json."""
    logging.info("%s", shown(scores))
    write_results(options.output_dir, dict(scores, global_step=step), "predict_results")


def define_flags(
    options_class: type[Options], max_seq_length: int, learning_rate: float = 5e-5, train_batch_size: int = 32,
    save_checkpoints_steps: int = 1000, steps: tuple[int, int] | None = (1000, 0), trains_and_evaluates: bool = False,
    export_accepts: str = "raw text, ids, or serialized tf.Examples",
) -> None:
    """Defines the flags that the commands share, and those that are fields of the command's options.

    Args:
      options_class: the command's options.
      max_seq_length, learning_rate, train_batch_size, save_checkpoints_steps: the command's defaults.
      steps: the defaults of --train_step and --warmup_step; None if the command defines these itself.
      trains_and_evaluates: the default of --do_train and --do_eval.
      export_accepts: what the exported model accepts, for --help.
    """
    shared.define_model_flags()
    shared.define_vocabulary_flags()
    shared.define_training_flags("adamw", learning_rate, train_batch_size, save_checkpoints_steps)
    _define_run_flags(max_seq_length, trains_and_evaluates)
    _define_trainable_flags()
    shared.define_device_flags()
    fields.define_fields(options_class)
    if steps:
        fields.define_integer("train_step", steps[0], "Number of training steps.", *bounds.STEPS)
        fields.define_integer("warmup_step", steps[1], "Number of steps in which the learning rate increases from 0 "
                              "to its peak.", *bounds.STEPS.at_least(0))
    shared.define_export_flags(export_accepts)


@usage.group("Runs")
def _define_run_flags(max_seq_length: int, trains_and_evaluates: bool) -> None:
    flags.DEFINE_string("recipe", None,
                        "Defaults of flags: the name of a file in albert_tf/recipes/ (the paper's hyper-parameters of "
                        "a task), or the path of a JSON file of flags. Flags of the command line take precedence.")
    flags.DEFINE_alias("seed", "random_seed")
    flags.DEFINE_bool("do_train", trains_and_evaluates, "Whether to train.")
    flags.DEFINE_bool("do_eval", trains_and_evaluates, "Whether to evaluate. With --do_train, each checkpoint is "
                      "evaluated when it is saved. Without it, the checkpoints of all runs in --output_dir are "
                      "evaluated, or --init_checkpoint if there are none.")
    flags.DEFINE_bool("do_predict", False, "Whether to predict, with the best run in --output_dir (its best "
                      "checkpoint, or its latest one if it was not evaluated), or with --init_checkpoint if there is "
                      "no run.")
    fields.define_integer("max_seq_length", max_seq_length, "Largest number of tokens of an input sequence, including "
                          "special tokens. A run in --output_dir that is not trained further keeps the length that it "
                          "was trained with. If the flag is not set, a run that is continued keeps its length too, and "
                          "a new run has the default, or the model's max_position_embeddings if that is smaller.",
                          *bounds.SEQ_LENGTH.at_least(SPECIAL_TOKENS + 1))
    flags.DEFINE_bool("pad_to_max_length", False, "Whether to pad every batch to --max_seq_length, as in the release. "
                      "If false, a batch is padded to the shortest of several lengths that its examples fit in.")
    flags.DEFINE_bool("group_by_length", True, "Whether the examples of a training batch have similar lengths, which "
                      "saves the time of padding. If false, they are drawn at random, as in the release.")
    fields.define_integer("eval_batch_size", 8, "Number of examples in an evaluation step, summed over all devices.",
                          *bounds.BATCH_SIZE)
    fields.define_integer("predict_batch_size", 8, "Number of examples in a prediction step, summed over all devices.",
                          *bounds.BATCH_SIZE)
    flags.DEFINE_string("cached_dir", None, "Directory in which features are cached as records. Default: --output_dir.")
    fields.define_integer("early_stopping_patience", 0, "Number of consecutive evaluations without a new best result "
                          "after which training ends. 0: training never ends early.", *bounds.EVALUATIONS.at_least(0))
    fields.define_integer("num_runs", 1, "Number of runs, with the seeds --random_seed, --random_seed + 1, ... Each "
                          "run has its own directory. The medians of their results are reported, and the best run "
                          "predicts.", *bounds.RUNS)
    flags.DEFINE_list("ensemble_checkpoints", [], "Comma-separated list of checkpoints whose predictions are averaged. "
                      "Default: predictions are those of the run's own checkpoint.")


@usage.group("Training")
def _define_trainable_flags() -> None:
    flags.DEFINE_string("trainable", None, "The weights that train. all: all. head: the head, with the pooler if the "
                        "head reads it. last_K, such as last_2: the head and the last K layers, which needs layers "
                        "that do not share their weights with earlier ones. Default: all, or with --lora_rank head.")
    fields.define_integer("lora_rank", 0, "Rank of low-rank adapters, which are trained with the head instead of the "
                          "kernels of the layers, and added to the kernels when the run is evaluated again, converted "
                          "or exported. 0: no adapters.", *bounds.WIDTH.at_least(0))
    fields.define_float("lora_alpha", None, "The adapters are multiplied by lora_alpha / lora_rank. Default: "
                        "--lora_rank.", lower_bound=0.0)
    flags.DEFINE_bool("lora_per_layer", False, "Whether each layer has adapters of its own, also if layers share their "
                      "weights. The model that is converted or exported then has layers without sharing.")


def set_defaults(*heads: str) -> ResolvedModel:
    """Sets flags that the command line does not set, and finds the model. A command calls it first.

    The flags are those of --recipe, and --max_seq_length by the run or the model. A run that is evaluated or predicts
    keeps the length that it was trained with.

    Args:
      *heads: the names of the command's heads (see resolve_model).

    Returns:
      The model.

    Raises:
      ValueError: see apply_recipe and resolve_model.
    """
    apply_recipe()
    model, name = shared.resolve_model(*heads), "max_seq_length"
    if requested(name) is None:
        FLAGS.set_default(name, shared.default_length(model, FLAGS[name].default))
    else:
        FLAGS[name].value = model.setting(name, requested(name))
    return model


def stored_or_requested(model: ResolvedModel, name: str) -> Any:
    """The value of a setting (see ResolvedModel.setting) that is also a flag; the flag's default if none is stored."""
    return model.setting(name, requested(name)) or FLAGS[name].value


def requested(name: str) -> Any:
    """The value of a flag that the command line or the recipe sets; None if neither does."""
    return FLAGS[name].value if FLAGS[name].present or name in _recipe()[1] else None


def apply_recipe() -> None:
    """Sets the flags that --recipe lists, except those that the command line sets.

    Raises:
      ValueError: there is no such recipe, it is not a JSON object, or it has a name that is not a flag of the command.
    """
    path, values = _recipe()
    for name, value in values.items():
        try:
            if value is None:
                raise ValueError(f"--{name} has no value")
            FLAGS.set_default(name, value)
        except flags.Error as error:
            raise ValueError(f"{path}: {usage.described_error(error)}") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def _recipe() -> tuple[str, dict[str, Any]]:
    """The path of --recipe and the values of flags in it; empty without a recipe."""
    if not FLAGS.recipe:
        return "", {}
    named = RECIPES / f"{FLAGS.recipe.lower()}.json"
    path = str(named) if named.is_file() else FLAGS.recipe
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        names = ", ".join(sorted(file.stem for file in RECIPES.glob("*.json")))
        raise ValueError(f"no recipe {FLAGS.recipe!r}: expected one of {names}, or the path of a JSON file")
    return path, read_json_object(path)


def in_place_of(names: Collection[str], replacement: str) -> int | None:
    """The value of flag `replacement`; None if only a recipe sets it and the command line sets a flag in `names`."""
    is_dropped = any(FLAGS[name].present for name in names) and not FLAGS[replacement].present
    return None if is_dropped else FLAGS[replacement].value


def options_from_flags(
    options_class: type[AnyOptions], model: ResolvedModel, actions: Sequence[str] = (),
    steps: tuple[int, int] | None = None, **values: Any
) -> AnyOptions:
    """The options of a command.

    Args:
      options_class: the command's options.
      model: the result of set_defaults.
      actions: the command's own flags that request an action, besides --do_train, --do_eval, --do_predict and
        --export_dir.
      steps: num_train_steps and num_warmup_steps (see learning_rate_schedule); None for --train_step and --warmup_step.
      **values: the fields that are no flags, or that differ from the flags.

    Raises:
      ValueError: no action is requested, or a flag is wrong.
    """
    check_export(FLAGS.export_dir)
    names = ("do_train", "do_eval", "do_predict", *actions, "export_dir")
    if not any(FLAGS[name].value for name in names):
        raise ValueError(f"nothing to do: set {', '.join(f'--{name}' for name in names[:-1])} or --{names[-1]}")
    num_train_steps, num_warmup_steps = steps or (FLAGS.train_step, FLAGS.warmup_step)
    tuning = fields.from_flags(
        FineTuningOptions, run=shared.run_options(num_train_steps=num_train_steps),
        trainer=shared.trainer_options(num_warmup_steps=num_warmup_steps, shapes_vary=True),
        seeds=tuple(range(FLAGS.random_seed, FLAGS.random_seed + FLAGS.num_runs)),
        buckets=bucket_lengths(FLAGS.max_seq_length, FLAGS.pad_to_max_length), init_checkpoint=shared.init_path(),
        ensemble_checkpoints=tuple(FLAGS.ensemble_checkpoints))
    return fields.from_flags(options_class, model=model, finetuning=tuning,
                             cached_dir=FLAGS.cached_dir or FLAGS.output_dir, **values)


def define_exit_flags() -> None:
    """Defines the flags of early exit, for commands whose models can have exit heads."""
    flags.DEFINE_bool("exit_heads", None, "Whether to train an output after every layer, so that predictions can stop "
                      "early (Zhou et al., 2020). Default: false, or as in the training of the model.")
    shared.define_exit_flags()


def exits_from_flags(model: ResolvedModel, is_regression: bool = False) -> dict[str, Any]:
    """The arguments of the model's constructor for early exit (see EarlyExitModel), from the flags.

    Args:
      model: the result of set_defaults.
      is_regression: whether the model predicts a score.

    Raises:
      ValueError: a flag is out of range, needs exit heads that the model does not have, or contradicts another flag or
        the run that is to be continued.
    """
    wanted = FLAGS.exit_heads
    if model.run and FLAGS.do_train and wanted not in (None, model.settings.exit_heads):
        raise ValueError(f"the run in --output_dir={FLAGS.output_dir} was started with{'out' * wanted} exit heads: "
                         f"remove --{'' if wanted else 'no'}exit_heads, or set another --output_dir")
    exit_heads, early_exit = bool(model.setting("exit_heads", wanted)), shared.early_exit_from_flags()
    if early_exit != EarlyExit():
        early_exit.check(model.config, exit_heads, is_regression)
    if early_exit.exit_patience and (FLAGS.jit_compile or FLAGS.use_tpu or FLAGS.distribution_strategy == "tpu"):
        raise ValueError("--exit_patience makes batches smaller, which XLA cannot compile: remove --jit_compile and "
                         "the TPU, or set --num_layers instead")
    return dict(exit_heads=exit_heads, **dataclasses.asdict(early_exit))


def check_data_dir(is_read: bool, contents: str) -> None:
    """Raises ValueError, which says what the directory contains, if --data_dir is read and is not set."""
    if is_read and not FLAGS.data_dir:
        raise ValueError(f"--data_dir is missing: the directory that holds {contents}")


def check_labels(options: Options, names: Sequence[str] | None) -> None:
    """Checks the labels of the runs in --output_dir and, if other weights predict, warns of other labels.

    Args:
      options: the command's options.
      names: the labels of the task; None for a regression.

    Raises:
      ValueError: a run has other labels, or other weights that predict have the same labels in another order.
    """
    model, saved = options.model, saved_runs(options.output_dir)
    for path in saved:
        difference = label_difference(path, settings_in(path).label_names, names, f" ({SETTINGS})")
        if difference:
            raise ValueError(difference)
    number = model.run.num_labels() if model.run else None
    if number and number != (len(names) if names else 1):
        raise ValueError(f"{options.output_dir} has a run with {number} outputs, but the task has "
                         f"{len(names) if names else 1}: choose another --output_dir")
    initial = [] if options.do_train or saved or not model.initial else [model.initial]
    for source in (*model.members, *initial):
        difference = label_difference(source.path, source.settings.label_names, names)
        if difference and sorted(source.settings.label_names or ()) == sorted(names or ()):
            raise ValueError(difference)
        if difference:
            logging.warning("%s", difference)

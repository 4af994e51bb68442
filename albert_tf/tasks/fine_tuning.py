"""fine_tune: from a task and its config to a model that is trained, scored and exported.

Two classes define a task. Its config derives from FineTuningConfig, and its options are also the flags of the task's
command. The other class derives from Task (tasks/task.py)::

    fine_tune(QuestionAnswering, SquadConfig(train_file="train.json", output_dir="out", do_train=True))
"""

from __future__ import annotations

import gc
import itertools
from typing import Collection, Iterable, Mapping, Sequence

from absl import logging

from albert_tf.config import check_length
from albert_tf.data.batching import EvaluationData
from albert_tf.data.feature_table import FeatureCache
from albert_tf.export.saved_model import with_precision
from albert_tf.tasks.config import FineTuningConfig
from albert_tf.tasks.task import Setup, Task, TrainedModels
from albert_tf.text.graph.tokenization import check_in_graph
from albert_tf.text.tokenization import warn_of_unknown_pieces
from albert_tf.training.evaluation import Evaluator, format_results, remove_predicted, write_results, write_summary
from albert_tf.training.loop import finish, run, training_in
from albert_tf.training.run import set_up
from albert_tf.training.strategy import chief_first, is_chief, wait_for_all
from albert_tf.utils.files import check_directory, check_no_wildcard, is_inside, make_directory
from albert_tf.utils.imports import check_installed
from albert_tf.utils.manifests import check_export
from albert_tf.weights.choice import ChosenModel, choose
from albert_tf.weights.runs import numbered, run_directory, saved_runs
from albert_tf.weights.settings import settings_in

_CHECKED_TEXTS = 2000  # at the start of the training set


def fine_tune(task_class: type[Task], options: FineTuningConfig, command_line: str = "") -> None:
    """Does what the options request: trains one or several seeds, evaluates, predicts, exports.

    The command line is for the model cards. Raises ValueError if the options contradict each other, data or model.
    """
    _check_outputs(options)
    setup = prepare(task_class.HEADS, options)
    strategy, task = setup.strategy, task_class(options, setup)
    _check_name(task)
    check_length(task.buckets[-1], task.config)
    make_directory(options.output_dir)
    trained = TrainedModels(task)
    directories = dict.fromkeys([options.output_dir, *runs_of(options).values()])
    with training_in(directories, strategy, options.do_train):
        with chief_first(strategy):
            dev_sets = task.dev_sets() if options.uses("eval") else []
            to_predict = list(task.predictions()) if options.predicts else []
        if options.do_train:
            check_texts(task, bool(dev_sets))
            train_runs(task, runs_of(options), dev_sets, command_line)
        elif dev_sets:
            evaluate_runs(task, trained, dev_sets)
        task.after_training(trained)
        if options.do_predict and is_chief(strategy):
            remove_predicted(options.output_dir)
        for table, write in to_predict:
            predictions = trained.predict(task.batches_of(table, options.predict_batch_size))
            if is_chief(strategy):
                write(predictions, trained)
        if options.export_dir:
            model = trained.best_model()
            if is_chief(strategy):
                task.export(options.export_dir, with_precision(model, options.export_precision), trained.checkpoint())
                logging.info("exported to %s", options.export_dir)


def prepare(heads: Collection[str], options: FineTuningConfig) -> Setup:
    """Finds the model of the options, which has one of the heads, and sets TensorFlow up."""
    model = choose(options.source, heads, options.output_dir, options.do_train, options.ensemble_checkpoints,
                    options.num_layers)
    strategy = set_up(options.devices, options.training.random_seed, options.batch_sizes,
                      options.training.gradient_accumulation_steps)
    max_seq_length = _max_seq_length(options, model)
    tokenizer = model.vocabulary.tokenizer(model.config)
    if options.export_dir:
        check_in_graph(tokenizer)
    return Setup(model, strategy, tokenizer, max_seq_length, FeatureCache(tokenizer, options.cache))


def runs_of(options: FineTuningConfig) -> dict[int, str]:
    """The directory of each seed's run. A single run is in output_dir itself."""
    parent, seeds = options.output_dir, options.seeds
    return {seed: run_directory(parent, seed) if len(seeds) > 1 else parent for seed in seeds}


def train_runs(task: Task, runs: Mapping[int, str], dev_sets: Sequence[EvaluationData] = (),
               command_line: str = "") -> None:
    """Trains every run to its end, continuing from its latest checkpoint."""
    if not task.options.source.init_path and not any(map(numbered, runs.values())):
        logging.info("no --init_checkpoint: training starts from random weights")
    for seed, directory in runs.items():
        run(task, directory, seed, dev_sets, command_line)
        gc.collect()  # a trainer and its slots are in reference cycles; the next run needs their memory
    if dev_sets:
        _write_summary(task, runs.values())
    wait_for_all(task.strategy)  # all workers may next predict with a checkpoint that the chief has saved


def evaluate_runs(task: Task, trained: TrainedModels, dev_sets: Sequence[EvaluationData]) -> None:
    """Evaluates --ensemble_checkpoints, or else all checkpoints of the runs in output_dir, or --init_checkpoint."""
    options, runs = task.options, saved_runs(task.options.output_dir)
    if options.ensemble_checkpoints or not runs:
        scores = task.score([trained.predict(data) for data in dev_sets])
        results = dict(scores, global_step=trained.checkpoint().step)
        logging.info("%s", format_results(results))
        if is_chief(task.strategy):
            write_results(options.output_dir, results)
        return
    for directory in runs:
        _evaluate_run(task, trained, directory, dev_sets)
    _write_summary(task, runs)
    wait_for_all(task.strategy)


def _evaluate_run(task: Task, trained: TrainedModels, directory: str, dev_sets: Sequence[EvaluationData]) -> None:
    """Evaluates the checkpoints of a run. The best one is copied to model.ckpt-best with all of its variables."""
    loaded = ""  # the checkpoint that is evaluated

    def load(prefix: str, step: int) -> None:
        nonlocal loaded
        trained.load(prefix)
        loaded = prefix

    evaluator = Evaluator(directory, lambda: task.score([[trained.load(loaded).predictor(data)] for data in dev_sets]),
                          task.best_metric, writes=is_chief(task.strategy))
    evaluator.evaluate_saved(load)
    finish(task, directory, evaluator)


def _write_summary(task: Task, runs: Iterable[str]) -> None:
    if is_chief(task.strategy):
        write_summary(task.options.output_dir, runs, task.best_metric)


def _max_seq_length(options: FineTuningConfig, model: ChosenModel) -> int:
    """The largest number of tokens of a row: the run's, or the requested one, or the default."""
    if options.max_seq_length is not None:
        return model.effective_value("max_seq_length", options.max_seq_length) or options.max_seq_length
    return model.settings.max_seq_length or min(options.LONGEST, model.config.max_position_embeddings)


def check_texts(task: Task, is_evaluated: bool) -> None:
    """Warns of texts that the vocabulary does not have, and of a dev set that is the training set."""
    train_texts = list(itertools.islice(task.texts("train"), _CHECKED_TEXTS))
    warn_of_unknown_pieces(task.setup.tokenizer, train_texts, task.data_files.get("train", ""))
    dev_texts = list(itertools.islice(task.texts("dev"), _CHECKED_TEXTS // 20)) if is_evaluated else []
    if dev_texts and set(dev_texts) <= set(train_texts):
        logging.warning("the texts of the dev set are also in the training set: their scores do not tell how good "
                        "the model is for other texts")


def _check_name(task: Task) -> None:
    """Raises ValueError if a run that is to be continued was trained on another task, which may have equal labels."""
    for path in saved_runs(task.options.output_dir) if task.options.do_train and task.name else []:
        stored = settings_in(path).task
        if stored not in (None, task.name):
            raise ValueError(f"{path}: the run was trained on the task {stored}, and not on {task.name}: choose "
                             "another --output_dir")


def _check_outputs(options: FineTuningConfig) -> None:
    """Raises ValueError if output_dir or export_dir cannot be written."""
    check_no_wildcard(options.output_dir)
    check_directory(options.output_dir)
    check_export(options.export_dir)
    if options.export_dir:
        check_installed("--export_dir", "tensorflow_text")
        if is_inside(options.output_dir, options.export_dir):
            raise ValueError(f"--output_dir={options.output_dir} must not be --export_dir or a folder in it, since an "
                             "export needs a separate folder: choose another --export_dir")

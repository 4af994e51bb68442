"""Fine-tunes ALBERT on a GLUE task or one of your own; evaluates, predicts, exports.

    python run_classifier.py --task_name=rte --data_dir=glue --init_checkpoint=albert_base_v2 --output_dir=rte \\
        --recipe=rte --do_train --do_eval --do_predict

If it is started again with the same flags, training continues from the latest checkpoint. run_glue.py runs all tasks of
a folder.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Sequence

import numpy as np
from absl import flags, logging

from albert_tf.commands import finetuning_flags as tuning, shared_flags as shared
from albert_tf.data.feature_cache import FeatureCache
from albert_tf.data.feature_table import FeatureTable
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.pooling import MEAN_OR_MAX, LongTexts
from albert_tf.tasks.classification import metrics as glue_metrics
from albert_tf.tasks.classification.answers import write_answers, write_predictions
from albert_tf.tasks.classification.export import export_classification
from albert_tf.tasks.classification.features import feature_table, read_examples
from albert_tf.tasks.classification.glue_tasks import Task, find_task
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.classification.task_config import load_task_config
from albert_tf.training.finetuning import FineTuningOptions
from albert_tf.training.prediction import mean_of
from albert_tf.training.strategy import chief_first, is_chief
from albert_tf.utils import bounds
from albert_tf.utils.progress import count_of
from albert_tf.utils.writing import check_export
from albert_tf.weights.resolved_model import ResolvedModel

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the flags of this command."""
    shared.define_model_flags()
    shared.define_vocabulary_flags()
    shared.define_training_flags(optimizer="adamw", learning_rate=5e-5, train_batch_size=32,
                                 save_checkpoints_steps=1000)
    tuning.define_finetuning_flags(max_seq_length=512)
    shared.define_device_flags()
    flags.DEFINE_string("data_dir", None, "Folder that contains GLUE's folders (CoLA, MNLI, ...), or the files of "
                        "--task_config. An export does not read it.")
    flags.DEFINE_string("task_name", None, "Name of a GLUE task: cola, mnli, mismnli, mrpc, rte, sst-2, sts-b, qqp, "
                        "qnli, wnli or ax.")
    flags.DEFINE_string("task_config", None, "Path of a JSON file that describes a task of your own, instead of "
                        "--task_name: its files, columns, labels and metrics (docs/fine_tuning.md shows one).")
    flags.DEFINE_enum("long_texts", "truncate", ["truncate", *MEAN_OR_MAX], "Handling of texts of more than "
                      "--max_seq_length tokens. truncate: their ends are dropped. mean, max: they are split into "
                      "overlapping windows, and the logits of a text are the mean or the maximum over its windows. If "
                      "the flag is not set and nothing is trained, texts are handled as in the model's training.")
    shared.define_integer("doc_stride", 0, "Number of tokens from the start of one window of a long text to the start "
                          "of the next. Default: 0, half a window.", *bounds.SEQ_LENGTH.at_least(0))
    shared.define_integer("max_windows", 8, "Maximum number of windows of a text. A step needs more memory with more "
                          "windows.", *bounds.CANDIDATES.at_least(2))
    shared.define_float("classifier_dropout_prob", 0.1, "Dropout rate, from 0 to 1, of the pooled output in training.",
                        0.0, 1.0)
    tuning.define_step_flags(train_step=1000, warmup_step=0)
    shared.define_export_flags()
    flags.DEFINE_enum("predict_split", "test", ["dev", "test"], "The split that --do_predict predicts.")
    shared.define_float("threshold_to_export", None, "A number that the exported SavedModel returns with its "
                        "predictions, for clients that compare probabilities with it. Default: none.")


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags with the same names; `model`, `task` and `finetuning` are made from several flags."""

    model: ResolvedModel
    task: Task
    finetuning: FineTuningOptions
    data_dir: str | None
    cached_dir: str
    output_dir: str
    max_seq_length: int
    long_texts: LongTexts
    classifier_dropout_prob: float
    do_train: bool
    do_eval: bool
    do_predict: bool
    predict_split: str
    threshold_to_export: float | None


def options_from_flags() -> Options:
    model = tuning.set_defaults("classifier")
    check_export(FLAGS.export_dir)
    if bool(FLAGS.task_name) == bool(FLAGS.task_config):
        raise ValueError("set either --task_name, or --task_config for a task of your own")
    tuning.check_purpose()
    tuning.check_data_dir(FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict, "the files of the task")
    task = load_task_config(FLAGS.task_config) if FLAGS.task_config else find_task(FLAGS.task_name)
    tuning.check_labels(model, task.labels)
    requested = None
    if tuning.requested("long_texts") == "truncate":
        requested = LongTexts()
    elif FLAGS.long_texts != "truncate":
        requested = LongTexts(FLAGS.long_texts, FLAGS.max_windows, FLAGS.doc_stride)
    long_texts = model.setting("long_texts", requested) or LongTexts()
    return shared.from_flags(Options, model=model, task=task, long_texts=long_texts,
                             cached_dir=tuning.cached_dir(),
                             finetuning=tuning.finetuning_options(FLAGS.train_step, FLAGS.warmup_step))


def main() -> None:
    """Runs the command."""
    options = options_from_flags()
    task = options.task
    strategy = shared.set_up()
    tokenizer = options.model.vocabulary.tokenizer(options.model.config)
    windows = options.long_texts.windows
    cache = FeatureCache(tokenizer, options.cached_dir)

    def table(task, split):
        return feature_table(cache, task, options.data_dir, split, options.max_seq_length, windows)

    def tables(split):
        return [(each, table(each, split)) for each in task.with_companions(options.data_dir, split)]

    def new_task(config):
        model = AlbertClassifier(config, task.num_labels, options.classifier_dropout_prob, options.long_texts.pooling,
                                 task.labels, options.max_seq_length, windows.max_windows, windows.doc_stride)
        return ClassificationTask(model, task.is_regression)

    finetuning = tuning.new_finetuning(options.finetuning, strategy, options.model, new_task, task.metrics[0])
    with chief_first(strategy):
        evaluate = evaluation(task, tables("dev")) if options.do_eval else None
        # Raises an error that names the missing checkpoint.
        to_predict = tables(options.predict_split) if options.do_predict else []

    training_table = functools.partial(table, task, "train") if options.do_train else None
    used = ["train"] * options.do_train + ["dev"] * options.do_eval
    data_files = [source.path for split, source in task.sources.items() if split in used]
    tuning.train_and_evaluate(finetuning, options.model.vocabulary, training_table, evaluate, data_files)
    for each, table in to_predict:
        probabilities = mean_of(finetuning.predict(table), "probabilities")
        if is_chief(strategy):
            answer(options, each, probabilities)
    has_pairs = any("text_b" in source.columns for source in task.sources.values())
    tuning.export(finetuning, lambda export_dir, model: export_classification(
        export_dir, model, tokenizer, options.max_seq_length, has_pairs, task.is_regression,
        options.threshold_to_export, windows))


def evaluation(task: Task, dev_sets: Sequence[tuple[Task, FeatureTable]]):
    """The `evaluate` function of FineTuning. The results of a companion task have its name as a prefix."""
    def evaluate(predict) -> dict[str, float]:
        results = {}
        for each, table in dev_sets:
            label_ids = table.scalars["label_ids"].numpy()
            of_set = glue_metrics.evaluate(each, mean_of(predict(table), "probabilities"), label_ids)
            prefix = "" if each is task else f"{each.name}/"
            results.update({prefix + name: value for name, value in of_set.items()})
        return results

    return evaluate


def answer(options: Options, task: Task, probabilities: np.ndarray) -> None:
    """Writes the answers to --predict_split. The files of a companion task have its name as a suffix."""
    examples = read_examples(task, options.data_dir, options.predict_split)
    suffix = "" if task is options.task else f"_{task.name}"
    guids = [example.guid for example in examples]
    write_answers(options.output_dir, task, guids, probabilities, suffix, options.predict_split)
    path = write_predictions(options.output_dir, task, examples, probabilities, suffix, options.predict_split)
    logging.info("%s: %s predicted: %s", task.name, count_of(len(guids), f"{options.predict_split} example"), path)

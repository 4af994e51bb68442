"""Fine-tunes ALBERT on a GLUE task or one of your own; evaluates, predicts, exports.

    python run_classifier.py --task_name=rte --data_dir=glue --init_checkpoint=albert_base_v2 --output_dir=rte \\
        --recipe=rte --do_train --do_eval --do_predict

If it is started again with the same flags, training continues from the latest checkpoint. run_glue.py runs all tasks of
a folder.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Iterator

from absl import flags, logging

from albert_tf.commands import finetuning as tuning, shared_flags as shared
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.pooling import MEAN_OR_MAX, LongTexts
from albert_tf.tasks.classification import metrics as glue_metrics
from albert_tf.tasks.classification.answers import write_answers, write_predictions
from albert_tf.tasks.classification.export import export_classification
from albert_tf.tasks.classification.features import feature_table
from albert_tf.tasks.classification.glue import find_task, with_companions
from albert_tf.tasks.classification.ranking import RankingTask, evaluate_ranking
from albert_tf.tasks.classification.reading import read_examples
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.classification.task_config import load_task_config
from albert_tf.tasks.classification.task_data import TaskData
from albert_tf.training.finetuning import mean_of
from albert_tf.utils import bounds
from albert_tf.utils.progress import count_of

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Options(tuning.Options):
    """The flags of this command; `task` and `long_texts` are made from several flags."""

    task: TaskData
    long_texts: LongTexts
    data_dir: str | None = shared.string(None, "Folder that contains GLUE's folders (CoLA, MNLI, ...), or the files of "
                                         "--task_config. An export does not read it.")
    classifier_dropout_prob: float = shared.number(0.1, "Dropout rate, from 0 to 1, of the pooled output in training.",
                                                   0.0, 1.0)
    predict_split: str = shared.choice("test", ["dev", "test"], "The split that --do_predict predicts.")
    threshold_to_export: float | None = shared.number(None, "A number that the exported SavedModel returns with its "
                                                      "predictions, for clients that compare probabilities with it. "
                                                      "Default: none.")


def define_flags() -> None:
    tuning.define_flags(Options, max_seq_length=512)
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


def options_from_flags() -> Options:
    model = tuning.set_defaults("classifier")
    if bool(FLAGS.task_name) == bool(FLAGS.task_config):
        raise ValueError("set either --task_name, or --task_config for a task of your own")
    tuning.check_data_dir(FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict, "the files of the task")
    task = load_task_config(FLAGS.task_config) if FLAGS.task_config else find_task(FLAGS.task_name)
    requested = None
    if tuning.requested("long_texts") == "truncate":
        requested = LongTexts()
    elif FLAGS.long_texts != "truncate":
        requested = LongTexts(FLAGS.long_texts, FLAGS.max_windows, FLAGS.doc_stride)
    long_texts = model.setting("long_texts", requested) or LongTexts()
    return tuning.options_from_flags(Options, model, task=task, long_texts=long_texts)


def main() -> None:
    tuning.fine_tune(options_from_flags(), TextClassification)


class TextClassification(tuning.CommandTask):
    """Classification or regression of texts or pairs. The results of a companion task have its name as a prefix."""

    options: Options

    def __init__(self, options: Options):
        super().__init__(options)
        self.task, self.windows, self.best_metric = options.task, options.long_texts.windows, options.task.metrics[0]
        tuning.check_labels(options, self.task.labels)
        self.data_files = [source.path for split, source in self.task.sources.items() if split in options.splits]

    def new_task(self, config):
        options, task, windows = self.options, self.task, self.windows
        model = AlbertClassifier(config, task.num_labels, options.classifier_dropout_prob, options.long_texts.pooling,
                                 task.labels, options.max_seq_length, windows.max_windows, windows.doc_stride,
                                 activation_fn="sigmoid" if task.is_ranking else None)
        if task.is_ranking:
            return RankingTask(model)
        return ClassificationTask(model, task.is_regression)

    def training_table(self):
        return self._table(self.task, "train")

    def evaluation(self):
        dev_sets = list(self._tables("dev"))
        if self.task.is_ranking:
            return self._evaluation_of_ranking(dev_sets[0][1])

        def evaluate(predict) -> dict[str, float]:
            results = {}
            for task, table in dev_sets:
                label_ids = table.scalars["label_ids"].numpy()
                scores = glue_metrics.evaluate(task, mean_of(predict(table), "probabilities"), label_ids)
                prefix = "" if task is self.task else f"{task.name}/"
                results.update({prefix + name: value for name, value in scores.items()})
            return results

        return evaluate

    def _evaluation_of_ranking(self, table):
        queries = [example.text_a for example in read_examples(self.task, self.options.data_dir, "dev")]
        label_ids = table.scalars["label_ids"].numpy()
        return lambda predict: evaluate_ranking(queries, label_ids, mean_of(predict(table), "probabilities"))

    def predictions(self):
        for task, table in self._tables(self.options.predict_split):
            yield table, functools.partial(self._write, task)

    def export(self, directory, model):
        has_pairs = any("text_b" in source.columns for source in self.task.sources.values())
        export_classification(directory, model, self.tokenizer, self.options.max_seq_length, has_pairs,
                              self.task.is_regression, self.options.threshold_to_export, self.windows)

    def _table(self, task: TaskData, split: str):
        return feature_table(self.cache, task, self.options.data_dir, split, self.options.max_seq_length, self.windows)

    def _tables(self, split: str) -> Iterator:
        """The task and its companions, each with its table."""
        return ((task, self._table(task, split)) for task in with_companions(self.task, self.options.data_dir, split))

    def _write(self, task: TaskData, predictions, step: int) -> None:
        """Writes the answers to --predict_split. The files of a companion task have its name as a suffix."""
        options, probabilities = self.options, mean_of(predictions, "probabilities")
        examples = read_examples(task, options.data_dir, options.predict_split)
        suffix = "" if task is self.task else f"_{task.name}"
        guids = [example.guid for example in examples]
        write_answers(options.output_dir, task, guids, probabilities, suffix, options.predict_split)
        path = write_predictions(options.output_dir, task, examples, probabilities, suffix, options.predict_split)
        logging.info("%s: %s predicted: %s", task.name, count_of(len(guids), f"{options.predict_split} example"), path)

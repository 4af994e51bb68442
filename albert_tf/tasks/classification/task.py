"""The fine-tuning of a task of GLUE or one of your own: tables, scores, answers, calibration, export."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any, Iterator

from absl import logging

from albert_tf.data.feature_table import FeatureCache
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.tasks.classification import metrics as glue_metrics
from albert_tf.tasks.classification.answers import export_classification, write_answers, write_predictions
from albert_tf.tasks.classification.config import ClassifierConfig
from albert_tf.tasks.classification.data import feature_table, read_examples, with_companions
from albert_tf.tasks.classification.metrics import Calibration, evaluate_ranking, fitted
from albert_tf.tasks.classification.objective import ClassificationObjective, LabelLoss, RankingObjective, class_weights
from albert_tf.tasks.classification.table_format import TableFormat
from albert_tf.tasks.fine_tuning import FineTuning, check_labels
from albert_tf.text.packing import WindowOptions
from albert_tf.training.checkpoints import saved_runs
from albert_tf.training.evaluation import mean_of, shown, write_results
from albert_tf.training.strategy import is_chief, wait_for_all
from albert_tf.utils.progress import count_of
from albert_tf.weights.model_card import write_calibration
from albert_tf.weights.settings import Settings, settings_in, write_settings
from albert_tf.weights.teacher import Teacher

_LONG_TEXTS = ("window_pooling", "max_windows", "doc_stride")  # what --long_texts tells a classifier


class TextClassification(FineTuning):
    """Classification or regression of texts or pairs. The results of a companion task have its name as a prefix."""

    options: ClassifierConfig
    heads = ("classifier",)

    def __init__(self, options: ClassifierConfig, *arguments: Any):
        super().__init__(options, *arguments)
        self.format = options.table_format()
        self.name, self.best_metric = self.format.name, self.format.metrics[0]
        windows = {name: self.model.effective_value(name, options.windows.get(name), "long_texts")
                   for name in _LONG_TEXTS}
        self.window_arguments = {name: value for name, value in windows.items() if value is not None}
        self.windows = WindowOptions(windows["max_windows"] or 1, windows["doc_stride"] or 0)
        check_labels(options, self.model, self.format.labels)
        self._check_kind()
        if options.do_eval or options.calibrate:
            glue_metrics.check_packages(self.format)
        is_other = options.do_train or options.ensemble_checkpoints
        self._calibration = Calibration() if is_other else _stored(self.model.settings)
        self._class_weights: tuple[float, ...] | None = None  # of the training set
        sources = self.format.sources.items()
        self.data_files = {split: source.path for split, source in sources if split in options.splits}
        if options.do_train and options.distillation.teacher_checkpoint:
            self.teacher = Teacher.of(options.distillation, "classifier", ClassificationObjective.TEACHER_OUTPUTS)
            self.teacher.check_labels(self.format.labels, self.format.multi_label, self.format.is_ranking)

    def new_task(self, config):
        options, task = self.options, self.format
        model = AlbertClassifier(
            config, task.num_labels, options.classifier_dropout_prob, label_names=task.labels,
            max_seq_length=self.max_seq_length, multi_label=task.multi_label,
            temperature=self._calibration.temperature, thresholds=self._calibration.thresholds,
            activation_fn="sigmoid" if task.is_ranking else None, single_texts=not self.has_pairs,
            **self.window_arguments)
        if task.is_ranking:
            return RankingObjective(model)
        return ClassificationObjective(model, task.is_regression,
                                  LabelLoss(task.multi_label, self._class_weights, options.focal_gamma))

    def training_table(self):
        table = self._table(self.format, "train")
        path = self.format.source("train").path_in(self.options.data_dir)
        self._class_weights = class_weights(self.format, table.scalars["label_ids"].numpy(), path)
        if self._class_weights is not None:
            logging.info("weights of the labels: %s", ", ".join(
                f"{name} {weight:.4g}" for name, weight in zip(self.format.labels, self._class_weights)))
        return table

    def texts(self, split):
        for example in read_examples(self.format, self.options.data_dir, split):
            yield from filter(None, (example.text_a, example.text_b))

    def teacher_table(self, table):
        """The same texts, with the vocabulary, the length and the windows of the teacher."""
        options, cache = self.options, FeatureCache(self.teacher.tokenizer, self.options.cache)
        return feature_table(cache, self.format, options.data_dir, "train",
                             self.teacher.row_length(self.max_seq_length),
                             WindowOptions.of(self.teacher.source.settings))

    def evaluation(self):
        dev_sets = list(self._tables("dev"))
        if self.format.is_ranking:
            return self._evaluation_of_ranking(dev_sets[0][1])

        def evaluate(predict) -> dict[str, float]:
            results = {}
            for task, table in dev_sets:
                label_ids = table.scalars["label_ids"].numpy()
                predictions = predict(table)
                scores = glue_metrics.evaluate(task, mean_of(predictions, "probabilities"), label_ids,
                                               self._calibration.thresholds)
                prefix = "" if task is self.format else f"{task.name}/"
                results.update({prefix + name: value for name, value in scores.items()})
            return results

        return evaluate

    def _evaluation_of_ranking(self, table):
        queries = [example.text_a for example in read_examples(self.format, self.options.data_dir, "dev")]
        label_ids = table.scalars["label_ids"].numpy()

        def evaluate(predict) -> dict[str, float]:
            predictions = predict(table)
            return evaluate_ranking(queries, label_ids, mean_of(predictions, "probabilities"))

        return evaluate

    def after_training(self):
        options = self.options
        if not (options.calibrate or options.do_train) or options.ensemble_checkpoints:
            return
        directory = os.path.dirname(self.checkpoint())
        if options.calibrate:
            self._calibrate(directory)
        # Also after training: the run may have been finished and calibrated before.
        stored = _stored(settings_in(directory))
        if stored != self._calibration:
            self._calibration = stored
            self.forget_models()

    def _calibrate(self, directory: str) -> None:
        """Fits the calibration of the best run on the dev set, and stores it in the run's directory."""
        if not saved_runs(self.options.output_dir):
            raise ValueError(f"--calibrate needs a run in --output_dir={self.options.output_dir}, where the result is "
                             "stored: train it with --do_train")
        table = self._table(self.format, "dev")
        calibration, results = fitted(self.format, mean_of(self.predict(table), "logits"),
                                      table.scalars["label_ids"].numpy())
        logging.info("calibration on %s: %s", count_of(len(table), "dev example"), shown(results))
        if is_chief(self.strategy):
            write_results(directory, results, "calibration_results")
            settings = settings_in(directory).replaced(**dataclasses.asdict(calibration))
            write_settings(settings, self.config, directory)
            write_calibration(directory, results)
        wait_for_all(self.strategy)

    def predictions(self):
        for task, table in self._tables(self.options.predict_split):
            yield table, functools.partial(self._write, task)

    def export(self, directory, model):
        export_classification(directory, model, self.tokenizer, self.max_seq_length, self.has_pairs,
                              self.format.is_regression, self.options.threshold_to_export, self.windows)

    @property
    def has_pairs(self) -> bool:
        """Whether there is a second text."""
        return any("text_b" in source.columns for source in self.format.sources.values())

    def _check_kind(self) -> None:
        """Raises ValueError if a flag is not for the task, or the model was trained for another number of labels."""
        options, task = self.options, self.format
        if options.focal_gamma and task.is_regression:
            raise ValueError(f"--focal_gamma is for labels, and {task.name} is a regression")
        if options.calibrate and task.is_regression:
            raise ValueError(f"--calibrate is for labels, and {task.name} is a regression")
        if options.calibrate and options.ensemble_checkpoints:
            raise ValueError("--calibrate is for a single model: do not set --ensemble_checkpoints")
        source = self.model.run or (None if options.do_train else self.model.stored)
        if source and task.labels and bool(source.settings.multi_label) != task.multi_label:
            number = "any number of labels" if source.settings.multi_label else "one label"
            raise ValueError(f"{source.path} was trained to give a text {number}, and the task has \"multi_label\": "
                             f"{str(task.multi_label).lower()}: use the task_config of the training, or another model")
        if source and source.settings.single_texts and self.has_pairs:
            raise ValueError(f"{source.path} was trained on single texts, and {task.name} has pairs: use the "
                             "task_config of the training, or another model")

    def _table(self, task: TableFormat, split: str):
        return feature_table(self.cache, task, self.options.data_dir, split, self.max_seq_length, self.windows)

    def _tables(self, split: str) -> Iterator:
        """The task and its companions, each with its table."""
        return ((task, self._table(task, split)) for task in with_companions(self.format, self.options.data_dir, split))

    def _write(self, task: TableFormat, predictions, step: int) -> None:
        """Writes the answers to --predict_split. The files of a companion task have its name as a suffix."""
        options, probabilities = self.options, mean_of(predictions, "probabilities")
        examples = read_examples(task, options.data_dir, options.predict_split)
        suffix = "" if task is self.format else f"_{task.name}"
        guids = [example.guid for example in examples]
        where = suffix, options.predict_split, self._calibration.thresholds
        write_answers(options.output_dir, task, guids, probabilities, *where)
        path = write_predictions(options.output_dir, task, examples, probabilities, *where,
                                 excel_separator=options.excel_separator)
        logging.info("%s: %s predicted: %s", task.name, count_of(len(guids), f"{options.predict_split} example"), path)


def _stored(settings: Settings) -> Calibration:
    return Calibration(settings.temperature or 1.0, settings.thresholds)

"""The fine-tuning of a task of GLUE or one of your own: tables, scores, answers, calibration, export."""

from __future__ import annotations

import dataclasses
import functools
from typing import Iterator

from absl import logging

from albert_tf.data.feature_table import FeatureCache
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.settings import ClassifierSettings
from albert_tf.tasks.classification import metrics as glue_metrics
from albert_tf.tasks.classification.answers import export_classification, write_answers, write_predictions
from albert_tf.tasks.classification.config import ClassifierConfig
from albert_tf.tasks.classification.data import feature_table, read_examples, with_companions
from albert_tf.tasks.classification.metrics import Calibration, evaluate_ranking, fitted
from albert_tf.tasks.classification.objective import ClassificationObjective, LabelLoss, RankingObjective, class_weights
from albert_tf.tasks.classification.table_format import TableFormat
from albert_tf.tasks.task import Checkpoint, Setup, Task, TrainedModels, check_labels
from albert_tf.text.packing import WindowOptions
from albert_tf.training.evaluation import format_results, mean_of, write_results
from albert_tf.training.strategy import is_chief, wait_for_all
from albert_tf.utils.progress import count_of
from albert_tf.weights.model_card import write_calibration
from albert_tf.weights.settings import Settings, settings_in, write_settings
from albert_tf.weights.teacher import StoredTeacher, Teacher

_LONG_TEXTS = ("window_pooling", "max_windows", "doc_stride")  # what --long_texts tells a classifier


class TextClassification(Task):
    """Classification or regression of texts or pairs. The results of a companion task have its name as a prefix."""

    options: ClassifierConfig
    HEADS = ("classifier",)

    def __init__(self, options: ClassifierConfig, setup: Setup):
        super().__init__(options, setup)
        self.format = options.table_format()
        self.name, self.best_metric = self.format.name, self.format.metrics[0]
        windows = {name: setup.model.effective_value(name, options.windows.get(name), "long_texts")
                   for name in _LONG_TEXTS}
        self.window_arguments = {name: value for name, value in windows.items() if value is not None}
        self.windows = WindowOptions(windows["max_windows"] or 1, windows["doc_stride"] or 0)
        check_labels(options, setup.model, self.format.labels)
        self._check_kind()
        if options.do_eval or options.calibrate:
            glue_metrics.check_packages(self.format)
        is_other = options.do_train or options.ensemble_checkpoints
        self._calibration = Calibration() if is_other else _stored(setup.model.settings)
        self._class_weights: tuple[float, ...] | None = None  # of the training set
        sources = self.format.sources.items()
        self.data_files = {split: source.path for split, source in sources if split in options.splits}
        taught = options.distillation
        if options.do_train and taught.teacher_scores:
            self.teacher = StoredTeacher(
                "teacher_scores", taught.teacher_scores, ClassificationObjective.TEACHER_OUTPUTS,
                taught.distillation_temperature, taught.distillation_alpha)
        if options.do_train and taught.teacher_checkpoint:
            self.teacher = Teacher.of(taught, "classifier", ClassificationObjective.TEACHER_OUTPUTS)
            self.teacher.check_labels(self.format.labels, self.format.multi_label, self.format.is_ranking)

    def objective(self, config):
        options, format = self.options, self.format
        model = AlbertClassifier(
            config, format.num_labels, options.classifier_dropout_prob, label_names=format.labels,
            max_seq_length=self.setup.max_seq_length, multi_label=format.multi_label,
            temperature=self._calibration.temperature, thresholds=self._calibration.thresholds,
            activation_fn="sigmoid" if format.is_ranking else None, single_texts=not self.has_pairs,
            **self.window_arguments)
        if format.is_ranking:
            return RankingObjective(model)
        return ClassificationObjective(model, format.is_regression,
                                  LabelLoss(format.multi_label, self._class_weights, options.focal_gamma))

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

    def teacher_outputs(self, teacher, table, read):
        """The scores of a file, or of a teacher that reads the texts with its own vocabulary, length and windows."""
        if isinstance(teacher, StoredTeacher):
            path = self.format.source("train").path_in(self.options.data_dir)
            logits = teacher.rows(len(table), path, self.format.num_labels)
            if not self.format.is_regression and logits.min() >= 0 and logits.max() <= 1:
                logging.warning("all of --teacher_scores are from 0 to 1: they must be logits, and not probabilities")
            return dict(logits=logits)
        options, cache = self.options, FeatureCache(teacher.tokenizer, self.options.cache)
        settings = teacher.source.settings.of_class(ClassifierSettings)
        return read(lambda: feature_table(
            cache, self.format, options.data_dir, "train", teacher.row_length(self.setup.max_seq_length),
            WindowOptions(settings.max_windows, settings.doc_stride)))

    def evaluation(self):
        dev_sets = list(self._tables("dev"))
        if self.format.is_ranking:
            return self._evaluation_of_ranking(dev_sets[0][1])

        def evaluate(predict) -> dict[str, float]:
            results = {}
            for format, table in dev_sets:
                label_ids = table.scalars["label_ids"].numpy()
                predictions = predict(table)
                scores = glue_metrics.evaluate(format, mean_of(predictions, "probabilities"), label_ids,
                                               self._calibration.thresholds)
                prefix = "" if format is self.format else f"{format.name}/"
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

    def after_training(self, trained):
        options = self.options
        if not (options.calibrate or options.do_train) or options.ensemble_checkpoints:
            return
        if options.calibrate:
            self._calibrate(trained, trained.checkpoint().run)
        # Also after training: the run may have been finished and calibrated before.
        stored = _stored(trained.checkpoint().settings)
        if stored != self._calibration:
            self._calibration = stored
            trained.forget()

    def _calibrate(self, trained: TrainedModels, run: str | None) -> None:
        """Fits the calibration of the best run on the dev set, and stores it in the run's directory."""
        if run is None:
            raise ValueError(f"--calibrate needs a run in --output_dir={self.options.output_dir}, where the result is "
                             "stored: train it with --do_train")
        table = self._table(self.format, "dev")
        calibration, results = fitted(self.format, mean_of(trained.predict(table), "logits"),
                                      table.scalars["label_ids"].numpy())
        logging.info("calibration on %s: %s", count_of(len(table), "dev example"), format_results(results))
        if is_chief(self.setup.strategy):
            write_results(run, results, "calibration_results")
            write_settings(settings_in(run).replaced(**dataclasses.asdict(calibration)), self.config, run)
            write_calibration(run, results)
        wait_for_all(self.setup.strategy)

    def predictions(self):
        for format, table in self._tables(self.options.predict_split):
            yield table, functools.partial(self._write, format)

    def export(self, directory, model, checkpoint):
        export_classification(directory, model, self.setup.tokenizer, self.setup.max_seq_length, self.has_pairs,
                              self.format.is_regression, self.options.threshold_to_export, self.windows)

    @property
    def has_pairs(self) -> bool:
        """Whether there is a second text."""
        return any("text_b" in source.columns for source in self.format.sources.values())

    def _check_kind(self) -> None:
        """Raises ValueError if a flag is not for the task, or the model was trained for another number of labels."""
        options, format, resolved = self.options, self.format, self.setup.model
        if options.focal_gamma and format.is_regression:
            raise ValueError(f"--focal_gamma is for labels, and {format.name} is a regression")
        if options.calibrate and format.is_regression:
            raise ValueError(f"--calibrate is for labels, and {format.name} is a regression")
        if options.calibrate and options.ensemble_checkpoints:
            raise ValueError("--calibrate is for a single model: do not set --ensemble_checkpoints")
        source = resolved.run or (None if options.do_train else resolved.stored)
        stored = source.settings.of_class(ClassifierSettings) if source else None
        if source and stored and format.labels and stored.multi_label != format.multi_label:
            number = "any number of labels" if stored.multi_label else "one label"
            raise ValueError(f"{source.path} was trained to give a text {number}, and the task has \"multi_label\": "
                             f"{str(format.multi_label).lower()}: use the task_config of the training, or another "
                             "model")
        if source and stored and stored.single_texts and self.has_pairs:
            raise ValueError(f"{source.path} was trained on single texts, and {format.name} has pairs: use the "
                             "task_config of the training, or another model")

    def _table(self, format: TableFormat, split: str):
        return feature_table(self.setup.cache, format, self.options.data_dir, split, self.setup.max_seq_length,
                             self.windows)

    def _tables(self, split: str) -> Iterator:
        """The format and its companions, each with its table."""
        formats = with_companions(self.format, self.options.data_dir, split)
        return ((format, self._table(format, split)) for format in formats)

    def _write(self, format: TableFormat, predictions, checkpoint: Checkpoint) -> None:
        """Writes the answers to --predict_split. The files of a companion task have its name as a suffix."""
        options, probabilities = self.options, mean_of(predictions, "probabilities")
        examples = read_examples(format, options.data_dir, options.predict_split)
        suffix = "" if format is self.format else f"_{format.name}"
        guids = [example.guid for example in examples]
        where = suffix, options.predict_split, self._calibration.thresholds
        write_answers(options.output_dir, format, guids, probabilities, *where)
        path = write_predictions(options.output_dir, format, examples, probabilities, *where,
                                 excel_separator=options.excel_separator)
        count = count_of(len(guids), f"{options.predict_split} example")
        logging.info("%s: %s predicted: %s", format.name, count, path)


def _stored(settings: Settings) -> Calibration:
    classifier = settings.of_class(ClassifierSettings)
    return Calibration(classifier.temperature, classifier.thresholds)

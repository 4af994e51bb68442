"""The fine-tuning of a classification or regression: losses, scores, answers, export."""

from __future__ import annotations

import dataclasses
import functools
from typing import Iterator, Self, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import FeatureCache, FeatureTable
from albert_tf.modeling.classifier import AlbertClassifier, AlbertMultipleChoice
from albert_tf.modeling.settings import ClassifierSettings, Settings
from albert_tf.tasks.classification import metrics as glue_metrics
from albert_tf.tasks.classification.answers import (
    export_classification,
    write_answers,
    write_confusion,
    write_predictions,
)
from albert_tf.tasks.classification.config import ClassifierConfig
from albert_tf.tasks.classification.data import feature_table, read_examples, read_label_ids, with_companions
from albert_tf.tasks.classification.metrics import Calibration, fitted
from albert_tf.tasks.classification.table_format import BALANCED, TableFormat
from albert_tf.tasks.config import Scoring
from albert_tf.tasks.task import Checkpoint, Setup, TableToPredict, Task, TeacherPredict, TrainedModels, check_labels
from albert_tf.text.packing import WindowOptions
from albert_tf.training.distillation import binary_divergence, divergence
from albert_tf.training.evaluation import format_results, report_predicted, write_results
from albert_tf.training.objective import Batch, Objective, Tensors
from albert_tf.training.prediction import Predictions, mean_of
from albert_tf.training.strategy import is_chief, wait_for_all
from albert_tf.training.teacher import StoredTeacher, Teacher
from albert_tf.utils.progress import count_of
from albert_tf.weights.model_card import write_calibration
from albert_tf.weights.settings import settings_in, write_settings


@dataclasses.dataclass(frozen=True)
class LabelLoss:
    """PyTorch's CrossEntropyLoss(weight=...), or with several labels per text BCEWithLogitsLoss(pos_weight=...).

    A choice that a question lacks has the logit MISSING_CHOICE, so a term for each label would have to leave it out.
    """

    multi_label: bool = False
    class_weights: tuple[float, ...] | None = None

    def weights(self, labels: tf.Tensor) -> tf.Tensor:
        """The weight of each text in the mean, float32 [batch]."""
        if self.multi_label or self.class_weights is None:
            return tf.ones(tf.shape(labels)[:1])
        return tf.gather(tf.constant(self.class_weights, tf.float32), labels)

    def losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The weighted loss of each text, float32 [batch].

        `labels` are int32 [batch], or if a text can have several, float32 [batch, labels] with 1 for those that apply.
        """
        if self.multi_label:
            terms = tf.nn.weighted_cross_entropy_with_logits(labels, logits, tf.constant(self.class_weights or 1.0))
            return tf.reduce_mean(terms, axis=1)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return losses if self.class_weights is None else losses * self.weights(labels)


class ClassificationObjective(Objective):
    """GLUE and multiple choice. Batches have label_ids, int32 [batch], or float32 [batch] for regression.

    With several labels per text label_ids are float32 [batch, labels].
    """

    TEACHER_OUTPUTS = dict(logits=None)

    def __init__(self, model: AlbertClassifier | AlbertMultipleChoice, is_regression: bool = False,
                 label_loss: LabelLoss = LabelLoss()):
        super().__init__(model)
        self._is_regression, self._label_loss = is_regression, label_loss

    def loss_denominators(self, batch: Batch) -> Tensors:
        """examples: the number of rows of the micro-batch; weights: if labels have weights, the sum of its rows'."""
        denominators = super().loss_denominators(batch)
        if self._label_loss.class_weights is not None:
            denominators["weights"] = tf.reduce_sum(self._label_loss.weights(batch["label_ids"]))
        return denominators

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the mean of LabelLoss, or of the mean squared error for regression."""
        logits = outputs["logits"]
        if self._is_regression:
            losses = tf.square(logits[:, 0] - batch["label_ids"])  # [batch]
        else:
            losses = self._label_loss.losses(logits, batch["label_ids"])  # [batch]
        return tf.reduce_sum(losses) / denominators.get("weights", denominators["examples"]), {}

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """The micro-batch's share of the mean divergence from the teacher's labels, or squared error of its score."""
        expected, logits = teacher["logits"], outputs["logits"]  # [batch, labels]
        if self._is_regression:
            losses = tf.square(logits[:, 0] - expected[:, 0])  # [batch]
        elif self._label_loss.multi_label:
            losses = tf.reduce_mean(binary_divergence(expected, logits, temperature), axis=1)
        else:
            losses = divergence(expected, logits, temperature)  # [batch]
        return tf.reduce_sum(losses) / denominators["examples"]

    def predictions(self, outputs: Tensors, batch: Batch) -> Tensors:
        """probabilities and logits, float32 [batch, labels]; for regression both are the score, [batch, 1]."""
        logits, model = outputs["logits"], self.model
        if self._is_regression:
            probabilities = logits
        elif isinstance(model, AlbertClassifier):
            probabilities = model.settings.probabilities(logits)
        else:
            probabilities = tf.nn.softmax(logits)
        return dict(probabilities=probabilities, logits=logits)


def class_weights(format: TableFormat, label_ids: np.ndarray, path: str) -> tuple[float, ...] | None:
    """The weights of a task's labels; None if they are equal.

    "balanced" means the weights of scikit-learn: examples / (labels * examples with the label). With several labels per
    text, it is texts without the label / texts with it. `label_ids`, [examples (, labels)], come from `path`.
    """
    if format.class_weights != BALANCED or format.labels is None:
        return None if format.class_weights is None else tuple(map(float, format.class_weights))
    counts = label_ids.sum(axis=0) if format.multi_label else np.bincount(label_ids, minlength=format.num_labels)
    if not counts.all():
        name = format.labels[int(np.argmin(counts))]
        raise ValueError(f'{path} has no example with the label {name!r}, so "class_weights": "{BALANCED}" gives it no '
                         "weight: add an example, or write the weights as numbers")
    total = len(label_ids)
    weights = np.maximum(total - counts, 1) / counts if format.multi_label else total / (format.num_labels * counts)
    return tuple(map(float, weights))


class TextClassification(Task):
    """Classification or regression of texts or pairs. The results of a companion task have its name as a prefix."""

    options: ClassifierConfig
    HEADS = ("classifier",)

    @classmethod
    def of_dev_file(cls, model: keras.Model, options: Scoring, setup: Setup) -> Self:
        folder = setup.cache.directory
        task = cls(ClassifierConfig(output_dir=folder, do_eval=True, data_dir=folder, task_name=options.task_name,
                                    task_config=options.task_config), setup)
        task.format = task.format.with_dev_alone(str(options.score_data))
        return task

    def __init__(self, options: ClassifierConfig, setup: Setup):
        super().__init__(options, setup)
        self.format = options.table_format()
        self.name, self.best_metric = self.format.name, self.format.metrics[0]
        windows = {name: setup.model.effective_value(name, options.windows.get(name), "long_texts")
                   for name in ("window_pooling", "max_windows", "doc_stride")}
        self.window_arguments = {name: value for name, value in windows.items() if value is not None}
        self.windows = WindowOptions(windows["max_windows"] or 1, windows["doc_stride"] or 0)
        check_labels(options, setup.model, self.format.labels)
        self._check_kind()
        if options.do_eval or options.calibrate:
            glue_metrics.check_packages(self.format)
        # The checkpoints of a run are compared without the calibration, which is the best one's.
        compares = options.do_train or options.ensemble_checkpoints or options.do_eval and setup.model.run
        self._calibration = Calibration() if compares else _stored(setup.model.settings)
        self._class_weights: tuple[float, ...] | None = None  # of the training set
        self.data_files = {split: source.path for split, source in self.format.sources.items()
                           if split in options.splits}
        taught = options.distillation
        if options.do_train and taught.teacher_scores:
            self.teacher = StoredTeacher(
                "teacher_scores", taught.teacher_scores, ClassificationObjective.TEACHER_OUTPUTS,
                taught.distillation_temperature, taught.distillation_alpha)
        if options.do_train and taught.teacher_checkpoint:
            self.teacher = Teacher.of(taught, "classifier", ClassificationObjective.TEACHER_OUTPUTS)
            self.teacher.check_labels(self.format.labels, self.format.multi_label)

    def objective(self, config: AlbertConfig) -> ClassificationObjective:
        options, format = self.options, self.format
        model = AlbertClassifier(
            config, format.num_labels, options.classifier_dropout_prob, label_names=format.labels,
            max_seq_length=self.setup.max_seq_length, multi_label=format.multi_label,
            temperature=self._calibration.temperature, thresholds=self._calibration.thresholds,
            single_texts=not self.has_pairs, **self.window_arguments)
        return ClassificationObjective(model, format.is_regression, LabelLoss(format.multi_label, self._class_weights))

    def training_table(self) -> FeatureTable:
        table = self._table(self.format, "train")
        path = self.format.source("train").path_in(self.options.data_dir)
        labels, weights = self.format.labels, class_weights(self.format, table.scalars["label_ids"].numpy(), path)
        self._class_weights = weights
        if labels is not None and weights is not None:
            logging.info("weights of the labels: %s", ", ".join(
                f"{name} {weight:.4g}" for name, weight in zip(labels, weights)))
        return table

    def texts(self, split: str) -> Iterator[str]:
        for example in read_examples(self.format, self.options.data_dir, split):
            yield from filter(None, (example.text_a, example.text_b))

    def teacher_outputs(
        self, teacher: Teacher | StoredTeacher, table: FeatureTable, read: TeacherPredict
    ) -> dict[str, np.ndarray]:
        """The scores of a file, or of a teacher, which reads the texts with its vocabulary, length and windows."""
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

    def dev_tables(self) -> list[FeatureTable | None]:
        return [table for _, table in self._dev_sets]

    @functools.cached_property
    def _dev_sets(self) -> list[tuple[TableFormat, FeatureTable]]:
        return [(format, self._table(format, "dev"))
                for format in with_companions(self.format, self.options.data_dir, "dev")]

    def score(self, predictions: Sequence[Predictions]) -> dict[str, float]:
        results = {}
        for (format, table), of_table in zip(self._dev_sets, predictions):
            scores = glue_metrics.evaluate(format, mean_of(of_table, "probabilities"),
                                           table.scalars["label_ids"].numpy(), self._calibration.thresholds)
            prefix = "" if format is self.format else f"{format.name}/"
            results.update({prefix + name: value for name, value in scores.items()})
        return results

    def after_training(self, trained: TrainedModels) -> None:
        options = self.options
        if options.ensemble_checkpoints:
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
        calibration, results = fitted(self.format, mean_of(
            trained.predict(self.batches_of(table, self.options.predict_batch_size)), "logits"),
                                      table.scalars["label_ids"].numpy())
        logging.info("calibration on %s: %s", count_of(len(table), "dev example"), format_results(results))
        if is_chief(self.setup.strategy):
            write_results(run, results, "calibration_results")
            write_settings(settings_in(run).replaced(**dataclasses.asdict(calibration)), self.config, run)
            write_calibration(run, results)
        wait_for_all(self.setup.strategy)

    def predictions(self) -> Iterator[TableToPredict]:
        options, split = self.options, self.options.predict_split
        main = self.format if options.predict_file is None else self.format.with_file(split, options.predict_file)
        for format in with_companions(main, options.data_dir, split):
            table, label_ids = self._table(format, split), read_label_ids(format, options.data_dir, split)
            if label_ids is not None:
                glue_metrics.check_packages(format)
            suffix = "" if format is main else f"_{format.name}"
            yield table, functools.partial(self._write, format, label_ids, suffix)

    def export(self, directory: str, model: keras.Model, checkpoint: Checkpoint) -> None:
        export_classification(directory, model, self.setup.tokenizer, self.setup.max_seq_length, self.has_pairs,
                              self.format.is_regression, self.options.threshold_to_export, self.windows)

    @property
    def has_pairs(self) -> bool:
        """Whether there is a second text."""
        return any("text_b" in source.columns for source in self.format.sources.values())

    def _check_kind(self) -> None:
        """Raises ValueError if a flag is not for the task, or the model was trained for another number of labels."""
        options, format, source = self.options, self.format, self.setup.model.trained
        if options.calibrate and format.is_regression:
            raise ValueError(f"--calibrate is for labels, and {format.name} is a regression")
        if options.calibrate and options.ensemble_checkpoints:
            raise ValueError("--calibrate is for a single model: do not set --ensemble_checkpoints")
        if not source:
            return
        stored = source.settings.of_class(ClassifierSettings)
        if format.labels and stored.multi_label != format.multi_label:
            number = "any number of labels" if stored.multi_label else "one label"
            raise ValueError(f"{source.path} was trained to give a text {number}, and the task has \"multi_label\": "
                             f"{str(format.multi_label).lower()}: use the task_config of the training, or another "
                             "model")
        if stored.single_texts and self.has_pairs:
            raise ValueError(f"{source.path} was trained on single texts, and {format.name} has pairs: use the "
                             "task_config of the training, or another model")

    def _table(self, format: TableFormat, split: str) -> FeatureTable:
        return feature_table(self.setup.cache, format, self.options.data_dir, split, self.setup.max_seq_length,
                             self.windows)

    def _write(self, format: TableFormat, label_ids: np.ndarray | None, suffix: str, predictions: Predictions,
               trained: TrainedModels) -> None:
        """Writes the answers to --predict_split to files with a suffix, and their scores if they are known."""
        options, probabilities = self.options, mean_of(predictions, "probabilities")
        examples = read_examples(format, options.data_dir, options.predict_split)
        guids = [example.guid for example in examples]
        where = suffix, options.predict_split, self._calibration.thresholds
        write_answers(options.output_dir, format, guids, probabilities, *where)
        path = write_predictions(options.output_dir, format, examples, probabilities, *where,
                                 excel_separator=options.excel_separator)
        count = count_of(len(guids), f"{options.predict_split} example")
        logging.info("%s: %s predicted: %s", format.name, count, path)
        if label_ids is not None:
            self._score(format, label_ids, suffix, probabilities, trained.checkpoint().step)

    def _score(self, format: TableFormat, label_ids: np.ndarray, suffix: str, probabilities: np.ndarray,
               step: int) -> None:
        """Writes the scores of predictions and, with one label per text, the confusion matrix."""
        options, thresholds = self.options, self._calibration.thresholds
        scores = glue_metrics.evaluate(format, probabilities, label_ids, thresholds)
        if format.labels is not None:
            predicted = (glue_metrics.above(probabilities, thresholds) if format.multi_label
                         else probabilities.argmax(axis=1))
            scores.update(glue_metrics.f1_of_labels(format, label_ids, predicted))
            if not format.multi_label:
                counts = glue_metrics.confusion_matrix(label_ids, predicted, format.num_labels)
                write_confusion(options.output_dir, counts, format.labels, suffix, options.predict_split)
        report_predicted(options.output_dir, scores, step, suffix)


def _stored(settings: Settings) -> Calibration:
    classifier = settings.of_class(ClassifierSettings)
    return Calibration(classifier.temperature, classifier.thresholds)

"""The fine-tuning of tags of words: loss (Devlin et al., 2019, section 5.3), tables, scores, answers, export."""

from __future__ import annotations

import functools
import os
from typing import Iterator, Self, Sequence

import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import FeatureTable
from albert_tf.data.rows import is_of_objects
from albert_tf.modeling.classifier import AlbertTokenClassifier
from albert_tf.modeling.settings import TokenClassifierSettings
from albert_tf.tasks.config import Scoring
from albert_tf.tasks.tagging import metrics as tagging_metrics
from albert_tf.tasks.tagging.config import TaggingConfig
from albert_tf.tasks.tagging.features import TaggingFeatureOptions, feature_table
from albert_tf.tasks.tagging.reading import TaggedText, label_names, read_tagged_text
from albert_tf.tasks.tagging.text_tags import export_tagging
from albert_tf.tasks.task import Checkpoint, Setup, TableToPredict, Task, TrainedModels, check_labels
from albert_tf.text.lines import uncompressed_name
from albert_tf.training.distillation import divergence
from albert_tf.training.evaluation import report_predicted
from albert_tf.training.objective import Batch, Objective, Tensors
from albert_tf.training.prediction import Predictions
from albert_tf.training.teacher import Teacher
from albert_tf.utils.progress import count_of


class TaggingObjective(Objective):
    """Tags of words. Batches have tag_ids, int32 [batch, seq]: the id of a token's tag, from 1; 0 for no tag.

    The model is an AlbertTokenClassifier.
    """

    TEACHER_OUTPUTS = dict(logits=0.0)

    def loss_denominators(self, batch: Batch) -> Tensors:
        """tags: the number of the micro-batch's tokens that have a tag."""
        return dict(tags=tf.math.count_nonzero(batch["tag_ids"], dtype=tf.float32))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the mean cross entropy over the tokens that have a tag."""
        tag_ids = tf.maximum(batch["tag_ids"] - 1, 0)  # [batch, seq]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tag_ids, outputs["logits"])
        return _mean_of_tagged(losses, batch, denominators), {}

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """The micro-batch's share of the mean divergence from the teacher over the tokens that have a tag."""
        return _mean_of_tagged(divergence(teacher["logits"], outputs["logits"], temperature), batch, denominators)

    def predictions(self, outputs: Tensors, batch: Batch) -> Tensors:
        """probabilities, float32 [batch, seq, labels]."""
        return dict(probabilities=tf.nn.softmax(outputs["logits"]))


class Tagging(Task):
    """Tags of words. The labels are the tags of --train_file, or those that are stored with the weights."""

    options: TaggingConfig
    HEADS = ("token_classifier",)
    unit = "sentence"

    @classmethod
    def of_dev_file(cls, model: keras.Model, options: Scoring, setup: Setup) -> Self:
        return cls(TaggingConfig(output_dir=setup.cache.directory, do_eval=True, eval_file=options.score_data), setup)

    def __init__(self, options: TaggingConfig, setup: Setup):
        super().__init__(options, setup)
        model, columns = setup.model, options.word_and_tag
        self.features = TaggingFeatureOptions(
            setup.max_seq_length, model.effective_value("doc_stride", options.doc_stride) or 0)
        paths = dict(train=options.train_file, dev=options.eval_file if options.do_eval else None,
                     test=options.predict_file if options.do_predict else None)
        self.files = {split: read_tagged_text(path, columns, options.tag_names) for split, path in paths.items()
                      if path}
        self.label_names = self._label_names()
        check_labels(options, model, self.label_names)
        self.best_metric = "f1" if tagging_metrics.are_entity_tags(self.label_names) else "accuracy"
        self.data_files = {split: os.path.basename(text.path) for split, text in self.files.items() if split != "test"}
        self.reading = dict(doc_stride=self.features.doc_stride)
        if options.do_train and options.distillation.teacher_checkpoint:
            self.teacher = Teacher.of(options.distillation, "token_classifier", TaggingObjective.TEACHER_OUTPUTS)
            self.teacher.check_labels(self.label_names)
            self.teacher.check_tokens(setup.tokenizer, self.config, setup.max_seq_length)

    def objective(self, config: AlbertConfig) -> TaggingObjective:
        return TaggingObjective(AlbertTokenClassifier(
            config, len(self.label_names), self.options.classifier_dropout_prob, label_names=self.label_names))

    def training_table(self) -> FeatureTable:
        return self._table("train")

    def texts(self, split: str) -> Iterator[str]:
        return (" ".join(sentence.words) for sentence in self.files[split].sentences)

    def dev_tables(self) -> list[FeatureTable | None]:
        return [self._dev_table]

    @functools.cached_property
    def _dev_table(self) -> FeatureTable:
        return self._table("dev")

    def score(self, predictions: Sequence[Predictions]) -> dict[str, float]:
        return self._scores(self.files["dev"], self._dev_table, predictions[0])

    def predictions(self) -> Iterator[TableToPredict]:
        table = self._table("test")
        yield table, functools.partial(self._write, table)

    def export(self, directory: str, model: keras.Model, checkpoint: Checkpoint) -> None:
        export_tagging(directory, model, self.setup.tokenizer, self.features)

    def _table(self, split: str) -> FeatureTable:
        return feature_table(self.setup.cache, self.files[split], split, self.label_names, self.features)

    def _label_names(self) -> tuple[str, ...]:
        for split, text in self.files.items():
            if split != "test":
                text.check_has_tags()
        known = label_names([self.files["train"]]) if "train" in self.files else (
            self.setup.model.settings.of_class(TokenClassifierSettings).label_names)
        if known is None:
            raise ValueError("the tags are unknown: no label names are stored with the weights, and --train_file, "
                             "which has all tags, is missing")
        for text in self.files.values():
            unknown = sorted(set(label_names([text])) - set(known))
            if unknown:
                logging.warning("%s has tags that the model does not know and cannot predict: %s", text.path,
                                ", ".join(unknown))
        return known

    def _scores(self, text: TaggedText, table: FeatureTable, predictions: Predictions) -> dict[str, float]:
        probabilities = tagging_metrics.word_probabilities(table, predictions)
        return tagging_metrics.evaluate(text, probabilities, self.label_names)

    def _write(self, table: FeatureTable, predictions: Predictions, trained: TrainedModels) -> None:
        """Writes --predict_file with the predicted tags and, if it has tags, the scores with the checkpoint's step."""
        text, probabilities = self.files["test"], tagging_metrics.word_probabilities(table, predictions)
        ending = ".jsonl" if is_of_objects(text.path) else os.path.splitext(uncompressed_name(text.path))[1] or ".txt"
        path = os.path.join(self.options.output_dir, f"predictions{ending}")
        text.write_with_tags(path, tagging_metrics.tags_of_sentences(text, probabilities, self.label_names))
        logging.info("%s: %s tagged", path, count_of(text.num_words, "word"))
        if text.has_tags:
            report_predicted(self.options.output_dir, self._scores(text, table, predictions),
                             trained.checkpoint().step)


def _mean_of_tagged(losses: tf.Tensor, batch: Batch, denominators: Tensors) -> tf.Tensor:
    """The micro-batch's share of the mean of losses [batch, seq] over the tokens that have a tag."""
    total = tf.reduce_sum(tf.where(batch["tag_ids"] > 0, losses, 0.0))
    return tf.math.divide_no_nan(total, denominators["tags"])

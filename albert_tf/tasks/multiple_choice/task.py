"""The fine-tuning of multiple choice: tables, scores, answers, export."""

from __future__ import annotations

import functools
import os
import shutil
from typing import Iterator, Self, Sequence

from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import FeatureTable
from albert_tf.modeling.classifier import AlbertMultipleChoice
from albert_tf.modeling.settings import NUM_CHOICES, MultipleChoiceSettings
from albert_tf.tasks.classification.task import ClassificationObjective
from albert_tf.tasks.config import Scoring
from albert_tf.tasks.multiple_choice.answers import BEST_METRIC, evaluate, export_multiple_choice, write_predictions
from albert_tf.tasks.multiple_choice.config import MultipleChoiceConfig
from albert_tf.tasks.multiple_choice.data import MAX_QA_LENGTH, feature_table, file_name, read_split
from albert_tf.tasks.task import Checkpoint, Setup, TableToPredict, Task, TrainedModels, check_num_labels
from albert_tf.training.evaluation import report_predicted
from albert_tf.training.prediction import Predictions, mean_of
from albert_tf.utils.outputs import local_copy
from albert_tf.utils.progress import count_of


class MultipleChoice(Task):
    """Questions with several options, one of them right."""

    options: MultipleChoiceConfig
    HEADS = ("multiple_choice",)
    best_metric, unit = BEST_METRIC, "question"

    @classmethod
    def of_dev_file(cls, model: keras.Model, options: Scoring, setup: Setup) -> Self:
        folder, path = setup.cache.directory, str(options.score_data)
        ending = "parquet" if path.endswith(".parquet") else "jsonl"
        shutil.copy(local_copy(path), os.path.join(folder, f"dev.{ending}"))
        task = cls(MultipleChoiceConfig(output_dir=folder, do_train=False, data_dir=folder, data_format=ending), setup)
        choices = model.settings.num_choices
        check_num_labels(choices, max(choices, *(len(example.options) for example in task.examples("dev"))), options)
        return task

    def __init__(self, options: MultipleChoiceConfig, setup: Setup):
        super().__init__(options, setup)
        self.examples = functools.cache(lambda split: read_split(
            options.path_of("data_dir"), options.data_format, split, options.high_only, options.middle_only))
        self.data_files = {split: file_name(options.data_format, split) for split in options.splits}
        self.max_qa_length = setup.model.effective_value("max_qa_length", options.max_qa_length) or MAX_QA_LENGTH
        self.reading = dict(max_qa_length=self.max_qa_length)
        # For an export alone of weights without a number of choices, the dev set has that number.
        used = options.splits + [options.predict_split] * options.do_predict or ["dev"]
        stored = setup.model.settings.of_class(MultipleChoiceSettings).num_choices
        is_default = stored == NUM_CHOICES  # which files leave out
        self.num_choices = stored if not is_default or not options.data_dir else max(
            len(example.options) for split in used for example in self.examples(split))

    def objective(self, config: AlbertConfig) -> ClassificationObjective:
        return ClassificationObjective(
            AlbertMultipleChoice(config, self.options.dropout_prob, num_choices=self.num_choices))

    def training_table(self) -> FeatureTable:
        return self._table("train", self.options.train_file)

    def texts(self, split: str) -> Iterator[str]:
        for example in self.examples(split):
            yield from (example.context, example.question, *example.options)

    def dev_tables(self) -> list[FeatureTable | None]:
        return [self._table("dev", self.options.eval_file)]

    def score(self, predictions: Sequence[Predictions]) -> dict[str, float]:
        return evaluate(self.examples("dev"), mean_of(predictions[0], "probabilities"))

    def predictions(self) -> Iterator[TableToPredict]:
        yield self._table(self.options.predict_split, self.options.predict_file), self._write

    def export(self, directory: str, model: keras.Model, checkpoint: Checkpoint) -> None:
        export_multiple_choice(directory, model, self.setup.tokenizer, self.setup.max_seq_length, self.max_qa_length)

    def _table(self, split: str, path: str | None) -> FeatureTable:
        return feature_table(self.setup.cache, self.examples(split), f"{self.options.data_format}_{split}",
                             self.setup.max_seq_length, self.max_qa_length, path)

    def _write(self, predictions: Predictions, trained: TrainedModels) -> None:
        """Writes the answers to --predict_split and, if it has labels, their scores with the checkpoint's step."""
        options, probabilities = self.options, mean_of(predictions, "probabilities")
        examples = self.examples(options.predict_split)
        write_predictions(options.output_dir, examples, probabilities)
        logging.info("%s of %s answered in %s", count_of(len(examples), "question"), options.predict_split,
                     options.output_dir)
        if all(example.label is not None for example in examples):
            report_predicted(options.output_dir, evaluate(examples, probabilities), trained.checkpoint().step)

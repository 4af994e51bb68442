"""Fine-tunes ALBERT to tag words, such as names; evaluates, predicts, exports.

    python -m albert_tf run_tagging --train_file=train.conll --eval_file=dev.conll --predict_file=test.conll \\
        --init_checkpoint=albert_base_v2 --output_dir=tagger --recipe=tagging --do_train --do_eval --do_predict

albert_tf/tasks/tagging/data.py describes the files. If the script is started again with the same flags, training
continues from the latest checkpoint.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any, Sequence

from absl import flags, logging

from albert_tf.commands import finetuning as tuning, finetuning_flags as tuning_flags, flag_fields as fields
from albert_tf.commands.distillation import DistillationOptions, Teacher
from albert_tf.modeling.classifier import AlbertTokenClassifier
from albert_tf.tasks.tagging import metrics as tagging_metrics
from albert_tf.tasks.tagging.data import (
    Columns,
    TaggedText,
    TaggingFeatureOptions,
    feature_table,
    label_names,
    read_tagged_text,
    share_of_words_with_capitals,
)
from albert_tf.tasks.tagging.metrics import best_metric
from albert_tf.tasks.tagging.task import TaggingTask
from albert_tf.tasks.tagging.text_tags import export_tagging
from albert_tf.text.lines import uncompressed_name
from albert_tf.utils import bounds
from albert_tf.utils.progress import count_of

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Options(DistillationOptions, tuning_flags.ExitFlags, tuning_flags.Options):
    """The flags of this command; `columns` and `exits` are made from several flags."""

    LARGEST_INTERVAL = 100

    columns: Columns | None = fields.made()
    exits: dict[str, Any] = fields.made()
    train_file: str | None = fields.string(
        None, "Path of the sentences to train on: one word and its tag per line, and a blank line between sentences. "
        "The tags in this file are the labels of the model.")
    eval_file: str | None = fields.string(
        None, "Path of the sentences that --do_eval evaluates, in the same format as --train_file.")
    predict_file: str | None = fields.string(
        None, "Path of the sentences that --do_predict tags, in the same format as --train_file or without tags.")
    doc_stride: int | None = fields.integer(
        None, "Number of pieces from the start of one window to the start of the next, for sentences of more than "
        "--max_seq_length tokens; 0: half a window. Default: that of the run in --output_dir, or 0.",
        bounds.SEQ_LENGTH.at_least(0))
    label_all_pieces: bool | None = fields.boolean(
        None, "Whether all pieces of a word have its tag in training, and the prediction is their mean. If false, only "
        "the first piece of a word has its tag. Default: false, or as in the model's training if nothing is trained.")
    classifier_dropout_prob: float = fields.number(
        0.1, "Dropout rate, from 0 to 1, of the sequence output in training.", 0.0, 1.0)

    @property
    def readers(self):
        return dict(train_file=["do_train"], eval_file=["do_eval"], predict_file=["do_predict"])


def define_flags() -> None:
    tuning_flags.define_flags(Options, max_seq_length=128)
    flags.DEFINE_list("columns", None, "Numbers of the columns of word and tag, from 0. Negative numbers count from "
                      "the end of the line. Default: 1,3 (form and UPOS) for .conllu files, 0,-1 for all others.")


def options_from_flags() -> Options:
    model = tuning_flags.set_defaults("token_classifier", has_exits=True)
    return tuning_flags.options_from_flags(Options, model, columns=columns_of(FLAGS.columns),
                                           exits=tuning_flags.exit_arguments(tuning_flags.ExitFlags, model,
                                                                             FLAGS.teacher_checkpoint))


def columns_of(values: Sequence[str] | None) -> Columns | None:
    if values is None:
        return None
    try:
        word, tag = map(int, values)
    except ValueError as error:
        raise ValueError(f"--columns must be two numbers, such as 0,-1. Received: {','.join(values)}") from error
    return Columns(word, tag)


def main() -> None:
    Tagging(options_from_flags()).run()


class Tagging(tuning.FineTuning):
    """Tags of words. The labels are the tags of --train_file, or those that are stored with the weights."""

    options: Options
    unit = "sentence"

    def __init__(self, options: Options):
        super().__init__(options)
        model = options.model
        self.features = TaggingFeatureOptions(
            options.max_seq_length, model.setting("doc_stride", options.doc_stride) or 0,
            bool(model.setting("label_all_pieces", options.label_all_pieces)))
        self.train, self.dev, self.test = (
            read_tagged_text(path, options.columns) if path and is_used else None for path, is_used in (
                (options.train_file, True), (options.eval_file, options.do_eval),
                (options.predict_file, options.do_predict)))
        self.label_names = self._label_names()
        tuning.check_labels(options, self.label_names)
        self._warn_of_capitals()
        self.best_metric = best_metric(self.label_names)
        self.data_files = [os.path.basename(text.path) for text in (self.train, self.dev) if text]
        self.reading = dict(doc_stride=self.features.doc_stride)
        if options.do_train and options.teacher_checkpoint:
            self.teacher = Teacher.of(options, "token_classifier", TaggingTask.TEACHER_OUTPUTS)
            self.teacher.check_labels(self.label_names)
            self.teacher.check_tokens(self.tokenizer, self.config, options.max_seq_length)

    def new_task(self, config):
        return TaggingTask(AlbertTokenClassifier(
            config, len(self.label_names), self.options.classifier_dropout_prob, self.label_names,
            self.features.label_all_pieces, **self.options.exits))

    def training_table(self):
        return self._table(self.train, "train")

    def texts(self, split):
        text = self.train if split == "train" else self.dev
        return (" ".join(sentence.words) for sentence in text.sentences)

    def evaluation(self):
        table = self._table(self.dev, "dev")
        return lambda predict: self._scores(self.dev, table, predict(table))

    def predictions(self):
        table = self._table(self.test, "test")
        yield table, functools.partial(self._write, table)

    def export(self, directory, model):
        export_tagging(directory, model, self.tokenizer, self.features)

    def _table(self, text: TaggedText, split: str):
        return feature_table(self.cache, text, split, self.label_names, self.features)

    def _label_names(self) -> tuple[str, ...]:
        for text in filter(None, (self.train, self.dev)):
            text.check_has_tags()
        known = label_names([self.train]) if self.train else self.options.model.settings.label_names
        if known is None:
            raise ValueError("the tags are unknown: no label names are stored with the weights, and --train_file, "
                             "which has all tags, is missing")
        for text in filter(None, (self.dev, self.test)):
            unknown = sorted(set(label_names([text])) - set(known))
            if unknown:
                logging.warning("%s has tags that the model does not know and cannot predict: %s", text.path,
                                ", ".join(unknown))
        return known

    def _warn_of_capitals(self) -> None:
        text = self.train or self.dev or self.test
        share = share_of_words_with_capitals(text) if text and self.tokenizer.do_lower_case else 0.0
        if share:
            logging.warning("the tokenizer lower-cases text: the model does not see the capitals of %.1f %% of the "
                            "words of %s", 100 * share, text.path)

    def _scores(self, text: TaggedText, table, predictions) -> dict[str, float]:
        probabilities = tagging_metrics.word_probabilities(table, predictions)
        return tagging_metrics.evaluate(text, probabilities, self.label_names)

    def _write(self, table, predictions, step: int) -> None:
        """Writes --predict_file with the predicted tags and, if it has tags, the scores with the checkpoint's step."""
        text, probabilities = self.test, tagging_metrics.word_probabilities(table, predictions)
        ending = os.path.splitext(uncompressed_name(text.path))[1] or ".txt"
        path = os.path.join(self.options.output_dir, f"predictions{ending}")
        text.write_with_tags(path, tagging_metrics.tags_of_sentences(text, probabilities, self.label_names))
        logging.info("%s: %s tagged", path, count_of(text.num_words, "word"))
        if text.has_tags:
            tuning.report_predicted(self.options, self._scores(text, table, predictions), step)

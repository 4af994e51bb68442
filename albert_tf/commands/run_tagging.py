"""Fine-tunes ALBERT to tag words, such as names; evaluates, predicts, exports.

    python -m albert_tf run_tagging --train_file=train.conll --eval_file=dev.conll --predict_file=test.conll \\
        --init_checkpoint=albert_base_v2 --output_dir=tagger --recipe=tagging --do_train --do_eval --do_predict

albert_tf/tasks/tagging/reading.py describes the files. If the script is started again with the same flags, training
continues from the latest checkpoint.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Sequence

import numpy as np
from absl import flags, logging

from albert_tf.commands import finetuning_flags as tuning, shared_flags as shared
from albert_tf.data.feature_cache import FeatureCache
from albert_tf.data.feature_table import FeatureTable
from albert_tf.modeling.token_classifier import AlbertTokenClassifier
from albert_tf.tasks.tagging import answers as tagging_answers
from albert_tf.tasks.tagging.export import export_tagging
from albert_tf.tasks.tagging.features import TaggingFeatureOptions, feature_table
from albert_tf.tasks.tagging.metrics import best_metric
from albert_tf.tasks.tagging.reading import (
    Columns,
    TaggedText,
    label_names,
    read_tagged_text,
    share_of_words_with_capitals,
)
from albert_tf.tasks.tagging.task import TaggingTask
from albert_tf.text.lines import uncompressed_name
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training.evaluation import shown, write_results
from albert_tf.training.finetuning import FineTuningOptions
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
    shared.define_training_flags(optimizer="adamw", learning_rate=5e-5, train_batch_size=32, save_checkpoints_steps=100)
    tuning.define_finetuning_flags(max_seq_length=128)
    shared.define_device_flags()
    flags.DEFINE_string("train_file", None, "Path of the sentences to train on: one word and its tag per line, and a "
                        "blank line between sentences. The tags in this file are the labels of the model.")
    flags.DEFINE_string("eval_file", None, "Path of the sentences that --do_eval evaluates, in the same format as "
                        "--train_file.")
    flags.DEFINE_string("predict_file", None, "Path of the sentences that --do_predict tags, in the same format as "
                        "--train_file or without tags.")
    flags.DEFINE_list("columns", None, "Numbers of the columns of word and tag, from 0. Negative numbers count from "
                      "the end of the line. Default: 1,3 (form and UPOS) for .conllu files, 0,-1 for all others.")
    shared.define_integer("doc_stride", 0, "Number of pieces from the start of one window to the start of the next, "
                          "for sentences of more than --max_seq_length tokens. 0: half a window.",
                          *bounds.SEQ_LENGTH.at_least(0))
    flags.DEFINE_bool("label_all_pieces", None, "Whether all pieces of a word have its tag in training, and the "
                      "prediction is their mean. If false, only the first piece of a word has its tag. Default: false, "
                      "or as in the model's training if nothing is trained.")
    shared.define_float("classifier_dropout_prob", 0.1, "Dropout rate, from 0 to 1, of the sequence output in "
                        "training.", 0.0, 1.0)
    tuning.define_step_flags(train_step=1000, warmup_step=100)
    shared.define_export_flags("raw text, words, ids, or serialized tf.Examples")


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags with the same names; `model`, `finetuning` and `features` are made from several flags."""

    model: ResolvedModel
    finetuning: FineTuningOptions
    features: TaggingFeatureOptions
    train_file: str | None
    eval_file: str | None
    predict_file: str | None
    columns: Columns | None
    cached_dir: str
    output_dir: str
    classifier_dropout_prob: float
    do_train: bool
    do_eval: bool
    do_predict: bool


def options_from_flags() -> Options:
    model = tuning.set_defaults("token_classifier")
    check_export(FLAGS.export_dir)
    tuning.check_purpose()
    for purpose in ("train", "eval", "predict"):
        if FLAGS[f"do_{purpose}"].value and not FLAGS[f"{purpose}_file"].value:
            raise ValueError(f"--{purpose}_file is missing")
    label_all_pieces = bool(model.setting("label_all_pieces", FLAGS.label_all_pieces))
    doc_stride = model.setting("doc_stride", tuning.requested("doc_stride")) or 0
    features = TaggingFeatureOptions(FLAGS.max_seq_length, doc_stride, label_all_pieces)
    return shared.from_flags(Options, model=model, columns=columns_of(FLAGS.columns), features=features,
                             cached_dir=tuning.cached_dir(),
                             finetuning=tuning.finetuning_options(FLAGS.train_step, FLAGS.warmup_step))


def columns_of(values: Sequence[str] | None) -> Columns | None:
    if values is None:
        return None
    try:
        word, tag = map(int, values)
    except ValueError as error:
        raise ValueError(f"--columns must be two numbers, such as 0,-1. Received: {','.join(values)}") from error
    return Columns(word, tag)


@dataclasses.dataclass(frozen=True)
class Data:
    """The contents of --train_file, --eval_file and --predict_file (None for a file that is not used), and all tags."""

    train: TaggedText | None
    dev: TaggedText | None
    test: TaggedText | None
    label_names: tuple[str, ...]


def main() -> None:
    """Runs the command."""
    options = options_from_flags()
    strategy = shared.set_up()
    data = read_data(options)
    tuning.check_labels(options.model, data.label_names)
    tokenizer = options.model.vocabulary.tokenizer(options.model.config)
    warn_of_capitals(data, tokenizer)
    cache = FeatureCache(tokenizer, options.cached_dir)

    def table(text, split):
        return feature_table(cache, text, split, data.label_names, options.features)

    def new_task(config):
        return TaggingTask(AlbertTokenClassifier(
            config, len(data.label_names), options.classifier_dropout_prob, data.label_names,
            options.features.label_all_pieces))

    finetuning = tuning.new_finetuning(options.finetuning, strategy, options.model, new_task,
                                       best_metric(data.label_names))
    with chief_first(strategy):
        evaluate = evaluation(data, table(data.dev, "dev")) if data.dev else None
        test_table = table(data.test, "test") if data.test else None
    training_table = functools.partial(table, data.train, "train") if options.do_train else None
    data_files = [os.path.basename(text.path) for text in (data.train, data.dev) if text]
    tuning.train_and_evaluate(finetuning, options.model.vocabulary, training_table, evaluate, data_files,
                              dict(doc_stride=options.features.doc_stride))
    if data.test:
        probabilities = tagging_answers.word_probabilities(test_table, finetuning.predict(test_table))
        if is_chief(strategy):
            answer(options, data, probabilities, finetuning.serving_step())
    tuning.export(finetuning, lambda export_dir, model: export_tagging(export_dir, model, tokenizer, options.features))


def read_data(options: Options) -> Data:
    """Reads the files to use. The tags are those of --train_file, or those that are stored with the weights."""
    train, dev, test = (read_tagged_text(path, options.columns) if path and is_used else None for path, is_used in (
        (options.train_file, True), (options.eval_file, options.do_eval), (options.predict_file, options.do_predict)))
    for text in filter(None, (train, dev)):
        text.check_has_tags()
    known = label_names([train]) if train else options.model.settings.label_names
    if known is None:
        raise ValueError("the tags are unknown: no label names are stored with the weights, and --train_file, which "
                         "has all tags, is missing")
    for text in filter(None, (dev, test)):
        unknown = sorted(set(label_names([text])) - set(known))
        if unknown:
            logging.warning("%s has tags that the model does not know and cannot predict: %s", text.path,
                            ", ".join(unknown))
    return Data(train, dev, test, known)


def warn_of_capitals(data: Data, tokenizer: FullTokenizer) -> None:
    text = data.train or data.dev or data.test
    share = share_of_words_with_capitals(text) if text and tokenizer.do_lower_case else 0.0
    if share:
        logging.warning("the tokenizer lower-cases text: the model does not see the capitals of %.1f %% of the words "
                        "of %s", 100 * share, text.path)


def evaluation(data: Data, table: FeatureTable):
    """The `evaluate` function of FineTuning."""
    return lambda predict: tagging_answers.evaluate(
        data.dev, tagging_answers.word_probabilities(table, predict(table)), data.label_names)


def answer(options: Options, data: Data, probabilities: np.ndarray, step: int) -> None:
    """Writes --predict_file with the predicted tags and, if it has tags, the scores with the checkpoint's step."""
    ending = os.path.splitext(uncompressed_name(data.test.path))[1] or ".txt"
    path = os.path.join(options.output_dir, f"predictions{ending}")
    data.test.write_with_tags(path, tagging_answers.tags_of_sentences(data.test, probabilities, data.label_names))
    logging.info("%s: %s tagged", path, count_of(data.test.num_words, "word"))
    if data.test.has_tags:
        results = tagging_answers.evaluate(data.test, probabilities, data.label_names)
        logging.info("%s", shown(results))
        write_results(options.output_dir, dict(results, global_step=step), "predict_results")

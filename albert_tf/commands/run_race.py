"""Fine-tunes ALBERT on RACE or other multiple choice; evaluates, predicts, exports.

    python run_race.py --data_dir=data --init_checkpoint=albert_base_v2 --output_dir=race --recipe=race_v2 --do_predict

    python run_race.py --data_dir=mine --data_format=jsonl --init_checkpoint=albert_base_v2 --output_dir=mine_trained

If it is started again with the same flags, training continues from the latest checkpoint.
albert_tf/tasks/multiple_choice/reading.py shows the JSON lines.
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
from albert_tf.modeling.multiple_choice import NUM_CHOICES, AlbertMultipleChoice
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.multiple_choice import answers as choice_answers
from albert_tf.tasks.multiple_choice.export import export_multiple_choice
from albert_tf.tasks.multiple_choice.features import feature_table
from albert_tf.tasks.multiple_choice.reading import FORMATS, SPLITS, ChoiceData, MultipleChoiceExample
from albert_tf.training.evaluation import shown, write_results
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
    shared.define_training_flags(optimizer="adamw", learning_rate=1e-5, train_batch_size=32, save_checkpoints_steps=100)
    tuning.define_finetuning_flags(max_seq_length=512, do_train=True, do_eval=True)
    shared.define_device_flags()
    flags.DEFINE_alias("num_keep_checkpoint", "keep_checkpoint_max")
    flags.DEFINE_string("data_dir", None, "Folder that contains RACE, or the .jsonl files of --data_format=jsonl. An "
                        "export of a model of RACE does not need it.")
    flags.DEFINE_enum("data_format", "race", FORMATS, "race: RACE in its original or the release's layout. jsonl: the "
                      "files train.jsonl, dev.jsonl and test.jsonl with one question per line.")
    flags.DEFINE_string("task_name", "race", "Has no effect. Scripts for the release can set it.")
    flags.DEFINE_string("train_file", None, "Path of the cached training features. Default: a file in --cached_dir.")
    flags.DEFINE_string("eval_file", None, "Path of the cached features of the dev set. Default: a file in "
                        "--cached_dir.")
    flags.DEFINE_string("predict_file", None, "Path of the cached features of --predict_split. Default: a file in "
                        "--cached_dir.")
    flags.DEFINE_enum("predict_split", "test", SPLITS, "The split that --do_predict predicts. It is also scored if it "
                      "has answers.")
    flags.DEFINE_bool("high_only", False, "Whether to use only RACE's questions for high schools.")
    flags.DEFINE_bool("middle_only", False, "Whether to use only RACE's questions for middle schools.")
    shared.define_integer("max_qa_length", 128, "Largest number of tokens of question and option together. If there "
                          "are more, only the last tokens are kept. If the flag is not set, a run in --output_dir "
                          "keeps its own.", *bounds.SEQ_LENGTH)
    shared.define_float("dropout_prob", 0.1, "Dropout rate, from 0 to 1, of the pooled output in training.", 0.0, 1.0)
    tuning.define_step_flags(train_step=12000, warmup_step=1000)
    shared.define_export_flags()


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags with the same names; `model` and `finetuning` are made from flags that fine-tuning scripts share."""

    model: ResolvedModel
    finetuning: FineTuningOptions
    data_dir: str | None
    data_format: str
    cached_dir: str
    train_file: str | None
    eval_file: str | None
    predict_file: str | None
    predict_split: str
    high_only: bool
    middle_only: bool
    output_dir: str
    max_seq_length: int
    max_qa_length: int
    dropout_prob: float
    do_train: bool
    do_eval: bool
    do_predict: bool


def options_from_flags() -> Options:
    model = tuning.set_defaults("multiple_choice")
    check_export(FLAGS.export_dir)
    tuning.check_purpose()
    tuning.check_data_dir(FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict or FLAGS.data_format == "jsonl",
                          "RACE, or the .jsonl files")
    max_qa_length = model.setting("max_qa_length", tuning.requested("max_qa_length")) or FLAGS.max_qa_length
    return shared.from_flags(Options, model=model, max_qa_length=max_qa_length, cached_dir=tuning.cached_dir(),
                             finetuning=tuning.finetuning_options(FLAGS.train_step, FLAGS.warmup_step))


def main() -> None:
    """Runs the command."""
    options = options_from_flags()
    strategy = shared.set_up()
    tokenizer = options.model.vocabulary.tokenizer(options.model.config)
    cache = FeatureCache(tokenizer, options.cached_dir)
    data = ChoiceData(options.data_dir, options.data_format, options.high_only, options.middle_only)
    stored = options.model.settings.num_choices
    num_choices = stored or (data.num_choices(*used_splits(options)) if options.data_dir else NUM_CHOICES)

    def table(split, path):
        return feature_table(cache, data.examples(split), f"{data.data_format}_{split}", options.max_seq_length,
                             options.max_qa_length, path)

    def new_task(config):
        return ClassificationTask(AlbertMultipleChoice(config, options.dropout_prob, num_choices))

    finetuning = tuning.new_finetuning(options.finetuning, strategy, options.model, new_task,
                                       choice_answers.BEST_METRIC)
    with chief_first(strategy):
        evaluate = evaluation(data, table("dev", options.eval_file)) if options.do_eval else None
        to_predict = table(options.predict_split, options.predict_file) if options.do_predict else None
    training_table = functools.partial(table, "train", options.train_file) if options.do_train else None
    data_files = [data.file_name(split) for split in ["train"] * options.do_train + ["dev"] * options.do_eval]
    tuning.train_and_evaluate(finetuning, options.model.vocabulary, training_table, evaluate, data_files,
                              dict(max_qa_length=options.max_qa_length))
    if to_predict is not None:
        probabilities = mean_of(finetuning.predict(to_predict), "probabilities")
        if is_chief(strategy):
            answer(options, data.examples(options.predict_split), probabilities, finetuning.serving_step())
    tuning.export(finetuning, lambda export_dir, model: export_multiple_choice(
        export_dir, model, tokenizer, options.max_seq_length, options.max_qa_length))


def used_splits(options: Options) -> list[str]:
    """The splits to read. For an export alone of weights without a number of choices, the dev set has that number."""
    wanted = dict(train=options.do_train, dev=options.do_eval)
    used = [split for split in wanted if wanted[split]] + [options.predict_split] * options.do_predict
    return used or ["dev"]


def evaluation(data: ChoiceData, table: FeatureTable):
    """The `evaluate` function of FineTuning."""
    return lambda predict: choice_answers.evaluate(data.examples("dev"), mean_of(predict(table), "probabilities"))


def answer(options: Options, examples: Sequence[MultipleChoiceExample], probabilities: np.ndarray, step: int) -> None:
    """Writes the answers to --predict_split and, if it has labels, their scores with the checkpoint's step."""
    choice_answers.write_predictions(options.output_dir, examples, probabilities)
    logging.info("%s of %s answered in %s", count_of(len(examples), "question"), options.predict_split,
                 options.output_dir)
    if all(example.label is not None for example in examples):
        results = choice_answers.evaluate(examples, probabilities)
        logging.info("%s", shown(results))
        write_results(options.output_dir, dict(results, global_step=step), "predict_results")

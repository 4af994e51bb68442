"""Fine-tunes sentence vectors; evaluates them by Spearman's correlation; exports.

    python -m albert_tf run_sentence_embeddings --objective=sts --data_dir=glue --init_checkpoint=albert_base_v2 \\
        --output_dir=sentences --do_train --do_eval

--objective=sts trains on the scores of STS-B, pairs on texts that belong together (two columns of --train_file), and
simcse on single lines of text (--train_file). If the script is started again with the same flags, training continues
from the latest checkpoint.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Callable, Sequence

import numpy as np
from absl import flags, logging

from albert_tf.commands import finetuning_flags as tuning, shared_flags as shared
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_cache import FeatureCache
from albert_tf.data.feature_table import FeatureTable
from albert_tf.modeling.pooling import SentencePooling
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.tasks.classification.answers import write_answers
from albert_tf.tasks.classification.features import read_examples
from albert_tf.tasks.classification.glue_tasks import Task, find_task
from albert_tf.tasks.classification.metrics import correlations
from albert_tf.tasks.classification.task_config import load_task_config
from albert_tf.tasks.sentence_vectors.export import export_sentence_encoder
from albert_tf.tasks.sentence_vectors.features import (
    TextPair,
    feature_table,
    read_pairs,
    read_scored_pairs,
    read_twice,
)
from albert_tf.tasks.sentence_vectors.task import SentenceVectorTask
from albert_tf.training.finetuning import FineTuningOptions
from albert_tf.training.prediction import mean_of
from albert_tf.training.strategy import chief_first, is_chief
from albert_tf.utils.progress import count_of
from albert_tf.utils.writing import check_export
from albert_tf.weights.resolved_model import ResolvedModel

DROPOUT = 0.1  # for simcse, as in Gao et al. (2021)

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the flags of this command."""
    shared.define_model_flags()
    shared.define_vocabulary_flags()
    shared.define_pooling_flags()
    shared.define_training_flags(optimizer="adamw", learning_rate=3e-5, train_batch_size=64, save_checkpoints_steps=100)
    tuning.define_finetuning_flags(max_seq_length=128)
    shared.define_device_flags()
    flags.DEFINE_enum("objective", "sts", ("sts", "pairs", "simcse"), "Training objective. sts: the cosine of two "
                      "texts predicts STS-B's score. pairs: the two texts of a row are nearest to each other in their "
                      "batch. simcse: like pairs, with each line and the same line under another dropout mask "
                      f"(of the rate {DROPOUT} if the config has no dropout).")
    flags.DEFINE_string("train_file", None, "Path of the training data. For --objective=pairs it is a .tsv or .csv "
                        "file with two columns and no header, or JSON lines with text_a and text_b. For "
                        "--objective=simcse it is UTF-8 text, one text on each line.")
    flags.DEFINE_string("data_dir", None, "Directory that holds GLUE's STS-B, or the files of --task_config.")
    flags.DEFINE_string("task_config", None, "Path of a JSON file that describes a regression task on two texts, to "
                        "use instead of STS-B; see albert_tf/tasks/classification/task_config.py.")
    shared.define_float("best_score", 5.0, "The task's highest score, which corresponds to a cosine of 1.", 1e-6)
    shared.define_float("temperature", 0.05, "Number by which cosines are divided, for the objectives pairs and "
                        "simcse.", 1e-6)
    tuning.define_step_flags(train_step=1000, warmup_step=100)
    shared.define_export_flags()


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags with the same names; `model`, `pooling` and `finetuning` are made from several flags.

    `scored` is STS-B or --task_config.
    """

    model: ResolvedModel
    pooling: SentencePooling
    finetuning: FineTuningOptions
    scored: Task
    objective: str
    train_file: str | None
    data_dir: str | None
    best_score: float
    temperature: float
    cached_dir: str
    output_dir: str
    max_seq_length: int
    do_train: bool
    do_eval: bool
    do_predict: bool


def options_from_flags() -> Options:
    model = tuning.set_defaults("sentence_encoder")
    if FLAGS.objective != "sts" and not FLAGS.cpu_parts:
        FLAGS.set_default("cpu_parts", 1)  # the other texts of a part are the negatives
    check_export(FLAGS.export_dir)
    tuning.check_purpose()
    if FLAGS.do_train and FLAGS.objective != "sts" and not FLAGS.train_file:
        raise ValueError(f"--train_file is missing: --objective={FLAGS.objective} trains on it")
    tuning.check_data_dir(FLAGS.do_eval or FLAGS.do_predict or FLAGS.do_train and FLAGS.objective == "sts", "STS-B")
    scored = load_task_config(FLAGS.task_config) if FLAGS.task_config else find_task("sts-b")
    pooling = shared.sentence_pooling(model)
    return shared.from_flags(Options, model=model, pooling=pooling, scored=scored, cached_dir=tuning.cached_dir(),
                             finetuning=tuning.finetuning_options(FLAGS.train_step, FLAGS.warmup_step))


def main() -> None:
    """Runs the command."""
    options = options_from_flags()
    strategy = shared.set_up()
    config = options.model.config
    if options.do_train and options.objective == "simcse":
        config = with_dropout(config)
    tokenizer = options.model.vocabulary.tokenizer(config)
    cache = FeatureCache(tokenizer, options.cached_dir)

    def table(pairs, split):
        return feature_table(cache, pairs, split, options.max_seq_length)

    def new_task(config):
        model = AlbertSentenceEncoder(config, **dataclasses.asdict(options.pooling))
        objective = "similarity" if options.objective == "sts" else "contrastive"
        return SentenceVectorTask(model, objective, options.temperature)

    finetuning = tuning.new_finetuning(options.finetuning, strategy, options.model, new_task, "spearman", config)
    with chief_first(strategy):
        evaluate = evaluation(options, table) if options.do_eval else None
        test_table = table(scored_pairs(options, "test"), "test") if options.do_predict else None
    training_table = functools.partial(table, training_pairs(options), "train") if options.do_train else None
    tuning.train_and_evaluate(finetuning, options.model.vocabulary, training_table, evaluate, data_files(options))
    if test_table is not None:
        cosines = mean_of(finetuning.predict(test_table), "cosine")
        if is_chief(strategy):
            answer(options, cosines)
    tuning.export(finetuning, lambda export_dir, model: export_sentence_encoder(
        export_dir, model, tokenizer, options.max_seq_length))


def with_dropout(config: AlbertConfig) -> AlbertConfig:
    """A config with dropout, without which simcse's two encodings of a line are equal."""
    if config.hidden_dropout_prob or config.attention_probs_dropout_prob:
        return config
    logging.info("the model's config has no dropout, which --objective=simcse needs: its rate is set to %g", DROPOUT)
    return config.replace(hidden_dropout_prob=DROPOUT, attention_probs_dropout_prob=DROPOUT)


def training_pairs(options: Options) -> list[TextPair]:
    if options.objective == "sts":
        return scored_pairs(options, "train")
    pairs = (read_pairs if options.objective == "pairs" else read_twice)(options.train_file)
    if len(set(pairs)) < 2:
        raise ValueError(f"--train_file={options.train_file} has one text again and again: --objective="
                         f"{options.objective} compares different ones")
    return pairs


def scored_pairs(options: Options, split: str) -> list[TextPair]:
    return read_scored_pairs(options.scored, options.data_dir, split, options.best_score)


def data_files(options: Options) -> list[str]:
    """Names of the files of training and evaluation data, for the model card."""
    scored = {split: source.path for split, source in options.scored.sources.items()}
    train = scored.get("train") if options.objective == "sts" else os.path.basename(options.train_file or "")
    files = [train] * options.do_train + [scored.get("dev")] * options.do_eval
    return [name for name in files if name]


def evaluation(options: Options, new_table: Callable[[Sequence[TextPair], str], FeatureTable]):
    """The `evaluate` function of FineTuning."""
    pairs = scored_pairs(options, "dev")
    table, expected = new_table(pairs, "dev"), np.array([pair.cosine for pair in pairs])
    return lambda predict: correlations(expected, mean_of(predict(table), "cosine"))


def answer(options: Options, cosines: np.ndarray) -> None:
    """Writes the scores of the test set to files in the format of run_classifier.py."""
    guids = [example.guid for example in read_examples(options.scored, options.data_dir, "test")]
    write_answers(options.output_dir, options.scored, guids, options.best_score * cosines[:, None])
    logging.info("%s: %s answered in %s", options.scored.name, count_of(len(guids), "test example"), options.output_dir)

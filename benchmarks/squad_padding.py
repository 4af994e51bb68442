"""Features per second of training and prediction on SQuAD, batched by length and padded to 384 tokens.

    python -m benchmarks.squad_padding --train_file=train-v2.0.json --predict_file=dev-v2.0.json \\
        --init_checkpoint=albert_base_v2

Both use batches of 32 in training and prediction, and AdamW with clipping. The largest difference of their logits is
reported too. Functions are compiled before time is measured, and both ways take turns in one process.
"""

import tempfile
import time
from typing import Callable

import numpy as np
import tensorflow as tf
from absl import flags

from albert_tf import keras
from albert_tf.commands import app, flag_fields, shared_flags, training_flags
from albert_tf.data.batching import bucket_lengths, evaluation_rows, table_batches, training_rows
from albert_tf.data.feature_table import FeatureCache, FeatureTable
from albert_tf.modeling.span import AlbertConditionalSpan, AlbertSpan
from albert_tf.tasks.squad.features import FeatureOptions, prediction_table, training_table
from albert_tf.tasks.squad.fine_tuning import ConditionalSpanTask, SpanTask
from albert_tf.tasks.squad.reading import read_squad_file
from albert_tf.training.evaluation import Predictor
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.options import DeviceOptions, TpuAddress
from albert_tf.training.run import set_up
from albert_tf.training.strategy import resolve_strategy
from albert_tf.training.trainer import Trainer
from benchmarks import common_flags
from benchmarks.alternation import in_turns
from benchmarks.computing import take_step_of_each_bucket
from benchmarks.processor import naming_processor

flag_fields.define_fields(shared_flags.ModelFlags)
flag_fields.define_fields(training_flags.DeviceFlags)
flags.DEFINE_string("train_file", None, "Path of SQuAD's training file, JSON.", required=True)
flags.DEFINE_string("predict_file", None, "Path of SQuAD's dev file, JSON.", required=True)
common_flags.define_rounds(3)
flags.DEFINE_integer("steps", 50, "Number of training steps of a turn. 50 steps have features of all lengths.")
flags.DEFINE_integer("random_seed", 12345, "Seed of the random weights and of the order of examples.")
FLAGS = flags.FLAGS

BATCH, MAX_SEQ_LENGTH, DOC_STRIDE, MAX_QUERY_LENGTH = 32, 384, 128, 64
BUCKETS = {"batched by length": bucket_lengths(MAX_SEQ_LENGTH), "padded to 384": (MAX_SEQ_LENGTH,)}
LOGITS = {"1.1": ("start_logits", "end_logits"), "2.0": ("start_top_log_probs", "end_top_log_probs", "cls_logits")}


def main():
    strategy = set_up(DeviceOptions(
        resolve_strategy(FLAGS.distribution_strategy), TpuAddress(), 1, FLAGS.precision, FLAGS.random_seed, {}))
    version = read_squad_file(FLAGS.train_file).summary.version
    model = flag_fields.from_flags(shared_flags.ModelFlags).resolve_model()
    tokenizer = model.vocabulary.tokenizer()
    task = new_task(model, version)
    with tempfile.TemporaryDirectory() as folder:
        cache = FeatureCache(tokenizer, folder)
        options = FeatureOptions(MAX_SEQ_LENGTH, DOC_STRIDE, MAX_QUERY_LENGTH)
        train = training_table(cache, read_squad_file(FLAGS.train_file), options)
        predict, _ = prediction_table(cache.tokenizer, read_squad_file(FLAGS.predict_file), options)
    print(f"\nlargest difference of the logits: {largest_difference(version, task.model, predict):.1e}", flush=True)
    ways = "".join(f"{name:>20}" for name in BUCKETS)
    print(f"{'features per second, median':32}{ways}{'ratio':>8}")
    report("prediction", rates_of({name: predicting(task, strategy, predict, buckets)
                                   for name, buckets in BUCKETS.items()}))
    report("training", rates_of({name: training(task, train, buckets) for name, buckets in BUCKETS.items()}))


def new_task(model, version: str):
    def new_task():
        if version == "1.1":
            return SpanTask(AlbertSpan(model.config))
        return ConditionalSpanTask(AlbertConditionalSpan(model.config))

    return model.build(new_task, model.request.init_checkpoint)[0]


def largest_difference(version: str, model: keras.Model, table: FeatureTable) -> float:
    """The largest difference between the logits of features batched by length and of the same features padded."""
    names = LOGITS[version]
    batches = table_batches(table, evaluation_rows(table, BATCH), BUCKETS["batched by length"],
                            tf.distribute.InputContext())
    one_of_each = {batch["input_ids"].shape[1]: batch for batch in batches if batch["example"][-1] >= 0}
    largest = 0.0
    for batch in one_of_each.values():
        padded = table.batch(batch["example"], tf.constant(MAX_SEQ_LENGTH))
        one, other = model(batch), model(padded)
        is_token = batch["input_mask"].numpy().astype(bool)
        for name in names:
            a, b = one[name].numpy(), other[name].numpy()
            if a.shape == is_token.shape:
                a, b = a[is_token], b[:, : is_token.shape[1]][is_token]
            largest = max(largest, float(np.abs(a - b).max()))
    return largest


def predicting(task, strategy, table: FeatureTable, buckets: tuple[int, ...]):
    predictor = Predictor(task.model, task.predictions, strategy, BATCH, buckets)

    def turn() -> float:
        start = time.perf_counter()
        predictor(table)
        return len(table) / (time.perf_counter() - start)

    return turn


def training(task, table: FeatureTable, buckets: tuple[int, ...]):
    trainer = Trainer(task, jit_compile=FLAGS.jit_compile, shapes_vary=True)
    trainer.compile(create_optimizer("adamw", learning_rate=1e-5, num_train_steps=10000, num_warmup_steps=1000))
    step = trainer.make_train_function()
    take_step_of_each_bucket(step, table, BATCH, buckets)
    rows = training_rows(table, BATCH, num_steps=10000, seed=1)
    batches = iter(table_batches(table, rows, buckets, tf.distribute.InputContext()))
    steps = FLAGS.steps if len(buckets) > 1 else max(1, FLAGS.steps // 5)  # fewer if all features have one length

    def turn() -> float:
        start = time.perf_counter()
        for _ in range(steps):
            loss = step(batches)["loss"]
        float(loss)
        return steps * BATCH / (time.perf_counter() - start)

    return turn


def rates_of(ways: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median rate of each way. The first turn of prediction compiles and does not count."""
    for turn in ways.values():
        turn()
    return in_turns(ways, FLAGS.rounds)


def report(what: str, rates: dict[str, float]) -> None:
    by_length, padded = rates.values()
    print(f"{what:32}{by_length:20.1f}{padded:20.1f}{by_length / padded:8.2f}", flush=True)


if __name__ == "__main__":
    app.run(naming_processor(main))

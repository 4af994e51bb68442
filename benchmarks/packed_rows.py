"""Pre-training steps on padded rows and on rows of several texts (--pack_rows), in turns on the same examples.

    python -m benchmarks.packed_rows --model=albert_tiny_en --batch=16

Without --input_file, the examples are random tokens. Their lengths are those of release-style records of short
documents: 41 % are full, the others have any length. The losses of the first batch are compared, too: in float32, they
are equal but for rounding.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from typing import Iterator

import numpy as np
import tensorflow as tf
from absl import flags

from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.data.records import record_writer, serialize
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.pretraining.objective import PretrainingObjective
from albert_tf.pretraining.reading import RecordSet, TrainingBatches, open_records
from albert_tf.training.config import RUNTIMES, Devices, Schedule, Training
from albert_tf.training.run import new_trainer, set_up
from albert_tf.training.trainer import parts_of
from benchmarks import common
from benchmarks.device_steps.programs import predictions_of

flags.DEFINE_multi_integer("pack_rows", [1], "Length of a packed row, in examples. May be repeated.", lower_bound=1)
flags.DEFINE_enum("model", "albert_base_v2", list(PRESETS), "Name of the model's size. Its weights are random.")
flags.DEFINE_integer("batch", 32, "Number of examples of a step.", lower_bound=1)
flags.DEFINE_integer("seq", 512, "Length of the records.", lower_bound=32)
flags.DEFINE_string("input_file", None, "Path of records of that length, with 15 % masked tokens.")
flags.DEFINE_enum("runtime", "tensorflow", RUNTIMES, "What computes the steps.")
flags.DEFINE_integer("batches", 4, "Number of batches of a turn.", lower_bound=1)
flags.DEFINE_enum("precision", "bfloat16", list(common.POLICIES), "Data type of the computations.")
common.define_rounds(5)
FLAGS = flags.FLAGS


def main():
    config = AlbertConfig(**dict(PRESETS[FLAGS.model], max_position_embeddings=max(512, FLAGS.seq)))
    computing = Devices(runtime=FLAGS.runtime, precision=common.POLICIES[FLAGS.precision])
    training = Training(optimizer="adamw", learning_rate=0.0, train_batch_size=FLAGS.batch)
    strategy = set_up(computing, training.random_seed, dict(train_batch_size=FLAGS.batch))
    with strategy.scope():
        objective = PretrainingObjective(AlbertPretrainer(config))
    trainer = new_trainer(objective, strategy, training, computing, Schedule(10_000), shapes_vary=True, rows_vary=True)
    step = trainer.step
    with tempfile.TemporaryDirectory() as folder:
        path = FLAGS.input_file or write_random_records(os.path.join(folder, "random.tfrecord"), config.vocab_size)
        records = open_records([path], FLAGS.seq, predictions_of(FLAGS.seq), config.vocab_size)
        batches = {length: batches_of(records, length, parts_of(computing)) for length in (0, *FLAGS.pack_rows)}
    turns = Turns()
    seconds: dict[int, list[float]] = {length: [] for length in batches}
    for number in range(-1, FLAGS.rounds):  # the turn before the first one compiles the steps
        for length, of_turn in batches.items():
            turns.batches = list(of_turn)
            start = time.perf_counter()
            losses = [step(turns)["loss"] for _ in of_turn]
            losses = [float(loss) for loss in losses]  # waits for the last step
            if number < 0:
                print(described(length, of_turn, losses[0]), flush=True)
            else:
                seconds[length].append(time.perf_counter() - start)
    for length in FLAGS.pack_rows:
        ratios = [padded / packed for padded, packed in zip(seconds[0], seconds[length])]
        rate = FLAGS.batch * FLAGS.batches / statistics.median(seconds[length])
        print(f"--pack_rows={length}: {min(ratios):.2f} to {max(ratios):.2f} times as fast, median "
              f"{statistics.median(ratios):.2f}; {rate:.3g} examples a second")


class Turns(Iterator[dict]):
    """An iterator over batches, which are replaced for each turn: jax keeps its variables for an iterator."""

    batches: list[dict]

    def __next__(self) -> dict:
        return self.batches.pop(0)


def batches_of(records: RecordSet, length: int, parts: int) -> list[dict]:
    """The batches of a turn; length 0 means padded rows."""
    batches = TrainingBatches(records, FLAGS.batch, seed=1)
    if length:
        batches.pack_rows(length, parts)
    return list(batches.from_step(0, tf.distribute.InputContext()).take(FLAGS.batches))


def described(length: int, batches: list[dict], loss: float) -> str:
    rows, shares = zip(*((len(batch["input_mask"]), np.mean(batch["input_mask"])) for batch in batches))
    padding = 1 - sum(np.multiply(rows, shares)) / sum(rows)
    name = f"--pack_rows={length}" if length else "padded"
    return f"{name}: {min(rows)} to {max(rows)} rows, {padding:.1%} padding, loss of the first batch {loss:.6f}"


def write_random_records(path: str, vocab_size: int) -> str:
    """Writes records of random tokens, and returns the path."""
    random, seq, most = np.random.default_rng(1), FLAGS.seq, predictions_of(FLAGS.seq)
    with record_writer(path, {}) as writer:
        for _ in range(FLAGS.batch * FLAGS.batches):
            length = seq if random.random() < 0.41 else int(random.integers(16, seq))
            is_token, is_masked = np.arange(seq) < length, np.arange(most) < round(0.15 * length)
            writer.write(serialize(
                input_ids=np.where(is_token, random.integers(5, vocab_size, seq), 0),
                input_mask=is_token.astype(np.int64), token_boundary=is_token.astype(np.int64),
                segment_ids=(is_token & (np.arange(seq) > length // 2)).astype(np.int64),
                masked_lm_positions=np.where(is_masked, np.arange(1, most + 1), 0),
                masked_lm_ids=np.where(is_masked, random.integers(5, vocab_size, most), 0),
                masked_lm_weights=is_masked.astype(np.float32), next_sentence_labels=random.integers(0, 2, 1)))
    return path


if __name__ == "__main__":
    common.run(main)

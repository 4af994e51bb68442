"""Fine-tuning steps of albert_tf on sentences, through trainer and batching.

    python -m benchmarks.workers.glue_ours float32|bfloat16 sentences.npz BATCH LENGTH [--pad_to_max_length]
"""

import sys

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data.batching import bucket_lengths, table_batches, training_rows
from albert_tf.data.feature_table import FeatureSchema, FeatureTable
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer
from benchmarks.computing import set_precision, take_step_of_each_bucket
from benchmarks.workers.serving import serve


def make_step():
    precision, path, batch_size, max_seq_length = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    set_precision(precision)
    table = read_table(path, max_seq_length)
    buckets = bucket_lengths(max_seq_length, "--pad_to_max_length" in sys.argv)
    task = ClassificationTask(AlbertClassifier(AlbertConfig.preset("albert_base_v2"), 2))
    trainer = Trainer(task, shapes_vary=True)
    trainer.compile(create_optimizer("adamw", learning_rate=1e-5, num_train_steps=20935, num_warmup_steps=1256))
    train = trainer.make_train_function()
    take_step_of_each_bucket(train, table, batch_size, buckets)
    rows = training_rows(table, batch_size, num_steps=20935, seed=1)
    batches = iter(table_batches(table, rows, buckets, tf.distribute.InputContext()))
    return lambda: float(train(batches)["loss"])


def read_table(path: str, max_seq_length: int) -> FeatureTable:
    sentences = np.load(path)
    ids = tf.RaggedTensor.from_row_lengths(sentences["ids"], sentences["lengths"])
    sequences = dict(input_ids=ids, segment_ids=tf.cast(tf.zeros_like(ids), tf.int8))
    schema = FeatureSchema(max_seq_length, dict(label_ids=tf.int32))
    return FeatureTable(schema, sequences, dict(label_ids=tf.constant(sentences["labels"])))


if __name__ == "__main__":
    serve(make_step, first_steps=1)

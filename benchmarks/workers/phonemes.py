"""A training step on phonemes by albert_tf.

    python -m benchmarks.workers.phonemes float32|mixed_bfloat16 LAYERS BATCH SEQ WORDS all|once
"""

import sys

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.pretrainer import AlbertPhonemePretrainer
from albert_tf.pretraining.phoneme_objective import PhonemeFormat, PhonemeObjective, masked_batch
from albert_tf.training import trainer
from albert_tf.training.optimizer import create_optimizer
from benchmarks.computing import set_precision
from benchmarks.workers.serving import serve

_WORD = 6  # phonemes, with the separator


def make_step():
    layers, rows, seq, num_words = map(int, sys.argv[2:6])
    parts = trainer.parts_of_cpu()
    trainer.divide_threads(parts)
    keras.utils.set_random_seed(1)
    set_precision(sys.argv[1])
    config = AlbertConfig(vocab_size=178, embedding_size=128, hidden_size=768, num_hidden_layers=layers,
                          num_attention_heads=12, intermediate_size=2048, max_position_embeddings=512,
                          hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    random, words = np.random.default_rng(1), -(-seq // _WORD)
    ids = random.integers(43, 178, [rows, seq], np.int32)
    ids[:, _WORD - 1 :: _WORD] = 16
    form = PhonemeFormat(seq, words, num_words, "", 178, 16, 29)
    batch = masked_batch(ids=tf.constant(ids), mask=tf.ones([rows, seq], tf.int32),
                         word_ids=tf.constant(random.integers(0, num_words, [rows, words], np.int32)),
                         chance=tf.random.uniform([rows, 3, seq]), phonemes=form)
    task = PhonemeObjective(AlbertPhonemePretrainer(config, num_words), sys.argv[6])
    ours = trainer.Trainer(task, parts=parts)
    ours.compile(optimizer=create_optimizer("adamw", learning_rate=1e-4, num_train_steps=10000, num_warmup_steps=0))
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
    train = ours.make_train_function()
    return lambda: float(train(batches)["loss"])


if __name__ == "__main__":
    serve(make_step)

"""Measures the training speed of the published sizes (table 2)."""

from __future__ import annotations

import time

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from benchmarks.device_steps.programs import batch_of, training_step
from benchmarks.workers.workloads import Workload

SEQUENCES, SEQ, PREDICTIONS, STEPS = 4, 128, 20, 10
# The speed of training in the paper, with BERT large as 1.
PUBLISHED = {"bert_large": 1.0, "bert_base": 4.7, "albert_base_v2": 5.6, "albert_large_v2": 1.7,
             "albert_xlarge_v2": 0.6, "albert_xxlarge_v2": 0.3}


def print_speed() -> None:
    """Prints trained tokens per second in bfloat16, and their multiple of BERT large's, here and in the paper."""
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    rates: list[float] = []
    for name, in_paper in PUBLISHED.items():
        # BERT's presets have dropout and ALBERT's have none, so their speeds would differ by the time of dropout.
        rates.append(tokens_per_second(AlbertConfig.preset(name).replace(
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)))
        print(f"{name:20}{rates[-1]:10.1f} tokens/s{rates[-1] / rates[0]:8.2f}{in_paper:8.1f} in the paper", flush=True)


def tokens_per_second(config: AlbertConfig) -> float:
    """Trained tokens per second of the whole training step with AdamW."""
    batch = batch_of("pre-training", Workload(config.to_dict(), SEQUENCES, SEQ, PREDICTIONS))
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
    train = training_step("pre-training", config).step
    float(train(batches)["loss"])  # traces and allocates
    start = time.perf_counter()
    for _ in range(STEPS):
        float(train(batches)["loss"])
    seconds = time.perf_counter() - start
    keras.backend.clear_session()
    return STEPS * SEQUENCES * SEQ / seconds

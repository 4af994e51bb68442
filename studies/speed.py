"""The last column of Table 2: training speed as a multiple of BERT large's, measured here and by the cost formula.

The table also has the size of each model and the time for one sentence.
"""

from __future__ import annotations

import os
import time
from typing import Callable, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.pretraining.task import PretrainingTask
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer
from studies import sizes

SEQUENCES, SEQ, PREDICTIONS = 4, 128, 20
SENTENCE_TOKENS = 32
REFERENCE = "bert large"
# Table 2 of the paper (Lan et al., 2020): speed of training, with BERT large as 1.
PAPER = {"bert base": 4.7, "bert large": 1.0, "albert base": 5.6, "albert large": 1.7, "albert xlarge": 0.6,
         "albert xxlarge": 0.3}
_SECONDS, _MOST_STEPS = 10.0, 20  # maximum seconds and steps of a measurement
# float32 values for a weight: weight, gradient, two moments, a bfloat16 copy, and temporary values of the optimizer.
_VALUES_OF_A_VARIABLE = 6


class Measurement(NamedTuple):
    """Trained tokens per second, and milliseconds from the ids of one sentence to its vectors."""

    tokens_per_second: float
    sentence_milliseconds: float


def configs() -> dict[str, AlbertConfig]:
    """The rows of the table: the paper's sizes and the model that comes with the package, all without dropout."""
    named = {what: config for what, config, _ in sizes.published(sizes.NAMED_SIZES)}
    named["albert_tiny_en"] = AlbertConfig.preset("albert_tiny_en")
    # BERT's presets have dropout and ALBERT's have none, so their speeds would differ by the time that dropout takes.
    return {what: config.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
            for what, config in named.items()}


def print_speed() -> None:
    """Measures every size that fits into memory, and prints the table as Markdown."""
    peak = matrix_product_rate()
    measured = {}
    for what, config in configs().items():
        if not fits(config):
            logging.info("%s: too large for the available memory", what)
            continue
        measured[what] = Measurement(tokens_per_second(config), sentence_milliseconds(config))
        logging.info("%s: %s tokens/s, one sentence %.1f ms", what, f"{measured[what].tokens_per_second:,.1f}",
                     measured[what].sentence_milliseconds)
    print(f"matrix products of 4,096 x 4,096 in bfloat16: {peak / 1e9:,.0f} GFLOP/s\n")
    print(table(measured, peak))


def table(measured: dict[str, Measurement], peak: float) -> str:
    """The table, with a dash for a size that was not measured or is not in the paper.

    Args:
      measured: the measurements by size.
      peak: operations per second of matrix products.
    """
    compute = {what: sizes.compute_parameters(config, PREDICTIONS / SEQ) for what, config in configs().items()}
    reference = measured.get(REFERENCE)
    lines = ["| | variables | float32 weights, MB | tokens/s | speed here | by the formula | the paper's "
             "| share of matrix products' rate | one sentence, ms |", "|---" * 9 + "|"]
    for what, config in configs().items():
        variables, speed = sizes.variable_count(config), measured.get(what)
        cells = [what, f"{variables / 1e6:.0f}M", f"{4 * variables / 1e6:,.0f}",
                 f"{speed.tokens_per_second:,.0f}" if speed else "-",
                 f"{speed.tokens_per_second / reference.tokens_per_second:.1f}" if speed and reference else "-",
                 f"{compute[REFERENCE] / compute[what]:.1f}", f"{PAPER.get(what, '-')}",
                 f"{6 * compute[what] * speed.tokens_per_second / peak:.0%}" if speed else "-",
                 f"{speed.sentence_milliseconds:.1f}" if speed else "-"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def fits(config: AlbertConfig) -> bool:
    """Whether a training step fits into the available memory."""
    tokens = SEQUENCES * SEQ
    kept = config.num_hidden_layers * (16 * config.hidden_size + 2 * config.num_attention_heads * SEQ)  # of a token
    needed = 4 * (_VALUES_OF_A_VARIABLE * sizes.variable_count(config, with_heads=True) + tokens * kept)
    return needed < available_memory()


def available_memory() -> int:
    """Bytes of memory that programs can still use, including caches on Linux; elsewhere all memory of the machine."""
    if not os.path.exists("/proc/meminfo"):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with open("/proc/meminfo", encoding="ascii") as lines:
        kilobytes = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
    return 1024 * int(kilobytes)


def matrix_product_rate(size: int = 4096) -> float:
    """Operations per second of matrix products in bfloat16."""
    a = tf.cast(tf.random.normal([size, size]), tf.bfloat16)
    return 2 * size**3 / seconds_of(lambda: float(tf.cast(tf.matmul(a, a)[0, 0], tf.float32)))


def tokens_per_second(config: AlbertConfig) -> float:
    """Trained tokens per second of the whole training step, in bfloat16 with AdamW."""
    policy = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        trainer = Trainer(PretrainingTask(AlbertPretrainer(config)))
        trainer.compile(optimizer=create_optimizer("adamw", learning_rate=1e-4, num_train_steps=1000,
                                                   num_warmup_steps=0))
        batches, train = iter(tf.data.Dataset.from_tensors(batch(config)).repeat()), trainer.make_train_function()
        return SEQUENCES * SEQ / seconds_of(lambda: float(train(batches)["loss"]))
    finally:
        keras.mixed_precision.set_global_policy(policy)
        keras.backend.clear_session()


def sentence_milliseconds(config: AlbertConfig) -> float:
    """Milliseconds from the ids of a sentence of 32 tokens to the encoder's outputs, in float32."""
    encoder = tf.function(AlbertModel(config))
    ids = tf.ones([1, SENTENCE_TOKENS], tf.int32)
    inputs = dict(input_ids=ids, input_mask=ids, segment_ids=0 * ids)
    return 1000 * seconds_of(lambda: float(encoder(inputs)["pooled_output"][0, 0]))


def batch(config: AlbertConfig) -> dict[str, np.ndarray]:
    """A batch of random tokens."""
    random, shape = np.random.default_rng(1), [SEQUENCES, SEQ]
    return dict(
        input_ids=random.integers(5, config.vocab_size, shape, np.int32), input_mask=np.ones(shape, np.int32),
        segment_ids=np.zeros(shape, np.int32),
        masked_lm_positions=np.tile(np.arange(1, PREDICTIONS + 1, dtype=np.int32), [SEQUENCES, 1]),
        masked_lm_ids=random.integers(5, config.vocab_size, [SEQUENCES, PREDICTIONS], np.int32),
        masked_lm_weights=np.ones([SEQUENCES, PREDICTIONS], np.float32),
        next_sentence_labels=random.integers(0, 2, [SEQUENCES, 1], np.int32))


def seconds_of(step: Callable[[], float]) -> float:
    """The median time of a step. The first step, which traces and allocates, does not count."""
    step()
    times: list[float] = []
    while not times or (sum(times) < _SECONDS and len(times) < _MOST_STEPS):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return float(np.median(times))

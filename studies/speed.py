"""Table 2's last column: the speed of training as a multiple of BERT large, measured here and by the cost formula."""

from __future__ import annotations

import os
import time
from typing import Callable

import numpy as np
import tensorflow as tf

from albert_tf import keras, sizes
from albert_tf.config import AlbertConfig
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer

SEQUENCES, SEQ, PREDICTIONS = 4, 128, 20
REFERENCE = "bert large"
# Table 2 of the paper (Lan et al., 2020): speed of training, with BERT large as 1.
PAPER = {"bert base": 4.7, "bert large": 1.0, "albert base": 5.6, "albert large": 1.7, "albert xlarge": 0.6,
         "albert xxlarge": 0.3}
_SECONDS, _MOST_STEPS = 10.0, 20  # of a measurement
# Weight, gradient, two moments, a copy in bfloat16, and what the optimizer holds for a moment: float32 values.
_VALUES_OF_A_VARIABLE = 6


def print_speed() -> None:
    """Measures every named size that fits into memory, and prints the table as Markdown."""
    peak = matrix_product_rate()
    rates = {what: tokens_per_second(config) for what, config, _ in sizes.published(sizes.NAMED_SIZES)
             if fits(config)}
    print(f"matrix products of 4,096 x 4,096 in bfloat16: {peak / 1e9:,.0f} GFLOP/s\n")
    print(table(rates, peak))


def table(rates: dict[str, float], peak: float) -> str:
    """The table, with a dash for a size that was not measured.

    Args:
      rates: trained tokens per second by size.
      peak: operations per second of matrix products.
    """
    share_predicted = PREDICTIONS / SEQ
    named = {what: (config, sizes.compute_parameters(config, share_predicted))
             for what, config, _ in sizes.published(sizes.NAMED_SIZES)}
    lines = ["| | variables | tokens/s | speed here | by the formula | the paper's | share of matrix products' rate |",
             "|---|---|---|---|---|---|---|"]
    for what, (config, compute) in named.items():
        rate, reference = rates.get(what), rates.get(REFERENCE)
        cells = [what, f"{sizes.variable_count(config) / 1e6:.0f}M", f"{rate:,.0f}" if rate else "-",
                 f"{rate / reference:.1f}" if rate and reference else "-", f"{named[REFERENCE][1] / compute:.1f}",
                 f"{PAPER[what]}", f"{6 * compute * rate / peak:.0%}" if rate else "-"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def fits(config: AlbertConfig) -> bool:
    """Whether a training step fits into the memory that is free."""
    tokens = SEQUENCES * SEQ
    kept = config.num_hidden_layers * (16 * config.hidden_size + 2 * config.num_attention_heads * SEQ)  # of a token
    needed = 4 * (_VALUES_OF_A_VARIABLE * sizes.variable_count(config, with_heads=True) + tokens * kept)
    return needed < os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


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
    """The median time of a step, after one that is not counted: it traces and allocates."""
    step()
    times: list[float] = []
    while not times or (sum(times) < _SECONDS and len(times) < _MOST_STEPS):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return float(np.median(times))

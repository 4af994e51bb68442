"""Variables, operations and speed of the published models, and the cost of a pre-training run."""

from __future__ import annotations

import time
from typing import Any

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.utils.imports import tensorflow as tf

PRETRAINING_TOKENS = 125_000 * 4096 * 512  # the paper's long run (section 4.1): steps, sequences, tokens
SEQUENCES, SEQ, PREDICTIONS, STEPS = 4, 128, 20, 10  # of a measured step
# The rows of the paper's table 2, with the speed of training there, with BERT large as 1.
PUBLISHED = {"bert_large": 1.0, "bert_base": 4.7, "albert_base_v2": 5.6, "albert_large_v2": 1.7,
             "albert_xlarge_v2": 0.6, "albert_xxlarge_v2": 0.3}


def print_sizes() -> None:
    """Prints the sizes of tables 1, 3 and 4: the published ones, and base with other E and sharing."""
    configs = {name: AlbertConfig.preset(name) for name in PUBLISHED}
    configs |= {f"base, sharing {sharing}, E {size}": AlbertConfig.preset("albert_base_v2").replace(
        cross_layer_sharing=sharing, embedding_size=size)
        for sharing in ("all", "attention", "ffn", "none") for size in (64, 128, 256, 768)}
    print(f"{'':32}{'variables':>13}{'with heads':>13}  operations of 125,000 steps of 4,096 x 512 tokens")
    for name, config in configs.items():
        print(f"{name:32}{variable_count(config):>13,}{variable_count(config, with_heads=True):>13,}"
              f"{6 * compute_parameters(config) * PRETRAINING_TOKENS:>9.1e}")


def variable_count(config: AlbertConfig, with_heads: bool = False) -> int:
    """The number of trainable values of an AlbertModel (including the pooler), or with_heads of an AlbertPretrainer."""
    # The paper's letters.
    V, E, H, I = config.vocab_size, config.embedding_size, config.hidden_size, config.intermediate_size  # noqa: E741
    embeddings = (V + config.type_vocab_size + config.max_position_embeddings + 2) * E + ((E + 1) * H if E != H else 0)
    attention = config.num_attention_blocks * (4 * (H + 1) * H + 2 * H)
    ffn = config.num_ffn_blocks * ((H + 1) * I + (I + 1) * H + 2 * H)
    heads = (H + 1) * E + 2 * E + V + (H + 1) * 2 if with_heads else 0  # masked LM, sentence order
    return embeddings + attention + ffn + (H + 1) * H + heads


def compute_parameters(config: AlbertConfig, share_predicted: float = 1.0) -> float:
    """The number of weights that a token is multiplied with: V*E + E*H + L*12*H*H + H*H. Shared ones count per layer.

    Args:
      share_predicted: share of the tokens whose logits are computed; V*E counts only for these.
    """
    V, E, H = config.vocab_size, config.embedding_size, config.hidden_size
    return V * E * share_predicted + E * H + config.num_hidden_layers * 12 * H * H + H * H


def training_flops(flag_values: dict[str, Any], config: AlbertConfig) -> float:
    """Operations of a run of run_pretraining: 6 for each weight and token, with logits for masked tokens only."""
    tokens, predictions = flag_values["max_seq_length"], flag_values["max_predictions_per_seq"]
    examples = flag_values["num_train_steps"] * flag_values["train_batch_size"]
    return 6 * compute_parameters(config, predictions / tokens) * tokens * examples


def print_speed() -> None:
    """Prints trained tokens per second in bfloat16, and their multiple of BERT large's, here and in the paper."""
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    reference = None
    for name, in_paper in PUBLISHED.items():
        # BERT's presets have dropout and ALBERT's have none, so their speeds would differ by the time of dropout.
        rate = tokens_per_second(AlbertConfig.preset(name).replace(
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
        reference = reference or rate
        print(f"{name:20}{rate:10.1f} tokens/s{rate / reference:8.2f}{in_paper:8.1f} in the paper", flush=True)


def tokens_per_second(config: AlbertConfig) -> float:
    """Trained tokens per second of the whole training step with AdamW."""
    from albert_tf.modeling.pretrainer import AlbertPretrainer
    from albert_tf.pretraining.objective import PretrainingObjective
    from albert_tf.training.optimizer import create_optimizer
    from albert_tf.training.trainer import Trainer
    from benchmarks.workers.ours import random_batch
    from benchmarks.workers.workloads import Workload

    trainer = Trainer(PretrainingObjective(AlbertPretrainer(config)))
    trainer.compile(create_optimizer("adamw", learning_rate=1e-4, num_train_steps=1000, num_warmup_steps=0))
    batch = random_batch(Workload(config.to_dict(), SEQUENCES, SEQ, PREDICTIONS))
    batches, train = iter(tf.data.Dataset.from_tensors(batch).repeat()), trainer.make_train_function()
    float(train(batches)["loss"])  # traces and allocates
    start = time.perf_counter()
    for _ in range(STEPS):
        float(train(batches)["loss"])
    seconds = time.perf_counter() - start
    keras.backend.clear_session()
    return STEPS * SEQUENCES * SEQ / seconds

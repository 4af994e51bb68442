"""The training step and the forward pass of each task, with a batch of random tokens."""

from __future__ import annotations

import math
from typing import Callable

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.modeling.classifier import AlbertClassifier, AlbertMultipleChoice, AlbertTokenClassifier
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.span import AlbertConditionalSpan, AlbertSpan
from albert_tf.pretraining.objective import PretrainingObjective
from albert_tf.tasks.classification.task import ClassificationObjective
from albert_tf.tasks.squad.task import ConditionalSpanObjective, SpanObjective
from albert_tf.tasks.tagging.task import TaggingObjective
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer
from benchmarks.workers.workloads import Workload

TASKS: dict[str, Callable] = {
    "pre-training": lambda config: PretrainingObjective(AlbertPretrainer(config)),
    "classification": lambda config: ClassificationObjective(AlbertClassifier(config, num_labels=3)),
    "SQuAD 1.1": lambda config: SpanObjective(AlbertSpan(config)),
    "SQuAD 2.0": lambda config: ConditionalSpanObjective(AlbertConditionalSpan(config)),
    "multiple choice": lambda config: ClassificationObjective(AlbertMultipleChoice(config)),
    "tagging": lambda config: TaggingObjective(AlbertTokenClassifier(config, num_labels=9)),
}


def training_step(task_name: str, config: AlbertConfig, optimizer: str = "adamw", gradient_checkpointing: bool = False,
                  **trainer_options) -> Trainer:
    """The compiled trainer of a task."""
    objective = TASKS[task_name](config)
    objective.model.albert.gradient_checkpointing = gradient_checkpointing
    return Trainer(objective, create_optimizer(optimizer, 1e-4, num_train_steps=10000, num_warmup_steps=0),
                   **trainer_options)


def batch_of(task_name: str, workload: Workload) -> dict[str, np.ndarray]:
    """A batch of random tokens without padding, with labels."""
    random, rows, seq = np.random.default_rng(1), workload.batch, workload.seq
    vocab_size = workload.config["vocab_size"]
    inputs = dict(input_ids=random.integers(5, vocab_size, [rows, seq], np.int32),
                  input_mask=np.ones([rows, seq], np.int32),
                  segment_ids=np.broadcast_to(np.arange(seq, dtype=np.int32) // (seq // 2), [rows, seq]))
    positions = {name: random.integers(0, seq, rows, np.int32) for name in ("start_positions", "end_positions")}
    if task_name == "pre-training":
        predicted = [rows, workload.predictions]
        return dict(inputs, masked_lm_ids=random.integers(5, vocab_size, predicted, np.int32),
                    masked_lm_positions=np.broadcast_to(np.arange(1, predicted[1] + 1, dtype=np.int32), predicted),
                    masked_lm_weights=np.ones(predicted, np.float32),
                    next_sentence_labels=random.integers(0, 2, [rows, 1], np.int32))
    if task_name == "multiple choice":
        inputs = {name: value.reshape([rows // 4, 4, seq]) for name, value in inputs.items()}
        return dict(inputs, label_ids=random.integers(0, 4, rows // 4, np.int32))
    return {
        "classification": dict(inputs, label_ids=random.integers(0, 3, rows, np.int32)),
        "SQuAD 1.1": dict(inputs, **positions),
        "SQuAD 2.0": dict(inputs, **positions, p_mask=np.zeros([rows, seq], np.int32),
                          is_impossible=random.integers(0, 2, rows, np.int32)),
        "tagging": dict(inputs, tag_ids=random.integers(0, 10, [rows, seq], np.int32)),
    }[task_name]


def forward_flops(task_name: str, workload: Workload) -> float:
    """Floating-point operations of the matrix products of a forward pass.

    The pooler and the small heads, which have less than a thousandth of them, are left out.
    """
    config = AlbertConfig(**workload.config)
    hidden, wide, embedding = config.hidden_size, config.intermediate_size, config.embedding_size
    layers = config.num_hidden_layers * config.inner_group_num
    of_layer = 2 * (4 * hidden**2 + 2 * hidden * wide) + 4 * workload.seq * hidden
    flops = workload.tokens * (layers * of_layer + 2 * embedding * hidden)
    if task_name == "pre-training":
        flops += workload.batch * workload.predictions * 2 * embedding * (hidden + config.vocab_size)
    return float(flops)


def predictions_of(seq: int) -> int:
    """The number of masked tokens: 15 %, rounded up."""
    return math.ceil(0.15 * seq)

"""The training step and the forward pass of each task, with a batch of random tokens."""

from __future__ import annotations

import math
from typing import Callable

import numpy as np
import tensorflow as tf

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
from benchmarks.workers.ours import random_batch
from benchmarks.workers.workloads import Workload

TASKS: dict[str, Callable] = {
    "pre-training": lambda config: PretrainingObjective(AlbertPretrainer(config)),
    "classification": lambda config: ClassificationObjective(AlbertClassifier(config, num_labels=3)),
    "SQuAD 1.1": lambda config: SpanObjective(AlbertSpan(config)),
    "SQuAD 2.0": lambda config: ConditionalSpanObjective(AlbertConditionalSpan(config)),
    "multiple choice": lambda config: ClassificationObjective(AlbertMultipleChoice(config)),
    "tagging": lambda config: TaggingObjective(AlbertTokenClassifier(config, num_labels=9)),
}
_ENCODER_INPUTS = ("input_ids", "input_mask", "segment_ids")


def training_step(task_name: str, config: AlbertConfig, gradient_checkpointing: bool = False) -> Trainer:
    """The trainer of a task, with the optimizer that the task's script uses."""
    task = TASKS[task_name](config)
    task.model.albert.gradient_checkpointing = gradient_checkpointing
    trainer = Trainer(task)
    optimizer = "lamb" if task_name == "pre-training" else "adamw"
    trainer.compile(optimizer=create_optimizer(optimizer, 1e-3, num_train_steps=10000, num_warmup_steps=0))
    return trainer


def batch_of(task_name: str, workload: Workload, padded: bool = False) -> dict[str, np.ndarray]:
    """A batch of random tokens, with labels; on request with examples of all lengths from a half to the whole."""
    random, batch = np.random.default_rng(1), random_batch(workload)
    if padded:
        lengths = np.linspace(workload.seq // 2, workload.seq, workload.batch, dtype=np.int32)
        batch["input_mask"] = (np.arange(workload.seq) < lengths[:, np.newaxis]).astype(np.int32)
    if task_name == "pre-training":
        return batch
    inputs = {name: batch[name] for name in _ENCODER_INPUTS}
    rows, seq = inputs["input_ids"].shape
    positions = {name: random.integers(0, seq, rows, np.int32) for name in ("start_positions", "end_positions")}
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


def hlo(function, batch: dict[str, tf.Tensor]) -> bytes:
    """The HloModuleProto of a tf.function with jit_compile=True."""
    return function.experimental_get_compiler_ir(batch)(stage="hlo_serialized")


def in_one_graph(function: Callable, jit_compile: bool = True):
    """A tf.function of a batch that is compiled as a whole."""
    return tf.function(function, jit_compile=jit_compile or None, autograph=False)


def predictions_of(seq: int) -> int:
    """The number of masked tokens: 15 %, rounded up."""
    return math.ceil(0.15 * seq)

"""Writes training steps and forward passes as programs of XLA, which run.py runs where TensorFlow is not installed.

    python -m benchmarks.device_steps.export --output_dir=FOLDER
    python -m benchmarks.device_steps.export --output_dir=FOLDER --task=tagging --batch=32 --batch=64 --seq=128

Without --task, the programs are those of TABLE. With it, there is one for each combination of the flags. A program's
folder has three files of together less than a megabyte: the program, its batch of random tokens, and what run.py needs
to know about both. A training step is the trainer's: loss, gradients, clipping, and the update by LAMB (pre-training)
or AdamW. Weights are random and are made where the program runs.
"""

from __future__ import annotations

import dataclasses
import gc
import gzip
import itertools
import json
import os
from unittest import mock

import numpy as np
from absl import flags

from albert_tf import devices
from albert_tf.commands import app
from albert_tf.commands.flags import define_required
from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.utils.imports import tensorflow as tf
from benchmarks import common
from benchmarks.device_steps import run
from benchmarks.device_steps.programs import TASKS, batch_of, forward_flops, predictions_of, training_step
from benchmarks.workers.workloads import WORKLOADS, Workload, with_dropout

ATTENTION = ("ops", "cudnn")


@dataclasses.dataclass(frozen=True)
class Cell:
    """What a program computes. The fields are described where the flags of the same names are."""

    task: str
    model: str
    batch: int
    seq: int
    what: str = "step"
    precision: str = "bfloat16"
    dropout: float = 0.0
    gradient_checkpointing: bool = False
    num_hidden_layers: int | None = None
    attention: str = "ops"

    @property
    def name(self) -> str:
        """The name of the program's folder."""
        dropout = f"-dropout-{self.dropout:g}" if self.dropout else ""
        layers = f"-{self.num_hidden_layers}-layers" if self.num_hidden_layers else ""
        again = "-checkpointing" if self.gradient_checkpointing else ""
        attention = f"-{self.attention}-attention" if self.attention != "ops" else ""
        return (f"{self.task}-{self.model}{layers}-{self.batch}x{self.seq}-{self.precision}-{self.what}"
                f"{dropout}{again}{attention}".lower().replace(" ", "-"))

    @property
    def workload(self) -> Workload:
        """The model's config and the shape of the batch."""
        values = WORKLOADS[self.model].config if self.model in WORKLOADS else PRESETS[self.model]
        config = with_dropout(values, self.dropout)
        if self.num_hidden_layers:
            config.update(num_hidden_layers=self.num_hidden_layers)
        return Workload(config, self.batch, self.seq, predictions_of(self.seq))


_BASE, _LARGE, _XXLARGE = "albert_base_v2", "albert_large_v2", "albert_xxlarge_v2"
TABLE = [
    *(Cell("pre-training", _BASE, batch, 512, attention="cudnn") for batch in (16, 32, 64, 128, 256)),
    *(Cell("pre-training", _BASE, 32, 512, precision=precision) for precision in ("bfloat16", "float32")),
    Cell("pre-training", _BASE, 32, 512, dropout=0.1),
    *(Cell("pre-training", _BASE, 32, 512, what="forward", attention=attention) for attention in ATTENTION),
    *(Cell("pre-training", _LARGE, batch, 512, attention="cudnn") for batch in (32, 64)),
    *(Cell("pre-training", _XXLARGE, batch, 512, gradient_checkpointing=True, attention="cudnn") for batch in (16, 32)),
    *(Cell(task, _BASE, batch, seq, **settings) for task, batch, seq in (
        ("classification", 128, 128), ("SQuAD 2.0", 48, 384), ("tagging", 128, 128))
      for settings in (dict(attention="cudnn"), dict(dropout=0.1))),
]

define_required("output_dir", "Folder for the programs.")
flags.DEFINE_multi_enum("task", [], list(TASKS), "Task. May be repeated, as the flags below. Default: those of TABLE.")
flags.DEFINE_multi_enum("model", ["albert_base_v2"], [*PRESETS, *WORKLOADS], "Name of the model's size.")
flags.DEFINE_multi_integer("batch", [32], "Number of examples of a batch.", lower_bound=1)
flags.DEFINE_multi_integer("seq", [128], "Number of tokens of an example.", lower_bound=8)
flags.DEFINE_multi_enum("what", ["step"], ["step", "forward"], "Training step or forward pass.")
flags.DEFINE_multi_enum("precision", ["bfloat16"], list(common.POLICIES), "Data type of the computations.")
common.define_dropout()
flags.DEFINE_bool("gradient_checkpointing", False, "Whether to recompute each layer for its gradient.")
flags.DEFINE_integer("num_hidden_layers", None, "Number of layers. Default: the model's.", lower_bound=1)
flags.DEFINE_multi_enum("attention", ["ops"], ATTENTION, "Attention as the model's operations or as one "
                        "operation of cuDNN, for NVIDIA GPUs alone.")
FLAGS = flags.FLAGS


def main():
    combinations = itertools.product(FLAGS.task, FLAGS.model, FLAGS.batch, FLAGS.seq, FLAGS.what, FLAGS.precision,
                                     [FLAGS.dropout], [FLAGS.gradient_checkpointing], [FLAGS.num_hidden_layers],
                                     FLAGS.attention)
    for cell in itertools.starmap(Cell, combinations) if FLAGS.task else TABLE:
        folder = os.path.join(FLAGS.output_dir, cell.name)
        size = export(cell, folder)
        gc.collect()  # the model and its graph refer to each other
        print(f"{folder}: {size / 1e3:,.0f} kB", flush=True)


def export(cell: Cell, folder: str) -> int:
    """Writes the folder of a program. Returns the bytes of its files."""
    common.set_precision(cell.precision)
    workload = cell.workload
    config = AlbertConfig(**workload.config)
    trainer = training_step(cell.task, config, "lamb" if cell.task == "pre-training" else "adamw",
                            gradient_checkpointing=cell.gradient_checkpointing)
    batch, model = batch_of(cell.task, workload), trainer.objective.model
    function = trainer.train_step if cell.what == "step" else lambda batch: model.head_outputs(model(batch))
    compiled = tf.function(function, jit_compile=True, autograph=False)
    tensors = {name: tf.constant(value) for name, value in batch.items()}
    with mock.patch.object(devices, "cudnn_capability", lambda: 9.0 if cell.attention == "cudnn" else 0.0):
        graph = compiled.get_concrete_function(tensors)
    program = compiled.experimental_get_compiler_ir(tensors)(stage="hlo_serialized")
    if cell.attention == "cudnn" and b"__cudnn" not in program:
        raise ValueError("--attention=cudnn needs --precision=bfloat16 and --dropout=0")
    by_handle = {id(variable.handle): variable for variable in graph.graph.variables}
    variables = [by_handle[id(handle)] for handle in graph.captured_inputs]
    spec = run.Spec(
        inputs=[*(dict(name=name, shape=batch[name].shape, dtype=batch[name].dtype.name) for name in sorted(batch)),
                *map(description, variables)],
        outputs=sorted(graph.structured_outputs),
        tokens=workload.tokens,
        flops=forward_flops(cell.task, workload) * (3 if cell.what == "step" else 1),
        peer=dict(task=cell.task, config=config.to_dict(), batch=cell.batch, seq=cell.seq,
                  predictions=workload.predictions, training=cell.what == "step", precision=cell.precision,
                  gradient_checkpointing=cell.gradient_checkpointing))
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "program.hlo.gz"), "wb") as file:
        file.write(gzip.compress(program))
    # NumPy's stub takes every keyword for its option allow_pickle.
    np.savez_compressed(os.path.join(folder, "batch.npz"), **batch)  # type: ignore[arg-type]
    with open(os.path.join(folder, "program.json"), "w", encoding="utf-8") as file:
        json.dump(spec._asdict(), file, indent=1)
    return sum(os.path.getsize(os.path.join(folder, name)) for name in ("program.hlo.gz", "batch.npz", "program.json"))


def description(variable: tf.Variable) -> dict:
    """Name, shape and data type of a variable, and its initial value."""
    value = variable.numpy()
    initial = dict(fill=value.flat[0].item()) if np.ptp(value) == 0 else dict(stddev=float(f"{np.std(value):.3g}"))
    return dict(name=variable.name, shape=variable.shape.as_list(), dtype=variable.dtype.name, **initial)


if __name__ == "__main__":
    app.run(main)

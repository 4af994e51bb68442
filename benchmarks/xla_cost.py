"""What a training step of each task costs on a GPU and on a TPU, counted by XLA's compilers for them.

    python -m benchmarks.xla_cost --xla_python=/path/to/environment/bin/python

The environment needs Python 3.11 or later, and no GPU or TPU:

    pip install "jax[tpu]==0.10.2" jax-cuda12-pjrt==0.10.2 nvidia-cuda-nvcc-cu12

A step is compiled in up to three forms. "TensorFlow's ops" has no code that is tuned for processors: gradients, dropout
and activations are TensorFlow's own. "chains" is what albert_tf runs on processors and GPUs (albert_tf/modeling/
fused.py), and "no chains" what it runs on TPUs. The devices:

    GPU        one operation after the other, which is the default. A chain is one operation. The bytes are those of all
               inputs and outputs, of operations on more than a kilobyte. Without the optimizer, which is the same
    GPU, XLA   an H200 with --jit_compile. cuBLAS does the products, whose operations XLA does not count
    TPU        a TPU v5e
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from typing import Iterator
from unittest import mock

from albert_tf.commands import app  # isort: split

import tensorflow as tf
from absl import flags

from albert_tf import devices
from albert_tf.commands.flag_fields import define_float
from albert_tf.config import AlbertConfig
from albert_tf.modeling import blocks, dropout, layers
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer
from benchmarks.alternation import json_of
from benchmarks.device_steps.programs import TASKS, batch_of, hlo, in_one_graph
from benchmarks.precision import set_precision
from benchmarks.workers.workloads import WORKLOADS, with_dropout

PLAIN, CHAINS, NO_CHAINS = "TensorFlow's ops", "chains", "no chains"
FORMS = {"GPU": (PLAIN, CHAINS), "GPU, XLA": (PLAIN, CHAINS), "TPU": (PLAIN, CHAINS, NO_CHAINS)}
COMPILERS = {"GPU, XLA": "gpu", "TPU": "tpu"}

flags.DEFINE_string("xla_python", None, "Path of Python in an environment with XLA's compilers.", required=True)
flags.DEFINE_multi_enum("task", list(TASKS), list(TASKS), "Task. May be repeated. Default: all.")
flags.DEFINE_multi_enum("device", list(FORMS), list(FORMS), "Device. May be repeated. Default: all.")
flags.DEFINE_enum("workload", "small", [name for name, of in WORKLOADS.items() if of.predictions],
                  "Name of the model and its batch.")
flags.DEFINE_integer("num_hidden_layers", 2, "Number of layers of the model. Each adds some 10 seconds to the "
                     "compilation for a TPU.", lower_bound=1)
flags.DEFINE_enum("precision", "bfloat16", ["float32", "bfloat16"], "Data type of the computations.")
define_float("dropout", 0.1, "Rate of hidden and of attention dropout.", lower_bound=0.0)
FLAGS = flags.FLAGS

# Operations that pass a tensor on without reading it.
_FREE = {"Const", "ExpandDims", "Identity", "IdentityN", "Placeholder", "ReadVariableOp", "Reshape", "Shape", "Squeeze"}


def main():
    set_precision(FLAGS.precision)
    workload = WORKLOADS[FLAGS.workload]
    values = dict(with_dropout(workload.config, FLAGS.dropout), num_hidden_layers=FLAGS.num_hidden_layers)
    config = AlbertConfig(**values)
    print(f"{FLAGS.workload}, {FLAGS.num_hidden_layers} layers, {workload.batch} x {workload.seq} tokens, dropout "
          f"{FLAGS.dropout:g}, {FLAGS.precision}\n"
          f"{'':16}{'':10}{'':18}{'operations':>12}{'GFLOP':>9}{'MB':>9}{'temporary MB':>14}")
    for task_name in FLAGS.task:
        batch = {name: tf.constant(value) for name, value in batch_of(task_name, workload).items()}
        for device in FLAGS.device:
            for form in FORMS[device]:
                with traced_as(form):
                    task = TASKS[task_name](config)
                    costs = (compiled_costs(task, batch, COMPILERS[device]) if device in COMPILERS
                             else graph_costs(task, batch))
                print_row(task_name, device, form, costs)


def print_row(task_name: str, device: str, form: str, costs: dict[str, float]) -> None:
    flops = f"{costs['flops'] / 1e9:.2f}" if "flops" in costs else ""
    temporary = f"{costs['temporary_bytes'] / 1e6:,.0f}" if "temporary_bytes" in costs else ""
    print(f"{task_name:16}{device:10}{form:18}{costs['operations']:12,}{flops:>9}{costs['bytes'] / 1e6:9,.0f}"
          f"{temporary:>14}", flush=True)


@contextlib.contextmanager
def traced_as(form: str) -> Iterator[None]:
    """Steps that are traced in this context have one of the three forms, whatever the device is."""
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(devices, "is_tpu", lambda *_: form != CHAINS))
        if form == PLAIN:
            for module in (blocks, dropout, layers):
                patches.enter_context(mock.patch.object(module, "dropped", tensorflow_dropout))
            patches.enter_context(mock.patch.object(layers, "_FUSED_ACTIVATIONS", layers._ACTIVATIONS))
            patches.enter_context(mock.patch.object(blocks, "attention_in_training", blocks.attention))
        yield


def tensorflow_dropout(x, seed=None, rate=None):
    """TensorFlow's dropout, with the arguments of albert_tf.modeling.dropout.dropped."""
    if seed is None:
        return x
    return tf.nn.experimental.stateless_dropout(x, float(tf.get_static_value(rate)), seed[:2])  # without the part


def compiled_costs(task, batch: dict, compiler: str) -> dict[str, float]:
    """The costs of a whole step that XLA has compiled; see benchmarks/workers/xla_program.py."""
    trainer = Trainer(task)
    trainer.compile(optimizer=create_optimizer("adamw"))
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program.pb")
        with open(program, "wb") as file:
            file.write(hlo(in_one_graph(trainer.train_step), batch))
        try:
            return json_of("xla_program", compiler, program, python=FLAGS.xla_python)
        except ValueError as error:
            raise ValueError(f"--xla_python: {error}. The first lines of benchmarks/xla_cost.py say what to install"
                             ) from error


def graph_costs(task, batch: dict) -> dict[str, float]:
    """The operations of the graph of a step's gradients, and the bytes of their inputs and outputs."""

    @tf.function(autograph=False)
    def gradients(batch):
        with tf.GradientTape() as tape:
            outputs = task.model(dict(batch, dropout_seed=tf.constant([1, 2])), training=True)
            loss, _ = task.loss(outputs, batch, task.loss_denominators(batch))
        of_variables = tape.gradient(loss, task.model.trainable_variables, unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient) for gradient in of_variables]

    graph = gradients.get_concrete_function(batch).graph
    sizes = [sum(map(_bytes, [*operation.inputs, *operation.outputs])) for operation in graph.get_operations()
             if operation.type not in _FREE]
    large = [size for size in sizes if size > 1000]
    return dict(operations=len(large), bytes=sum(large))


def _bytes(tensor: tf.Tensor) -> int:
    """The size of a tensor; 0 for variables, and for lists of axes, whose lengths are not known before the step."""
    is_known = tensor.dtype != tf.resource and tensor.shape.is_fully_defined()
    return math.prod(tensor.shape.as_list()) * tensor.dtype.size if is_known else 0


if __name__ == "__main__":
    app.run(main)

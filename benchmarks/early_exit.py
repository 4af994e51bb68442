"""Early exit: layers, time and score by patience, beside the same model without exits and models of fewer layers.

    python -m benchmarks.early_exit --model=minilm --data=data --output_dir=out

--model is a BERT in Hugging Face's format (see fine_tuning.py). For each task and seed, run_classifier trains the model
without exit heads, with them, and with the first layers alone. --afterwards trains the heads after the other weights.
The programs are then timed in turns on the same examples of the dev set, in batches of 1 and 32, on one core: the mean
time of an example, relative to the model without exits. Scores and layers are those of the whole dev set. The benchmark
continues where it stopped if it is run again. It writes the values of each seed to early_exit.csv, and draws scores
over times in early_exit.svg.

docs/faster.md also has STS-B (--steps=540 --patiences=2,3 --exit_tolerances=0.5,0.625,0.75,1.0,1.25,1.5) and RTE
(--steps=320). Its 12-layer model is albert_tiny_en's shared layer, with num_hidden_layers 12 in its config:

    python -m albert_tf create_pretraining_data --input_file=novels_train.txt --output_file=novels64.tfrecord \\
        --dupe_factor=1 \\
        --spm_model_file=albert_tf/models/albert_tiny_en/spiece.model --max_seq_length=64 --max_predictions_per_seq=10
    python -m albert_tf run_pretraining --init_checkpoint=albert_tiny_en --albert_config_file=12_layers.json \\
        --do_train --input_file=novels64.tfrecord --output_dir=deep --max_seq_length=64 --max_predictions_per_seq=10 \\
        --dynamic_masking --optimizer=adamw --learning_rate=3e-4 --num_train_steps=2500 --num_warmup_steps=200 \\
        --train_batch_size=32
    python -m benchmarks.early_exit --model=deep --data=data --output_dir=out12 --tasks=sst-2 --steps=600 \\
        --learning_rate=2e-4 --exit_pooling=mean --fewer_layers= --afterwards --patiences=2,3,4,6,12 \\
        --first_layers=4,6,8
"""

from __future__ import annotations

import itertools
import os
from typing import Iterator, NamedTuple

import numpy as np
from absl import flags

from albert_tf import from_pretrained
from albert_tf.commands import app
from albert_tf.commands.flag_fields import define_float
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.vectors import POOLINGS
from albert_tf.tasks.classification.data import find_task
from albert_tf.utils.charts import Curve, Panel, write_charts
from albert_tf.weights.stored_model import open_source
from benchmarks.fine_tuned_classifiers import (
    LARGEST_BATCH,
    compiled,
    define_flags,
    dev_rows,
    fine_tuned,
    layers_and_score,
    run_folder,
    times_of_a_text,
    write_rows,
)
from benchmarks.processor import naming_processor
from studies.intervals import standard_error

define_flags(tasks=["sst-2", "sts-b", "rte"], seeds=["1", "2", "3", "4", "5"])
flags.DEFINE_list("fewer_layers", ["3", "4", "5"], "Numbers of layers of the smaller models.")
flags.DEFINE_enum("exit_pooling", "pooler", POOLINGS, "See run_classifier.")
define_float("learning_rate", None, "Learning rate of all weights. Default: that of fine_tuning_settings.py.", 0.0)
flags.DEFINE_bool("afterwards", False, "Whether to train the exits after the other weights, which stay as they are.")
flags.DEFINE_list("patiences", [], "Values of exit_patience. Default: from 1 to the number of layers.")
flags.DEFINE_list("first_layers", [], "Values of --num_layers: only the first layers of the model with exits.")
flags.DEFINE_list("exit_tolerances", [], "Values of exit_tolerance, for regression. Default: its default alone.")
FLAGS = flags.FLAGS

HEAD_LEARNING_RATE = 1e-3  # as in trainable_weights.py
COLUMNS = ("task", "seed", "program", "layers", "score", "time_batch_1", "time_batch_32")


class Mean(NamedTuple):
    """Means over the seeds, and the standard error of the score. The times are by the number of examples in a batch."""

    task: str
    program: str
    layers: float | None
    score: float
    error: float
    times: dict[int, float]


def main():
    means = list(means_over_seeds(write_rows("early_exit", COLUMNS, measure)))
    print_table(means)
    draw(means, os.path.join(FLAGS.output_dir, "early_exit.svg"))


def model_of(task: str, seed: str, name: str, layers: int | None = None, **flag_values) -> AlbertClassifier:
    """fine_tuned, with --learning_rate."""
    if FLAGS.learning_rate is not None:
        flag_values = dict(learning_rate=FLAGS.learning_rate, **flag_values)
    return fine_tuned(task, seed, name, layers, **flag_values)


def with_exits(task: str, seed: str) -> str:
    """The folder of a fine-tuned model with an output after every layer.

    With --afterwards, the outputs are trained after the other weights, which stay as they are: in as many further
    steps, at the learning rate of heads.
    """
    name, exits = f"exits_{FLAGS.exit_pooling}", dict(exit_heads=True, exit_pooling=FLAGS.exit_pooling)
    if FLAGS.afterwards:
        model_of(task, seed, "all")
        name = f"{name}_afterwards"
        fine_tuned(task, seed, name, init_checkpoint=run_folder(task, seed, "all"), trainable="head",
                   learning_rate=HEAD_LEARNING_RATE, **exits)
    else:
        model_of(task, seed, name, **exits)
    return run_folder(task, seed, name)


def measure(task: str, seed: str) -> list[dict]:
    """A row for each program: mean layers, score and relative times."""
    models = {"without exits": model_of(task, seed, "all"), **early_exits(task, seed)}
    for layers in FLAGS.fewer_layers:
        models[f"{layers} layers"] = model_of(task, seed, layers, int(layers))
    rows = dev_rows(task)
    programs = {name: compiled(model) for name, model in models.items()}
    times = times_of_a_text(programs, rows)
    return [dict(zip(COLUMNS, (task, seed, name, *layers_and_score(task, program, rows))), **times[name])
            for name, program in programs.items()]


def early_exits(task: str, seed: str) -> dict[str, AlbertClassifier]:
    """The model by patience, and for regression by tolerance, too; then its first layers alone."""
    path = with_exits(task, seed)
    layers = open_source(path).config.num_hidden_layers
    models = {}
    for patience in [int(each) for each in FLAGS.patiences] or range(1, layers + 1):
        if find_task(task).is_regression and FLAGS.exit_tolerances:
            for tolerance in FLAGS.exit_tolerances:
                models[f"patience {patience}, tolerance {tolerance}"] = from_pretrained(
                    path, "classifier", exit_patience=patience, exit_tolerance=float(tolerance))
        else:
            models[f"patience {patience}"] = from_pretrained(path, "classifier", exit_patience=patience)
    for layers in FLAGS.first_layers:
        models[f"first {layers} layers"] = from_pretrained(path, "classifier", num_layers=int(layers))
    return models


def means_over_seeds(rows: list[dict]) -> Iterator[Mean]:
    for task, program in dict.fromkeys((row["task"], row["program"]) for row in rows):
        own = [row for row in rows if (row["task"], row["program"]) == (task, program)]
        layers = float(np.mean([row["layers"] for row in own])) if own[0]["layers"] is not None else None
        scores = [row["score"] for row in own]
        times = {size: float(np.mean([row[f"time_batch_{size}"] for row in own])) for size in (1, LARGEST_BATCH)}
        yield Mean(task, program, layers, float(np.mean(scores)), standard_error(scores), times)


def print_table(means: list[Mean]) -> None:
    print(f"{'task':8}{'program':16}{'layers':>8}{'score':>17}{'batch 1':>9}{'batch 32':>10}")
    for mean in means:
        layers = "" if mean.layers is None else f"{mean.layers:.2f}"
        print(f"{mean.task:8}{mean.program:16}{layers:>8}{mean.score:>9.3f} ({mean.error:.3f})"
              f"{mean.times[1]:>9.2f}{mean.times[LARGEST_BATCH]:>10.2f}")


def curve_of(program: str) -> str:
    """The name of the curve with a program's point. A curve of a regression has the tolerances of a patience."""
    patience, is_by_tolerance, _ = program.partition(", tolerance ")
    if is_by_tolerance:
        return f"{patience} by tolerance"
    return {"patience": "early exit by patience", "first": "first layers of the model with exits"}.get(
        program.partition(" ")[0], "fewer layers")


def draw(means: list[Mean], path: str) -> None:
    """Draws scores over times: early exit by patience, the first layers of a model with exits, and smaller models."""
    panels = []
    for task, size in itertools.product(dict.fromkeys(mean.task for mean in means), (1, LARGEST_BATCH)):
        curves = []
        for name in dict.fromkeys(curve_of(mean.program) for mean in means if mean.task == task):
            own = [mean for mean in means if mean.task == task and curve_of(mean.program) == name]
            own.sort(key=lambda mean: mean.times[size])
            curves.append(Curve([(100 * mean.times[size], mean.score) for mean in own], name,
                                [mean.error for mean in own]))
        panels.append(Panel(f"{task}: {find_task(task).metrics[0]}", curves,
                            f"time of a text in batches of {size}, in % of the model without exits"))
    write_charts(path, panels)


if __name__ == "__main__":
    app.run(naming_processor(main))

"""The ways to a faster classifier side by side: score, time of a text and size of each.

    python -m benchmarks.faster --model=minilm --data=data --output_dir=out --tasks=sst-2 --seeds=1,2,3

--model is a BERT in Hugging Face's format (see fine_tuning.py). For each task and seed, run_classifier trains the model
with all layers, with its first layers alone, and these with the first model as the teacher. The
programs are then timed in turns on the same examples of the dev set, in batches of 1 and 32, on one core: the mean time
of an example, relative to the SavedModel's function with all layers. Scores are those of the whole dev set.

The benchmark continues where it stopped if it is run again, and writes the values of each seed to faster.csv. Runs in
the output_dir of early_exit.py are not repeated.
"""

from __future__ import annotations

from typing import Iterator

import numpy as np
from absl import flags

from albert_tf.commands import app
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.weights.settings import settings_of
from benchmarks import common_flags
from benchmarks.fine_tuned_classifiers import (
    Program,
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

define_flags(tasks=["sst-2"], seeds=["1", "2", "3"])
flags.DEFINE_integer("fewer_layers", 3, "Number of layers of the smaller models.", lower_bound=1)
common_flags.define_distillation()
FLAGS = flags.FLAGS

COLUMNS = ("task", "seed", "way", "layers", "score", "time_batch_1", "time_batch_32", "megabytes")


def main():
    report(write_rows("faster", COLUMNS, measure))


def measure(task: str, seed: str) -> list[dict]:
    ways = {name: (program, megabytes) for name, program, megabytes in programs(task, seed)}
    rows = dev_rows(task)
    times = times_of_a_text({name: program for name, (program, _) in ways.items()}, rows)
    return [dict(zip(COLUMNS, (task, seed, name, *layers_and_score(task, program, rows))), **times[name],
                 megabytes=megabytes)
            for name, (program, megabytes) in ways.items()]


def programs(task: str, seed: str) -> Iterator[tuple[str, Program, float]]:
    """The name, the program and the size of each way; the first is what the others are compared with."""
    fewer = FLAGS.fewer_layers
    full, small = fine_tuned(task, seed, "all"), fine_tuned(task, seed, str(fewer), fewer)
    taught = fine_tuned(task, seed, f"{fewer}_taught", fewer, distillation_temperature=FLAGS.temperature,
                        distillation_alpha=FLAGS.alpha, teacher_checkpoint=run_folder(task, seed, "all"))
    yield "all layers", compiled(full), megabytes_of(full)
    yield f"{fewer} layers", compiled(small), megabytes_of(small)
    yield f"{fewer} layers, taught", compiled(taught), megabytes_of(taught)
    for name, precision in (("ONNX", "float32"), ("ONNX, int8", "int8")):
        yield name, *in_onnx(full, precision)
    yield f"ONNX, int8, {fewer} layers, taught", *in_onnx(taught, "int8")


def megabytes_of(model: AlbertClassifier) -> float:
    """The size of the weights in float32."""
    return 4 * model.count_params() / 1e6


def in_onnx(model: AlbertClassifier, precision: str = "float32") -> tuple[Program, float]:
    """The program and the size of an ONNX file, on one thread."""
    content = to_onnx(model, precision)
    session = OnnxModel(content, settings_of(model), threads=1)
    return lambda batch: session({name: value.numpy() for name, value in batch.items()}), len(content) / 1e6


def report(rows: list[dict]) -> None:
    """Prints the means over seeds, with the standard errors of scores and the range of times."""
    print(f"{'task':8}{'way':34}{'layers':>7}{'score':>16}{'batch 1':>15}{'batch 32':>15}{'MB':>7}")
    for task, way in dict.fromkeys((row["task"], row["way"]) for row in rows):
        own = [row for row in rows if (row["task"], row["way"]) == (task, way)]
        layers = f"{np.mean([row['layers'] for row in own]):.1f}" if own[0]["layers"] is not None else ""
        scores = [row["score"] for row in own]
        times = [f"{min(values):.2f} to {max(values):.2f}" for values in (
            [row[name] for row in own] for name in ("time_batch_1", "time_batch_32"))]
        print(f"{task:8}{way:34}{layers:>7}{np.mean(scores):>8.3f} ({standard_error(scores):.3f})"
              f"{times[0]:>15}{times[1]:>15}{own[0]['megabytes']:>7.1f}")


if __name__ == "__main__":
    app.run(naming_processor(main))

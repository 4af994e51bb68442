"""The ways to a faster classifier side by side: score, time of a text and size of each.

    python -m benchmarks.faster --model=minilm --data=data --output_dir=out --tasks=sst-2 --seeds=1,2,3

--model is a BERT in Hugging Face's format (see fine_tuning.py). For each task and seed, run_classifier trains the model
with all layers, with its first layers alone, and these with the first model as the teacher. The
programs are then timed in turns on the same examples of the dev set, in batches of 1 and 32, on one core: the mean time
of an example, relative to the SavedModel's function with all layers. Scores are those of the whole dev set.

The benchmark continues where it stopped if it is run again, and writes the values of each seed to faster.csv.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import flags

from albert_tf import tokenizer_from_pretrained
from albert_tf.data.batching import bucket_lengths
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.modeling.albert_model import ENCODER_INPUTS
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.tasks.classification import metrics
from albert_tf.tasks.classification.data import convert_examples_to_features, find_task, read_examples
from benchmarks import common_flags
from benchmarks.fine_tuned_classifiers import define_flags, fine_tuned, run_folder, write_rows
from benchmarks.fine_tuning_settings import SETTINGS
from benchmarks.processor import run
from studies.intervals import standard_error

define_flags(tasks=["sst-2"], seeds=["1", "2", "3"])
flags.DEFINE_integer("fewer_layers", 3, "Number of layers of the smaller models.", lower_bound=1)
flags.DEFINE_integer("examples", 256, "Number of examples of the dev set that are timed.", lower_bound=32)
flags.DEFINE_integer("turns", 3, "Number of turns in which each program computes these examples.", lower_bound=1)
common_flags.define_distillation()
FLAGS = flags.FLAGS

LARGEST_BATCH = 32
IN_SUCCESSION = 16
Batch = Mapping[str, tf.Tensor]
Program = Callable[[Batch], Mapping[str, Any]]  # the head's outputs for a batch; "logits" is one of them
COLUMNS = ("task", "seed", "steps", "way", "score", "time_batch_1", "time_batch_32", "megabytes")


def main():
    report(write_rows("faster", COLUMNS, measure))


def measure(task: str, seed: str) -> list[dict]:
    ways = {name: (program, megabytes) for name, program, megabytes in programs(task, seed)}
    rows = dev_rows(task)
    times = times_of_a_text({name: program for name, (program, _) in ways.items()}, rows)
    steps = FLAGS.steps or SETTINGS[task].steps
    return [dict(zip(COLUMNS, (task, seed, steps, name, score_of(task, program, rows))), **times[name],
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
    session = OnnxModel(content, model.settings, threads=1)
    return lambda batch: session({name: value.numpy() for name, value in batch.items()}), len(content) / 1e6


def compiled(model: AlbertClassifier) -> Program:
    """The head's outputs as a graph of inputs of any length."""
    return tf.function(lambda inputs: dict(model.head_outputs(model(inputs))), autograph=False,
                       input_signature=[model.input_specs()])


def dev_rows(task: str) -> list[dict]:
    """The inputs of the dev set without padding, and label_id."""
    examples = read_examples(find_task(task), os.path.join(FLAGS.data, "glue"), "dev")
    return list(convert_examples_to_features(examples, find_task(task), tokenizer_from_pretrained(FLAGS.model),
                                             SETTINGS[task].length, pad=False))


def batches(rows: list[dict], size: int) -> Iterator[Batch]:
    """Batches in the order of the rows, padded as run_classifier pads them; a batch of 1 is not padded."""
    for first in range(0, len(rows), size):
        part = rows[first:first + size]
        longest = max(len(row["input_ids"]) for row in part)
        length = longest if size == 1 else min(each for each in bucket_lengths(512) if each >= longest)
        yield {name: tf.constant([row[name] + [0] * (length - len(row[name])) for row in part], tf.int32)
               for name in ENCODER_INPUTS}


def relative_times(programs: Mapping[str, Program], inputs: Sequence[Batch]) -> dict[str, float]:
    """The processor's time of each program for all inputs, relative to the first program's, the programs in turns.

    A program computes IN_SUCCESSION inputs when it is its turn. With one, programs that share their weights would find
    them in the processor's cache, and others would not. The time of an input is the least of all turns.
    """
    seconds = {name: np.full(len(inputs), np.inf) for name in programs}
    for program in programs.values():  # the first call makes the graph
        program(inputs[0])
    for _ in range(FLAGS.turns):
        for first in range(0, len(inputs), IN_SUCCESSION):
            for name, program in programs.items():
                for number, batch in enumerate(inputs[first : first + IN_SUCCESSION], first):
                    started = time.process_time()
                    np.asarray(program(batch)["logits"])
                    seconds[name][number] = min(seconds[name][number], time.process_time() - started)
    totals = {name: float(values.sum()) for name, values in seconds.items()}
    return {name: total / next(iter(totals.values())) for name, total in totals.items()}


def times_of_a_text(programs: Mapping[str, Program], rows: list[dict]) -> dict[str, dict[str, float]]:
    """The relative times of each program in batches of 1 and of LARGEST_BATCH, by their names in the CSV files."""
    sizes = {size: relative_times(programs, list(batches(rows[: FLAGS.examples], size))) for size in (1, LARGEST_BATCH)}
    return {name: {f"time_batch_{size}": times[name] for size, times in sizes.items()} for name in programs}


def score_of(task: str, program: Program, rows: list[dict]) -> float:
    """The task's first metric."""
    data, label_ids = find_task(task), np.array([row["label_id"] for row in rows])
    logits = np.concatenate([np.asarray(program(batch)["logits"]) for batch in batches(rows, LARGEST_BATCH)])
    probabilities = logits if data.is_regression else tf.nn.softmax(logits).numpy()
    return metrics.evaluate(data, probabilities, label_ids)[data.metrics[0]]


def report(rows: list[dict]) -> None:
    """Prints the means over seeds, with the standard errors of scores and the range of times."""
    print(f"{'task':8}{'way':34}{'score':>16}{'batch 1':>15}{'batch 32':>15}{'MB':>7}")
    for task, way in dict.fromkeys((row["task"], row["way"]) for row in rows):
        own = [row for row in rows if (row["task"], row["way"]) == (task, way)]
        scores = [row["score"] for row in own]
        times = [f"{min(values):.2f} to {max(values):.2f}" for values in (
            [row[name] for row in own] for name in ("time_batch_1", "time_batch_32"))]
        print(f"{task:8}{way:34}{np.mean(scores):>8.3f} ({standard_error(scores):.3f})"
              f"{times[0]:>15}{times[1]:>15}{own[0]['megabytes']:>7.1f}")


if __name__ == "__main__":
    run(main)

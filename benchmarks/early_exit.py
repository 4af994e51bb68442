"""Early exit: layers, time and score by patience, beside the same model without exits and models of fewer layers.

    python -m benchmarks.early_exit --model=minilm --data=data --output_dir=out

--model is a BERT in Hugging Face's format (see fine_tuning.py). For each task and seed, run_classifier trains the model
without exit heads, with them, and with the first layers alone. The programs are then timed in turns on the same
examples of the dev set, in batches of 1 and 32, on one core: the mean time of an example, relative to the model without
exits. Scores and layers are those of the whole dev set. The benchmark continues where it stopped if it is run again,
and writes the values of each seed to early_exit.csv.

--untrained measures what layers cost, without training: heads are random, and every text stops at layer P + 1.
"""

from __future__ import annotations

import csv
import json
import math
import os
import time
from typing import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf
from absl import flags

from albert_tf import from_pretrained, tokenizer_from_pretrained
from albert_tf.commands import app
from albert_tf.commands.command_runs import run_script
from albert_tf.commands.flag_fields import define_float, define_required
from albert_tf.config import AlbertConfig
from albert_tf.data.batching import bucket_lengths
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.configured_model import ENCODER_INPUTS
from albert_tf.modeling.early_exit import NUM_LAYERS_USED
from albert_tf.tasks.classification import metrics
from albert_tf.tasks.classification.features import convert_examples_to_features
from albert_tf.tasks.classification.glue import find_task
from albert_tf.tasks.classification.reading import read_examples
from albert_tf.utils.json_files import read_json_object
from albert_tf.utils.writing import write_text
from albert_tf.weights.open_source import open_source
from benchmarks.fine_tuning_settings import SETTINGS
from studies.intervals import standard_error

define_required("model", "Folder of a BERT in Hugging Face's format.")
define_required("data", "Folder that has glue/.")
define_required("output_dir", "Folder of the runs and the results.")
flags.DEFINE_list("tasks", ["sst-2", "sts-b", "rte"], "Names of the tasks.")
flags.DEFINE_list("seeds", ["1", "2", "3", "4", "5"], "Seeds of the runs.")
flags.DEFINE_list("fewer_layers", ["3", "4", "5"], "Numbers of layers of the smaller models.")
flags.DEFINE_integer("steps", 0, "Number of training steps. 0: those of fine_tuning_settings.py.", lower_bound=0)
flags.DEFINE_integer("examples", 256, "Number of examples of the dev set that are timed.", lower_bound=32)
flags.DEFINE_integer("turns", 3, "Number of turns in which each program computes these examples.", lower_bound=1)
define_float("exit_tolerance", None, "See run_classifier. Default: its default.")
flags.DEFINE_bool("untrained", False, "Whether to time the weights of --model as they are, without scores.")
FLAGS = flags.FLAGS

LARGEST_BATCH = 32
ANY_SCORE = 1e9  # a tolerance within which all scores agree
COLUMNS = ("task", "seed", "program", "layers", "score", "time_batch_1", "time_batch_32")
Batch = Mapping[str, tf.Tensor]


def main():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    rows = [row for task in FLAGS.tasks for seed in FLAGS.seeds for row in once(task, seed)]
    with open(os.path.join(FLAGS.output_dir, "early_exit.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    report(rows)


def once(task: str, seed: str) -> list[dict]:
    """The rows of a task and a seed, which are read from the results if they have been measured."""
    path = os.path.join(FLAGS.output_dir, f"{task}_{seed}.json")
    if not os.path.exists(path):
        make = untrained if FLAGS.untrained else trained
        models = {"without exits": make(task, seed), "exits": make(task, seed, exit_heads=True)}
        for layers in FLAGS.fewer_layers:
            models[f"{layers} layers"] = make(task, seed, layers=int(layers))
        write_text(path, json.dumps(dict(rows=measure(task, seed, models))))
    return read_json_object(path)["rows"]


def untrained(task: str, seed: str, exit_heads: bool = False, layers: int | None = None) -> AlbertClassifier:
    """A regression whose scores always agree."""
    config = config_of(layers)
    return from_pretrained(FLAGS.model, "classifier", config, num_labels=1, exit_heads=exit_heads,
                           exit_tolerance=ANY_SCORE if exit_heads else None)


def config_of(layers: int | None) -> AlbertConfig:
    """The config of --model with its first layers; None: with all."""
    config = open_source(FLAGS.model).config
    return config.replace(num_hidden_layers=layers or config.num_hidden_layers)


def trained(task: str, seed: str, exit_heads: bool = False, layers: int | None = None) -> AlbertClassifier:
    """Trains a model, or continues its training."""
    settings = SETTINGS[task]
    steps = FLAGS.steps or settings.steps
    folder = os.path.join(FLAGS.output_dir, f"{task}_{seed}_{'exits' if exit_heads else layers or 'all'}")
    config_file = f"{folder}.config.json"
    write_text(config_file, config_of(layers).to_json_string())
    run_script("run_classifier", task_name=task, data_dir=os.path.join(FLAGS.data, "glue"), output_dir=folder,
               init_checkpoint=FLAGS.model, albert_config_file=config_file, seed=seed, do_train=True,
               max_seq_length=settings.length, train_batch_size=settings.batch, train_step=steps,
               warmup_step=steps // 10, save_checkpoints_steps=steps, learning_rate=settings.learning_rate,
               bias_correction=True, precision="mixed_bfloat16", cached_dir=os.path.join(FLAGS.output_dir, "cached"),
               verbosity=-1, **(dict(exit_heads=True) if exit_heads else {}))
    return from_pretrained(folder, model="classifier")


def measure(task: str, seed: str, models: Mapping[str, AlbertClassifier]) -> list[dict]:
    """A row for each program: mean layers, score and relative times."""
    examples = dev_rows(task)
    programs: dict[str, Callable[[Batch], dict]] = {}
    for name, model in models.items():
        if name == "exits":
            num_layers = model.config.num_hidden_layers
            programs.update({f"patience {patience}": compiled(model, exit_patience=patience,
                                                              exit_tolerance=FLAGS.exit_tolerance)
                             for patience in range(1, num_layers + 1)})
        else:
            programs[name] = compiled(model)
    times = {size: relative_times(programs, list(batches(examples[: FLAGS.examples], size)))
             for size in (1, LARGEST_BATCH)}
    return [dict(zip(COLUMNS, (task, seed, name, *layers_and_score(task, program, examples),
                               times[1][name], times[LARGEST_BATCH][name]))) for name, program in programs.items()]


def compiled(model, **early_exit) -> Callable[[Batch], dict]:
    """The head's outputs as a graph of inputs of any length."""
    early_exit = {name: value for name, value in early_exit.items() if value is not None}
    if not model.is_regression:
        early_exit.pop("exit_tolerance", None)
    return tf.function(lambda inputs: dict(model.head_outputs(model(inputs, **early_exit))), autograph=False,
                       input_signature=[model.input_specs()])


def dev_rows(task: str) -> list[dict]:
    """The inputs of the dev set without padding, and label_id."""
    examples = read_examples(task, os.path.join(FLAGS.data, "glue"), "dev")
    tokenizer = tokenizer_from_pretrained(FLAGS.model)
    return list(convert_examples_to_features(examples, task, tokenizer, SETTINGS[task].length, pad=False))


def batches(examples: list[dict], size: int) -> Iterator[Batch]:
    """Batches in the order of the dev set, padded as run_classifier pads them; a batch of 1 is not padded."""
    for first in range(0, len(examples), size):
        part = examples[first:first + size]
        longest = max(len(row["input_ids"]) for row in part)
        length = longest if size == 1 else min(each for each in bucket_lengths(512) if each >= longest)
        yield {name: tf.constant([row[name] + [0] * (length - len(row[name])) for row in part], tf.int32)
               for name in ENCODER_INPUTS}


def relative_times(programs: Mapping[str, Callable], inputs: list[Batch]) -> dict[str, float]:
    """The processor's time of each program for all inputs, relative to the first program's, the programs in turns.

    The time of an input is the least of all turns.
    """
    seconds = {name: np.full(len(inputs), np.inf) for name in programs}
    for program in programs.values():  # the first call makes the graph
        program(inputs[0])
    for _ in range(FLAGS.turns):
        for number, batch in enumerate(inputs):
            for name, program in programs.items():
                started = time.process_time()
                program(batch)["logits"].numpy()
                seconds[name][number] = min(seconds[name][number], time.process_time() - started)
    totals = {name: float(values.sum()) for name, values in seconds.items()}
    return {name: total / next(iter(totals.values())) for name, total in totals.items()}


def layers_and_score(task: str, program: Callable, examples: list[dict]) -> tuple[float | None, float | None]:
    """The mean number of layers (None without exits), and the task's first metric (None of --untrained)."""
    if FLAGS.untrained:
        outputs = program(next(batches(examples, 1)))
        return float(outputs[NUM_LAYERS_USED][0]) if NUM_LAYERS_USED in outputs else None, None
    data, label_ids = find_task(task), np.array([row["label_id"] for row in examples])
    outputs = [program(batch) for batch in batches(examples, LARGEST_BATCH)]
    logits = tf.concat([output["logits"] for output in outputs], axis=0)
    probabilities = (logits if data.is_regression else tf.nn.softmax(logits)).numpy()
    layers = None
    if NUM_LAYERS_USED in outputs[0]:
        layers = float(np.mean(np.concatenate([output[NUM_LAYERS_USED].numpy() for output in outputs])))
    return layers, metrics.evaluate(data, probabilities, label_ids)[data.metrics[0]]


def report(rows: list[dict]) -> None:
    """Prints the means over seeds, with the standard errors of scores."""
    print(f"{'task':8}{'program':16}{'layers':>8}{'score':>17}{'batch 1':>9}{'batch 32':>10}")
    for task, program in dict.fromkeys((row["task"], row["program"]) for row in rows):
        own = [row for row in rows if (row["task"], row["program"]) == (task, program)]
        layers = f"{np.mean([row['layers'] for row in own]):.2f}" if own[0]["layers"] is not None else ""
        scores = [math.nan if row["score"] is None else row["score"] for row in own]
        times = [f"{np.mean([row[name] for row in own]):.2f}" for name in ("time_batch_1", "time_batch_32")]
        print(f"{task:8}{program:16}{layers:>8}{np.mean(scores):>9.3f} ({standard_error(scores):.3f})"
              f"{times[0]:>9}{times[1]:>10}")


if __name__ == "__main__":
    app.run(main)

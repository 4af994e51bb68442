"""What early_exit.py and faster.py share: flags, classifiers of GLUE's tasks, dev sets, and programs timed in turns."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import flags

from albert_tf import from_pretrained, tokenizer_from_pretrained
from albert_tf.commands.command_runs import run_script
from albert_tf.commands.flag_fields import define_required
from albert_tf.data.batching import bucket_lengths
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.configured_model import ENCODER_INPUTS
from albert_tf.modeling.early_exit import NUM_LAYERS_USED
from albert_tf.tasks.classification import metrics
from albert_tf.tasks.classification.data import convert_examples_to_features, find_task, read_examples
from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import write_csv, write_text
from albert_tf.weights.stored_model import open_source
from benchmarks import common_flags
from benchmarks.computing import use_one_thread
from benchmarks.fine_tuning_settings import SETTINGS

flags.disclaim_key_flags()  # a flag belongs to the benchmark that calls define_flags
FLAGS = flags.FLAGS
LARGEST_BATCH = 32
IN_SUCCESSION = 16
Batch = Mapping[str, tf.Tensor]
Program = Callable[[Batch], Mapping[str, Any]]  # the head's outputs for a batch; "logits" is one of them


def define_flags(tasks: list[str], seeds: list[str]) -> None:
    """Defines the flags of runs, their data and the times. The arguments are the benchmark's defaults."""
    common_flags.define_model()
    define_required("data", "Folder that has glue/.")
    common_flags.define_output_dir()
    flags.DEFINE_list("tasks", tasks, "Names of the tasks.")
    flags.DEFINE_list("seeds", seeds, "Seeds of the runs.")
    flags.DEFINE_integer("steps", 0, "Number of training steps. 0: those of fine_tuning_settings.py.", lower_bound=0)
    flags.DEFINE_integer("examples", 256, "Number of examples of the dev set that are timed.", lower_bound=32)
    flags.DEFINE_integer("turns", 3, "Number of turns in which each program computes these examples.", lower_bound=1)


def write_rows(name: str, columns: Sequence[str], rows_of: Callable[[str, str], list[dict]]) -> list[dict]:
    """Measures each seed of each task on one thread, and writes the rows to NAME.csv in output_dir.

    Args:
      columns: the names of the columns.
      rows_of: measures a task and a seed. A seed whose rows are in a file of output_dir is not measured again.
    """
    use_one_thread()
    rows = []
    for task in FLAGS.tasks:
        for seed in FLAGS.seeds:
            stored = run_folder(task, seed, f"{name}.json")
            if not os.path.exists(stored):
                write_text(stored, json.dumps(dict(rows=rows_of(task, seed))))
            rows += read_json_object(stored)["rows"]
    write_csv(os.path.join(FLAGS.output_dir, f"{name}.csv"),
              [columns, *([row[column] for column in columns] for row in rows)])
    return rows


def run_folder(task: str, seed: str, name: str) -> str:
    return os.path.join(FLAGS.output_dir, f"{task}_{seed}_{name}")


def settings_of_run(task: str, seed: str, name: str) -> dict[str, Any]:
    """The flags that the runs of all tasks have."""
    settings, folder = SETTINGS[task], run_folder(task, seed, name)
    steps = FLAGS.steps or settings.steps
    return dict(output_dir=folder, init_checkpoint=FLAGS.model, seed=seed, do_train=True,
                max_seq_length=settings.length, train_batch_size=settings.batch, train_step=steps,
                warmup_step=steps // 10, save_checkpoints_steps=steps, learning_rate=settings.learning_rate,
                bias_correction=True, precision="mixed_bfloat16", verbosity=-1)


def fine_tuned(task: str, seed: str, name: str, layers: int | None = None, **flag_values) -> AlbertClassifier:
    """Fine-tunes --model as run_classifier does, or continues it, in the folder of the run.

    Args:
      name: the name of the run.
      layers: number of its first layers; None for all.
      flag_values: further flags of run_classifier, or other values.
    """
    folder, config = run_folder(task, seed, name), open_source(FLAGS.model).config
    config_file = f"{folder}.config.json"
    write_text(config_file, config.replace(num_hidden_layers=layers or config.num_hidden_layers).to_json_string())
    values = dict(settings_of_run(task, seed, name), task_name=task, data_dir=os.path.join(FLAGS.data, "glue"),
                  albert_config_file=config_file, cached_dir=os.path.join(FLAGS.output_dir, "cached"))
    run_script("run_classifier", **{**values, **flag_values})
    return from_pretrained(folder, model="classifier")


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


def layers_and_score(task: str, program: Program, rows: list[dict]) -> tuple[float | None, float]:
    """The mean number of layers (None without exits), and the task's first metric."""
    data, label_ids = find_task(task), np.array([row["label_id"] for row in rows])
    outputs = [program(batch) for batch in batches(rows, LARGEST_BATCH)]
    logits = np.concatenate([np.asarray(output["logits"]) for output in outputs])
    probabilities = logits if data.is_regression else tf.nn.softmax(logits).numpy()
    layers = None
    if NUM_LAYERS_USED in outputs[0]:
        layers = float(np.mean(np.concatenate([np.asarray(output[NUM_LAYERS_USED]) for output in outputs])))
    return layers, metrics.evaluate(data, probabilities, label_ids)[data.metrics[0]]

"""What int8 costs on each task: the score of a fine-tuned model, and those of its ONNX and TensorFlow Lite exports.

    python -m benchmarks.int8_tasks --model=minilm --data=data --output_dir=out

--model is a BERT in Hugging Face's format (see fine_tuning.py). For each task and seed, a script fine-tunes the model;
the scores are those of export_to_onnx and export_to_tflite with --score_data. The benchmark continues where it stopped
if it is run again, writes the values of each seed to int8_tasks.csv, and prints means with standard errors.
"""

from __future__ import annotations

import itertools
import json
import os
from typing import Iterator

import numpy as np
from absl import flags

from albert_tf import from_pretrained, keras
from albert_tf.commands.command_runs import run_script
from albert_tf.commands.flags import define_required
from albert_tf.export import tflite
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.export.saved_model import ModelWithRunner
from albert_tf.tasks.config import Scoring
from albert_tf.tasks.scores import scorer
from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import write_csv, write_text
from albert_tf.weights.choice import choose
from albert_tf.weights.source import Source
from benchmarks import common
from benchmarks.fine_tuning_settings import SETTINGS, TAGGED, files
from studies.intervals import standard_error

common.define_model()
define_required("data", "Folder that has glue/, squad/ and tagging/.")
common.define_output_dir()
flags.DEFINE_list("tasks", ["sst-2", "sts-b", "squad-1.1", "wnut17", "ud_ewt"], "Names of the tasks.")
flags.DEFINE_list("seeds", ["1", "2", "3"], "Seeds of the runs.")
flags.DEFINE_list("tflite_tasks", ["sst-2", "sts-b", "ud_ewt"], "Those of --tasks that TensorFlow Lite is scored on: "
                  "it computes one text at a time, padded to the length of training.")
FLAGS = flags.FLAGS

COLUMNS = ("task", "seed", "export", "metric", "score")
HEADS = {"squad-1.1": "span", **dict.fromkeys(TAGGED, "token_classifier")}  # other tasks have classifiers


def main():
    rows = []
    for task, seed in itertools.product(FLAGS.tasks, FLAGS.seeds):
        stored = os.path.join(FLAGS.output_dir, f"{task}_{seed}.json")
        if not os.path.exists(stored):
            write_text(stored, json.dumps(dict(rows=measure(task, seed))))
        rows += read_json_object(stored)["rows"]
    write_csv(os.path.join(FLAGS.output_dir, "int8_tasks.csv"), [COLUMNS, *(row.values() for row in rows)])
    report(rows)


def measure(task: str, seed: str) -> list[dict]:
    """A row for the model and one for each export."""
    head, folder = HEADS.get(task, "classifier"), os.path.join(FLAGS.output_dir, f"{task}_{seed}_all")
    fine_tune(task, seed, folder)
    model = from_pretrained(folder, model=head)
    dev = Scoring(score_data=files(task, FLAGS.data)[1], task_name=task if head == "classifier" else None)
    score = scorer(choose(Source(init_checkpoint=folder)), model, dev)
    return [dict(zip(COLUMNS, (task, seed, name, *score(export)))) for name, export in exports(model, task)]


def fine_tune(task: str, seed: str, folder: str) -> None:
    """Fine-tunes --model, or continues a run that was stopped."""
    settings, (train_file, dev_file) = SETTINGS[task], files(task, FLAGS.data)
    script, task_flags = "run_classifier", dict(task_name=task, data_dir=os.path.join(FLAGS.data, "glue"))
    if task in HEADS:
        script, dev_flag = ("run_tagging", "eval_file") if task in TAGGED else ("run_squad", "predict_file")
        task_flags = {"train_file": train_file, dev_flag: dev_file}
    run_script(script, output_dir=folder, init_checkpoint=FLAGS.model, seed=seed, do_train=True,
               max_seq_length=settings.length, train_batch_size=settings.batch, train_step=settings.steps,
               warmup_step=settings.steps // 10, save_checkpoints_steps=settings.steps,
               learning_rate=settings.learning_rate, bias_correction=True, precision="mixed_bfloat16", verbosity=-1,
               cached_dir=os.path.join(FLAGS.output_dir, "cached"), **task_flags)


def exports(model: keras.Model, task: str) -> Iterator[tuple[str, ModelWithRunner | OnnxModel]]:
    yield "float32", model
    yield "ONNX, int8", OnnxModel(to_onnx(model, "int8"), model.settings)
    if task in FLAGS.tflite_tasks:
        length = SETTINGS[task].length
        yield "TensorFlow Lite, int8", ModelWithRunner(
            model, tflite.runner(tflite.convert(model, "int8", length), length), model.settings.max_seq_length)


def report(rows: list[dict]) -> None:
    """Prints the mean score of each export, and what it adds to that in float32."""
    print(f"{'task':12}{'metric':14}{'export':24}{'score':>17}{'difference':>19}")
    before = {(row["task"], row["seed"]): row["score"] for row in rows if row["export"] == "float32"}
    for (task, metric, export), group in itertools.groupby(
            sorted(rows, key=lambda row: [row[name] for name in ("task", "metric", "export")]),
            lambda row: (row["task"], row["metric"], row["export"])):
        scores, differences = zip(*((row["score"], row["score"] - before[task, row["seed"]]) for row in group))
        print(f"{task:12}{metric:14}{export:24}{np.mean(scores):9.4f} ({standard_error(scores):.4f})"
              f"{np.mean(differences):+11.4f} ({standard_error(differences):.4f})")


if __name__ == "__main__":
    common.run(main)

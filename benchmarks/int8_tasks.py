"""What int8 costs on each task: the score of a fine-tuned model, and those of its ONNX and TensorFlow Lite exports.

    python -m benchmarks.int8_tasks --model=minilm --data=data --output_dir=out

--model is a BERT in Hugging Face's format (see fine_tuning.py). For each task and seed, a script fine-tunes the model;
the scores are those of export_to_onnx and export_to_tflite with --score_data. The benchmark continues where it stopped
if it is run again, writes the values of each seed to int8_tasks.csv, and prints means with standard errors.
"""

from __future__ import annotations

from typing import Iterator

import numpy as np
from absl import flags

from albert_tf import from_pretrained, keras
from albert_tf.commands.command_runs import run_script
from albert_tf.commands.exporting import Scoring
from albert_tf.export import tflite
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.export.saved_model import ModelWithRunner
from albert_tf.tasks.scores import scorer
from albert_tf.weights.resolved_model import resolve
from albert_tf.weights.source import Source
from benchmarks.fine_tuned_classifiers import define_flags, fine_tuned, run_folder, settings_of_run, write_rows
from benchmarks.fine_tuning_settings import SETTINGS, TAGGED, files
from benchmarks.processor import run
from studies.intervals import standard_error

define_flags(tasks=["sst-2", "sts-b", "squad-1.1", "wnut17", "ud_ewt"], seeds=["1", "2", "3"])
flags.DEFINE_list("tflite_tasks", ["sst-2", "sts-b", "ud_ewt"], "Those of --tasks that TensorFlow Lite is scored on: "
                  "it computes one text at a time, padded to the length of training.")
FLAGS = flags.FLAGS

COLUMNS = ("task", "seed", "export", "metric", "score")
HEADS = {"squad-1.1": "span", **dict.fromkeys(TAGGED, "token_classifier")}  # other tasks have classifiers


def main():
    report(write_rows("int8_tasks", COLUMNS, measure))


def measure(task: str, seed: str) -> list[dict]:
    """A row for the model and one for each export."""
    head, length = HEADS.get(task, "classifier"), SETTINGS[task].length
    folder = trained(task, seed)
    model = from_pretrained(folder, model=head)
    dev = Scoring(score_data=files(task, FLAGS.data)[1], task_name=task if head == "classifier" else None)
    score = scorer(resolve(Source(init_checkpoint=folder)), model, dev)
    scores = {name: score(export) for name, export in exports(model, length, task in FLAGS.tflite_tasks)}
    return [dict(zip(COLUMNS, (task, seed, name, *result))) for name, result in scores.items()]


def exports(model: keras.Model, length: int, with_tflite: bool) -> Iterator[tuple[str, ModelWithRunner | OnnxModel]]:
    settings = model.settings
    yield "float32", model
    yield "ONNX, int8", OnnxModel(to_onnx(model, "int8"), settings)
    if with_tflite:
        yield "TensorFlow Lite, int8", ModelWithRunner(
            model, tflite.runner(tflite.convert(model, "int8", length), length), model.settings.max_seq_length)


def trained(task: str, seed: str) -> str:
    """The folder of a model that is fine-tuned, or whose training is continued."""
    if task not in HEADS:
        fine_tuned(task, seed, "all")
    else:
        train_file, dev_file = files(task, FLAGS.data)
        script, dev_flag = ("run_tagging", "eval_file") if task in TAGGED else ("run_squad", "predict_file")
        run_script(script, **settings_of_run(task, seed, "all"), train_file=train_file, **{dev_flag: dev_file})
    return run_folder(task, seed, "all")


def report(rows: list[dict]) -> None:
    """Prints the mean score of each export, and what it adds to that in float32."""
    print(f"{'task':12}{'metric':14}{'export':24}{'score':>17}{'difference':>19}")
    for task, export in dict.fromkeys((row["task"], row["export"]) for row in rows):
        own, before = ({row["seed"]: row for row in rows if (row["task"], row["export"]) == (task, name)}
                       for name in (export, "float32"))
        scores = [row["score"] for row in own.values()]
        differences = [row["score"] - before[seed]["score"] for seed, row in own.items()]
        print(f"{task:12}{next(iter(own.values()))['metric']:14}{export:24}"
              f"{np.mean(scores):9.4f} ({standard_error(scores):.4f})"
              f"{np.mean(differences):+11.4f} ({standard_error(differences):.4f})")


if __name__ == "__main__":
    run(main)

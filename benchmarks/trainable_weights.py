"""Fine-tunes all weights or the head alone, with the same data and seeds, and compares the scores.

    python -m benchmarks.trainable_weights --model=all-MiniLM-L6-v2 --data=data --output_dir=out

The benchmark continues where it stopped if it is run again, and writes the score of each seed to trainable_weights.csv.
The learning rates were set beforehand and not tuned.
"""

from __future__ import annotations

import os
import statistics

from absl import flags

from albert_tf.commands.command_runs import run_script
from albert_tf.utils.files import read_json_object
from benchmarks.fine_tuned_classifiers import define_flags, run_folder, settings_of_run, write_rows
from benchmarks.fine_tuning_settings import SETTINGS
from benchmarks.processor import run

define_flags(tasks=["sst-2", "sts-b"], seeds=["1", "2", "3", "4", "5"])
FLAGS = flags.FLAGS

STEPS = {"sst-2": 100, "sts-b": 300}
KINDS = {
    "all": dict(learning_rate=5e-5),
    "head": dict(trainable="head", learning_rate=1e-3),
}
COLUMNS = ("task", "trained", "steps", "seed", "score")


def main():
    rows = write_rows("trainable_weights", COLUMNS, measure)
    for task, kind in dict.fromkeys((row["task"], row["trained"]) for row in rows):
        scores = [row["score"] for row in rows if (row["task"], row["trained"]) == (task, kind)]
        print(f"{task:8}{kind:10}median {statistics.median(scores):.3f}, {min(scores):.3f} to {max(scores):.3f}")


def measure(task: str, seed: str) -> list[dict]:
    return [dict(zip(COLUMNS, (task, kind, STEPS[task], seed, score(task, seed, kind)))) for kind in KINDS]


def score(task: str, seed: str, kind: str) -> float:
    values = dict(settings_of_run(task, seed, kind), max_seq_length=64, train_step=STEPS[task],
                  warmup_step=STEPS[task] // 10, save_checkpoints_steps=STEPS[task], bias_correction=False,
                  precision="float32", do_eval=True)
    run_script("run_classifier", task_name=task, data_dir=os.path.join(FLAGS.data, "glue"),
               cached_dir=os.path.join(FLAGS.output_dir, "cached"), **{**values, **KINDS[kind]})
    results = read_json_object(os.path.join(run_folder(task, seed, kind), "eval_results.json"))
    return round(results[SETTINGS[task].metric], 4)


if __name__ == "__main__":
    run(main)

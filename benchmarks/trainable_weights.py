"""Fine-tunes all weights, low-rank adapters or the head alone, with the same data and seeds, and compares the scores.

    python -m benchmarks.trainable_weights --model=all-MiniLM-L6-v2 --data_dir=glue --output_dir=out --seeds=3

It writes OUTPUT_DIR/scores.csv, with the score of each seed. Runs that have finished are not repeated. The learning
rates were set beforehand and not tuned.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
from typing import Sequence

from albert_tf.utils.outputs import write_csv
from benchmarks.fine_tuning_settings import SETTINGS
from studies.finished_runs import ScriptRuns

TASKS = ("sst-2", "sts-b")
KINDS = {
    "all": dict(learning_rate=5e-5),
    "adapters": dict(lora_rank=8, lora_alpha=16, learning_rate=5e-4),
    "head": dict(trainable="head", learning_rate=1e-3),
}


def main() -> None:
    parser = parser_of_runs(__doc__, TASKS)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS), help="what is trained")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from 1 on")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    for task in options.tasks:
        for kind in options.kinds:
            fine_tune(options, task, kind)
    write_scores(pathlib.Path(options.output_dir), options.steps)


def parser_of_runs(description: str, tasks: Sequence[str]) -> argparse.ArgumentParser:
    """A parser of the flags of fine-tuning runs on these tasks."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="the pre-trained model")
    parser.add_argument("--data_dir", required=True, help="folder of the tasks, as in GLUE")
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--tasks", nargs="+", default=list(tasks), choices=list(tasks))
    return parser


def fine_tune(options: argparse.Namespace, task: str, kind: str) -> None:
    directory = pathlib.Path(options.output_dir) / task / kind
    ScriptRuns(str(directory)).run(
        "run_classifier", task_name=task, data_dir=options.data_dir, init_checkpoint=options.model,
        output_dir=directory, cached_dir=directory.parent, max_seq_length=64, train_batch_size=32,
        train_step=options.steps, warmup_step=options.steps // 10, save_checkpoints_steps=options.steps,
        keep_checkpoint_max=1, eval_batch_size=32, seed=1, num_runs=options.seeds, do_train=True, do_eval=True,
        **KINDS[kind])


def write_scores(directory: pathlib.Path, steps: int) -> None:
    """Writes the scores of all seeds of what has finished, also in earlier commands, and prints their medians."""
    by_run = {(task, kind): scores_of(directory / task / kind, task) for task in TASKS for kind in KINDS}
    rows = [[*run, steps, seed, round(score, 4)] for run, own in by_run.items() for seed, score in own.items()]
    write_csv(str(directory / "scores.csv"), [["task", "trained", "steps", "seed", "score"], *rows])
    for task, kind in dict.fromkeys((row[0], row[1]) for row in rows):
        scores = [row[-1] for row in rows if (row[0], row[1]) == (task, kind)]
        print(f"{task:8}{kind:10}median {statistics.median(scores):.4f}, {min(scores):.4f} to {max(scores):.4f}")


def scores_of(directory: pathlib.Path, task: str) -> dict[int, float]:
    """The best score of each seed by the task's first metric; none if the runs have not finished."""
    path = directory / "eval_runs.json"
    results = json.loads(path.read_text(encoding="utf-8"))["seeds"] if path.is_file() else {}
    return {int(seed): result[SETTINGS[task].metric] for seed, result in results.items()}


if __name__ == "__main__":
    main()

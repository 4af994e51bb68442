"""Compares the settings that search_settings finds with those of a task's recipe, on seeds that the search did not use.

    python -m benchmarks.searched_settings --model=all-MiniLM-L6-v2 --data_dir=glue --output_dir=out

The recipes are the paper's, with fewer steps, which are those of the search too: --steps on the command line replaces
those of STEPS. It writes OUTPUT_DIR/scores.csv, with the score of each seed. What has finished is not repeated.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics

from albert_tf.utils.outputs import write_csv
from benchmarks.fine_tuning_settings import SETTINGS
from benchmarks.trainable_weights import parser_of_runs, scores_of
from studies.finished_runs import ScriptRuns
from studies.intervals import standard_error

STEPS = {"rte": 100, "sts-b": 300}
SPACE = {"learning_rate": {"type": "float", "low": 1e-5, "high": 2e-4, "log": True}, **{
    name: {"type": "categorical", "choices": choices} for name, choices in (
        ("train_batch_size", [16, 32]), ("hidden_dropout_prob", [0.0, 0.1]), ("warmup_step", [20, 40, 80]))}}
FIRST_SEED = 101  # of those that are compared; the trials have the default seed
COMPARED = ("recipe", "search")


def main() -> None:
    parser = parser_of_runs(__doc__, list(STEPS))
    parser.add_argument("--trials", type=int, default=12, help="number of trials of the search")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds that are compared")
    parser.add_argument("--steps", type=int, help="number of steps of a run")
    options = parser.parse_args()
    for task in options.tasks:
        search_and_compare(options, task)
    write_scores(pathlib.Path(options.output_dir))


def search_and_compare(options: argparse.Namespace, task: str) -> None:
    """Searches, and trains all seeds with the recipe and with what was found."""
    directory = pathlib.Path(options.output_dir).absolute() / task
    steps = options.steps or STEPS[task]
    flags = dict(task_name=task, data_dir=options.data_dir, init_checkpoint=options.model, recipe=task,
                 cached_dir=str(directory), max_seq_length=128, train_step=steps, eval_batch_size=32,
                 save_checkpoints_steps=steps // 4, keep_checkpoint_max=1)
    runs = ScriptRuns(str(directory))
    space = directory / "space.json"
    space.write_text(json.dumps(dict(script="run_classifier", metric=SETTINGS[task].metric, flags=flags, space=SPACE)))
    runs.run("search_settings", space=space, output_dir=directory / "trials", num_trials=options.trials, halving=True)
    for name, changes in (("recipe", dict(warmup_step=steps // 10)),
                          ("search", dict(recipe=directory / "trials/best_recipe.json"))):
        runs.run("run_classifier", **{**flags, **changes}, output_dir=directory / name, seed=FIRST_SEED,
                 num_runs=options.seeds, do_train=True, do_eval=True)


def write_scores(directory: pathlib.Path) -> None:
    """Writes the scores of all seeds of what has finished, and prints medians, the difference and its error."""
    scores = {(task, name): scores_of(directory / task / name, task) for task in STEPS for name in COMPARED}
    rows = [[*key, seed, round(score, 4)] for key, own in scores.items() for seed, score in own.items()]
    write_csv(str(directory / "scores.csv"), [["task", "settings", "seed", "score"], *rows])
    for task in STEPS:
        recipe, search = (list(scores[task, name].values()) for name in COMPARED)
        if recipe and search:
            error = (standard_error(recipe) ** 2 + standard_error(search) ** 2) ** 0.5
            difference = statistics.median(search) - statistics.median(recipe)
            print(f"{task:8}recipe {statistics.median(recipe):.3f}, search {statistics.median(search):.3f}, "
                  f"difference {difference:.3f} (standard error of the means: {error:.3f})")


if __name__ == "__main__":
    main()

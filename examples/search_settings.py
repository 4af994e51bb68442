"""Searches for the settings of a fine-tuning command with the best score on the dev set, by Optuna.

    pip install optuna
    python examples/search_settings.py --trials=12 --metric=eval_accuracy --output_dir=rte_search run_classifier \
        --task_name=rte --data_dir=glue --init_checkpoint=albert_base_v2 --recipe=rte

Each trial is a run of the command in a folder of its own. `settings` has the flags that vary and their values; flags of
the command line are the same in all trials. If the program is started again, it runs the trials that are missing. The
best of many scores on one dev set is too high: compare the settings on seeds that the search has not used.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend


def settings(trial):
    """The flags of a trial by name."""
    return dict(learning_rate=trial.suggest_float("learning_rate", 1e-5, 1e-4, log=True),
                train_batch_size=trial.suggest_categorical("train_batch_size", [16, 32]),
                hidden_dropout_prob=trial.suggest_categorical("hidden_dropout_prob", [0.0, 0.1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=12, help="number of trials, those of earlier starts included")
    parser.add_argument("--metric", required=True, help="the score to maximize, a key of eval_results.json")
    parser.add_argument("--output_dir", type=pathlib.Path, required=True, help="folder of the trials")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="a command of albert_tf and its flags")
    options = parser.parse_args()

    def score(trial):
        folder = options.output_dir / f"trial_{trial.number}"
        flags = {**settings(trial), "output_dir": folder, "keep_checkpoint_max": 1}
        subprocess.run([sys.executable, "-m", "albert_tf", *options.command, "--do_train", "--do_eval",
                        *(f"--{name}={value}" for name, value in flags.items())], check=True)
        return json.loads((folder / "eval_results.json").read_text())[options.metric]

    options.output_dir.mkdir(parents=True, exist_ok=True)
    storage = JournalStorage(JournalFileBackend(str(options.output_dir / "trials.journal")))
    study = optuna.create_study(storage=storage, study_name="settings", direction="maximize", load_if_exists=True)
    finished = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    study.optimize(score, n_trials=max(0, options.trials - len(finished)))
    best = [f"--{name}={value}" for name, value in study.best_params.items()]
    print(f"{options.metric} {study.best_value:.4f} with {shlex.join(best)}")


if __name__ == "__main__":
    main()

"""Searches for the settings of a fine-tuning command with the best dev score (Optuna's TPE).

    python -m albert_tf search_settings --space=rte_space.json --output_dir=rte_search --num_trials=12

Each trial is a run of the command. The JSON file of --space has the command, its fixed flags, and the values that
other flags may have. The number of training steps of the whole search is logged first. After each trial, --output_dir
has the table trials.csv, the chart search.svg, and the settings of the best trial as a recipe, best_recipe.json. If the
script is started again, the trial that was interrupted continues from its checkpoint; a larger --num_trials adds
trials. A score of a trial chosen among many is too high: compare on seeds or data that the search has not used.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import reprlib
import shlex
import time
import warnings
from typing import TYPE_CHECKING, Any, Mapping

from absl import logging

from albert_tf.commands import flag_fields as fields, usage
from albert_tf.commands.command_runs import arguments, run_process
from albert_tf.commands.finetuning_flags import read_recipe
from albert_tf.training.options import HISTORY, RESULTS
from albert_tf.utils import bounds
from albert_tf.utils.bounds import check_one_of
from albert_tf.utils.charts import Curve, Panel, write_charts
from albert_tf.utils.files import check_keys, read_json_object
from albert_tf.utils.imports import check_installed
from albert_tf.utils.outputs import used_alone, write_csv, write_text
from albert_tf.utils.progress import count_of

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

_STORAGE = "trials.journal"
_STARTUP = 3  # a trial in this many is drawn at random before TPE begins, but at most Optuna's default of 10
_EXAMPLE = '{"type": "float", "low": 1e-5, "high": 1e-4, "log": true} or {"type": "categorical", "choices": [16, 32]}'
# The flags that the search sets itself.
_OWN_FLAGS = ("output_dir", "do_train", "do_eval", "seed", "random_seed")
_STEPS, _RUNS, _BATCH = "train_step", "num_runs", "train_batch_size"


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of this command."""

    space: str = fields.required(
        "Path of a JSON file with the command (script), the result to maximize (metric), its fixed flags, and Optuna's "
        "distributions of the values of other flags (space).")
    output_dir: str = fields.required("Directory of the search: a folder for each trial, and the results.")
    num_trials: int = fields.integer(12, "Number of trials, with those of earlier starts of this search.", bounds.RUNS)
    halving: bool = fields.boolean(False, "Whether trials end early whose dev score is in the lower half of the trials "
                                   "so far at their first, second, fourth, ... evaluation (successive halving).")
    search_seed: int = fields.integer(1, "Seed of the search. The seeds of trials are in the flags of --space.",
                                      bounds.SEED)


def define_flags() -> None:
    fields.define_fields(Options)


def main() -> None:
    search(fields.from_flags(Options))


def search(options: Options) -> None:
    """Runs the trials that are missing, and writes the results after each."""
    space = read_space(options.space)
    if options.halving and space.flags.get("num_runs", 1) != 1:
        raise ValueError("--halving compares single runs: remove num_runs from the flags of the space")
    with used_alone(options.output_dir, "search"):
        _search(options, space)


def _search(options: Options, space: SearchSpace) -> None:
    study = _open_study(options, space)
    _log_cost(space, options.num_trials - len(_finished(study)))
    while len(_finished(study)) < options.num_trials:
        _run_trial(study, space, options)
        _write(study, space, options.output_dir)
    best = study.best_trial
    logging.info("best of %s: trial %d, %s %.4f: %s", count_of(len(_finished(study)), "trial"), best.number,
                 space.metric, best.value, _shown(best.params))
    logging.info("to train with it: %s", _command(space, options.output_dir))


def _open_study(options: Options, space: SearchSpace) -> Study:
    """The study in output_dir. Trials that were interrupted are put first, with their directories."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    backend = optuna.storages.journal.JournalFileBackend(os.path.join(options.output_dir, _STORAGE))
    pruner = optuna.pruners.SuccessiveHalvingPruner(1, 2) if options.halving else optuna.pruners.NopPruner()
    study = optuna.create_study(storage=optuna.storages.JournalStorage(backend), study_name="settings",
                                direction="maximize", load_if_exists=True, pruner=pruner)
    content = json.loads(json.dumps({**vars(space), "space": {
        name: optuna.distributions.distribution_to_json(values) for name, values in space.space.items()}}))
    if study.user_attrs.setdefault("search", content) != content:
        raise ValueError(f"the search in {options.output_dir} has another space than {options.space} has now: choose "
                         "another --output_dir, or restore the file")
    study.set_user_attr("search", content)
    interrupted = study.get_trials(states=[optuna.trial.TrialState.RUNNING])
    for trial in interrupted:
        with used_alone(trial.user_attrs.get("directory", options.output_dir), "training"):
            pass  # otherwise a training that has outlived its search would make the trial fail
    for trial in interrupted:
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        if "directory" in trial.user_attrs:
            study.enqueue_trial(trial.params, dict(directory=trial.user_attrs["directory"]))
    return study


def _finished(study: Study) -> list[FrozenTrial]:
    """The trials with a score, those that ended early, and those whose command failed."""
    return [trial for trial in study.trials
            if trial.state.name in ("COMPLETE", "PRUNED") or "error" in trial.user_attrs]


def _log_cost(space: SearchSpace, missing: int) -> None:
    low, high = space.steps
    least, most = space.batch_sizes
    logging.info("%s to run, each of %s: %s in all, with batches of %s", count_of(max(missing, 0), "trial"),
                 _between(low, high, " steps"), _between(low * missing, high * missing, " steps"),
                 _between(least, most, " examples"))


def _between(low: int, high: int, unit: str) -> str:
    return f"{low:,}{unit}" if low == high else f"{low:,} to {high:,}{unit}"


def _run_trial(study: Study, space: SearchSpace, options: Options) -> None:
    """Runs a trial, or the rest of one that was interrupted, and tells the study its score."""
    import optuna

    # Seeds and folders are those of the trials that are counted, so that a search that is started again draws what it
    # would have drawn.
    startup = min(10, max(1, options.num_trials // _STARTUP))
    number = len(_finished(study))
    study.sampler = optuna.samplers.TPESampler(n_startup_trials=startup, seed=options.search_seed + number)
    trial = study.ask(dict(space.space))
    directory = trial.user_attrs.get("directory") or os.path.join(options.output_dir, f"trial_{number}")
    trial.set_user_attr("directory", directory)
    logging.info("trial %d: %s", trial.number, _shown(trial.params))
    flags = {"keep_checkpoint_max": 1, **space.flags, **trial.params, "output_dir": directory}
    halving = _Halving(trial, space, directory) if options.halving else None
    start = time.monotonic()
    try:
        run_process(space.script, arguments(dict(flags, do_train=True, do_eval=True)), f"trial {trial.number}", halving)
        if halving:
            halving.report()
        score = None if halving and halving.is_over else _score(directory, space.metric)
    except ValueError as error:
        trial.set_user_attr("error", str(error))
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        if not any(trial.state.name in ("COMPLETE", "PRUNED") for trial in study.trials):
            raise
        logging.warning("%s; the search continues", error)
        return
    trial.set_user_attr("seconds", round(time.monotonic() - start, 1))
    if score is None:
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        logging.info("trial %d ended early", trial.number)
    else:
        study.tell(trial, score)
        logging.info("trial %d: %s %.4f", trial.number, space.metric, score)


class _Halving:
    """Reports the evaluations of a trial to the study. Calling it returns whether the trial should end."""

    def __init__(self, trial: Trial, space: SearchSpace, directory: str):
        self._trial, self._metric, self._directory = trial, space.metric, directory
        self._reported = 0
        self.is_over = False

    def __call__(self) -> bool:
        if self.report():
            self.is_over = self._trial.should_prune()
        return self.is_over

    def report(self) -> bool:
        """Reports the evaluations since the last call. Returns whether there were any."""
        from albert_tf.training.evaluation import read_history

        path = os.path.join(self._directory, HISTORY)
        rows = read_history(self._directory, self._metric) if os.path.exists(path) else []
        for number, row in enumerate(rows[self._reported :], self._reported + 1):
            self._trial.report(row[self._metric], number)
        is_new, self._reported = len(rows) > self._reported, len(rows)
        return is_new


def _score(directory: str, metric: str) -> float:
    results = read_json_object(os.path.join(directory, f"{RESULTS}.json"))
    if metric not in results:
        raise ValueError(f"metric: the results of a trial have no {metric!r}, only {', '.join(results)}")
    if not math.isfinite(results[metric]):
        raise ValueError(f"{metric} is {results[metric]}")
    return results[metric]


def _write(study: Study, space: SearchSpace, directory: str) -> None:
    """Writes the table of trials, the chart, and the recipe of the best trial."""
    trials = _finished(study)
    rows: list[list] = [["trial", "state", space.metric, *space.space, "seconds", "directory", "error"]]
    for trial in trials:
        attributes = (trial.user_attrs.get(name) for name in ("seconds", "directory", "error"))
        rows.append([trial.number, trial.state.name.lower(), trial.value,
                     *(trial.params.get(name) for name in space.space), *attributes])
    write_csv(os.path.join(directory, "trials.csv"), rows)
    scored = [(trial.number, trial.value) for trial in trials if trial.state.name == "COMPLETE"]
    if not scored:
        return
    best = [(number, max(value for other, value in scored if other <= number)) for number, _ in scored]
    write_charts(os.path.join(directory, "search.svg"), [Panel(
        space.metric, [Curve(scored, "trials", is_joined=False), Curve(best, "best so far")], "trial")])
    recipe = {**space.recipe, **study.best_trial.params}
    write_text(os.path.join(directory, "best_recipe.json"), json.dumps(recipe, indent=2) + "\n")


def _command(space: SearchSpace, directory: str) -> str:
    """The command that trains with the recipe of the best trial."""
    flags = {**space.flags, "recipe": os.path.join(directory, "best_recipe.json"), "do_train": True, "do_eval": True}
    return f"{usage.starter()} {space.script} {shlex.join(arguments(flags))} --output_dir=DIRECTORY"


def _shown(params: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                     for name, value in params.items())


@dataclasses.dataclass(frozen=True)
class SearchSpace:
    """What is searched.

    Args:
      metric: the result that is to be as high as possible, a key of eval_results.json.
      flags: the flags of all trials.
      space: by the name of a flag the distribution of its values.
    """

    script: str
    metric: str
    flags: Mapping[str, Any]
    space: Mapping[str, BaseDistribution]

    @property
    def recipe(self) -> dict[str, Any]:
        """The flags of the recipe that the flags name; empty without a recipe."""
        recipe = self.flags.get("recipe")
        return read_recipe(None if recipe is None else str(recipe))[1]

    @property
    def steps(self) -> tuple[int, int]:
        """The fewest and the most training steps of a trial, over all of its runs."""
        steps, runs = self._ends(_STEPS, None), self._ends(_RUNS, 1)
        if steps[0] is None:
            raise ValueError(f"set {_STEPS} in \"flags\" or in \"space\": without it, the search's cost is unknown")
        return steps[0] * runs[0], steps[1] * runs[1]

    @property
    def batch_sizes(self) -> tuple[int, int]:
        """The smallest and the largest batch of a step; 32, the commands' usual default, if nothing sets it."""
        return self._ends(_BATCH, 32)

    def _ends(self, name: str, default: Any) -> tuple[Any, Any]:
        if name in self.space:
            values = self.space[name]._asdict()
            ends = values.get("choices") or (values["low"], values["high"])
            return min(ends), max(ends)
        value = self.flags.get(name, self.recipe.get(name, default))
        return value, value


def read_space(path: str) -> SearchSpace:
    """Reads a space from a JSON file::

        {"script": "run_classifier", "metric": "eval_accuracy",
         "flags": {"task_name": "rte", "data_dir": "glue", "init_checkpoint": "albert_base_v2", "recipe": "rte"},
         "space": {"learning_rate": {"type": "float", "low": 1e-5, "high": 1e-4, "log": true},
                   "train_batch_size": {"type": "categorical", "choices": [16, 32]},
                   "train_step": {"type": "int", "low": 200, "high": 800, "step": 200}}}
    """
    check_installed("search_settings", "optuna")
    content = check_keys(read_json_object(path), path, dict(script=str, metric=str, space=dict), dict(flags=dict))
    flags, space = content.get("flags", {}), content["space"]
    scripts = [name for name in usage.COMMANDS["Fine-tuning"] if name not in ("run_glue", "search_settings")]
    check_one_of(f"{path}: script", content["script"], scripts)
    if not space:
        raise ValueError(f"{path}: space is empty: there is nothing to search")
    for name in (*flags, *space):
        if name in _OWN_FLAGS:
            raise ValueError(f"{path}: {name} is set by the search itself: remove it")
        if name in flags and name in space:
            raise ValueError(f"{path}: {name} stands both in \"flags\" and in \"space\": remove one of them")
    return SearchSpace(content["script"], content["metric"], flags, {
        name: _distribution(values, f"{path}: space.{name}") for name, values in space.items()})


def _distribution(content: Any, place: str) -> BaseDistribution:
    """The distribution that Optuna makes of JSON; what it only warns of is an error here."""
    from optuna.distributions import json_to_distribution

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            distribution = json_to_distribution(json.dumps(content))
        unknown = sorted(content.keys() - {"type", *distribution._asdict()})
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}")
    except (KeyError, TypeError, ValueError, UserWarning) as error:
        raise ValueError(f"{place} must be a distribution of Optuna, such as {_EXAMPLE}. Received: "
                         f"{reprlib.repr(content)} ({error})") from None
    return distribution

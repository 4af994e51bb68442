"""The text of --list: the question, the paper's answer and the cost of each study."""

from __future__ import annotations

from typing import Iterator

from albert_tf.utils.progress import count_of
from studies.finished_runs import ScriptRuns
from studies.planning import Data, PlannedRun, plan
from studies.results import training_flops
from studies.study import read_study, study_names


def descriptions(scale: str, data: Data, finished: ScriptRuns | None) -> Iterator[str]:
    """A paragraph for each study.

    Args:
      scale: a name of SCALES.
      data: the data, whose paths need not exist.
      finished: the runs so far, for measured times; None if there are none.
    """
    for name in study_names():
        study = read_study(name, scale)
        runs = {run.directory: (run, trial.config_files[run.flags["albert_config_file"]]) for trial in plan(study, data)
                for run in trial.runs.values() if run.script == "run_pretraining"}  # some trials share a model
        costs = [training_flops(run, config) for run, config in runs.values()]
        cost = (f"{count_of(len(costs), 'trained model')} ({count_of(len(study.configurations), 'configuration')}, "
                f"seeds {study.seeds}), "
                f"{sum(costs):.1e} operations in all and {max(costs):.1e} at most for one")
        if study.training_flops_per_second:
            hours, minutes = (value / study.training_flops_per_second for value in (sum(costs) / 3600, max(costs) / 60))
            cost += f": about {hours:.1f} hours, {minutes:.0f} minutes at most for one, and its tasks besides"
        yield (f"{name}: {study.question}\n    paper: {study.paper.finding} ({study.paper.source})\n    cost: {cost}"
               + _measured([run for run, _ in runs.values()], finished))


def _measured(pretraining: list[PlannedRun], finished: ScriptRuns | None) -> str:
    seconds = [finished.seconds(run.script, **run.flags) for run in pretraining] if finished else []
    measured = [value for value in seconds if value is not None]
    if not measured:
        return ""
    return (f"\n    measured: {len(measured)} of {len(pretraining)} models in {sum(measured) / 3600:.1f} hours, "
            f"{max(measured) / 60:.0f} minutes at most")

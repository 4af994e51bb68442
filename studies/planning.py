"""Plans the runs of scripts that a study needs, in their order.

A run's directory is named after its script and flags, so that configurations and studies that need the same run share
it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from typing import Any, Mapping

from albert_tf.commands.command_runs import filled, placeholders
from albert_tf.config import AlbertConfig
from studies.study import BUILT_IN, COLUMNS, Study, config_of, flags_of

RESULTS = "eval_results.json"


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """A run of a script with its flags, and the directory of its outputs."""

    name: str
    script: str
    flags: dict[str, Any]
    directory: str

    @property
    def results_file(self) -> str:
        """Path of the results of a run that evaluates."""
        return os.path.join(self.directory, RESULTS)


@dataclasses.dataclass(frozen=True)
class Trial:
    """A configuration with one seed.

    Args:
      label: label of the configuration.
      seed: seed of training.
      config: config of the model.
      config_files: the configs that the scripts read, by path.
      runs: the runs by name, each after those whose outputs it reads. "LABEL: NAME" is a run of another configuration.
    """

    label: str
    seed: int
    config: AlbertConfig
    config_files: dict[str, AlbertConfig]
    runs: dict[str, PlannedRun]


@dataclasses.dataclass(frozen=True)
class Data:
    """The user's data. `places` has the path of each placeholder, or None if the user did not set it."""

    output_dir: str
    places: Mapping[str, str | None]


def plan(study: Study, data: Data) -> list[Trial]:
    """The trials of a study, configuration by configuration for the first seed, then for the next.

    A column is not measured if its data are missing.

    Raises:
      ValueError: the text to train on, or to evaluate on, is missing; a placeholder is unknown; a run needs its own
        output; the first configuration needs a previous one.
    """
    columns = measured_columns(study, data)
    return [_trial(study, data, label, seed, columns) for seed in study.seeds for label in study.configurations]


def measured_columns(study: Study, data: Data) -> list[str]:
    """The columns of a study whose data are not missing.

    Raises:
      ValueError: as plan; or the data of all columns are missing.
    """
    missing = {column: _missing(study, data, COLUMNS[column].run) for column in study.columns}
    columns = [column for column, places in missing.items() if not places]
    needed = _missing(study, data, "pretraining") or ([] if columns else missing[study.columns[0]])
    if needed:
        raise ValueError(f"--{sorted(needed)[0]} is missing: {study.name} needs it")
    return columns


def _missing(study: Study, data: Data, run: str, needed_by: tuple[str, ...] = ()) -> set[str]:
    """The placeholders of missing data that a run, or a run whose outputs it reads, needs.

    Args:
      study, data, run: the study, the user's data, the name of the run.
      needed_by: the runs that need this one, each after the one that needs it.
    """
    if run in needed_by:
        raise ValueError(f"{study.name}: run {run!r} needs its own output: "
                         f"{' needs '.join([*needed_by[needed_by.index(run):], run])}")
    missing = set()
    for settings in study.configurations.values():
        for name in placeholders(flags_of(study, settings, run)):
            if name in study.runs:
                missing |= _missing(study, data, name, (*needed_by, run))
            elif name not in BUILT_IN:
                if name not in data.places:
                    known = ", ".join([*BUILT_IN, *study.runs, *data.places])
                    raise ValueError(f"run {run!r} of scale {study.scale!r} has an unknown placeholder {{{name}}}; "
                                     f"the known ones are {known}")
                missing |= {name} if data.places[name] is None else set()
    return missing


def _trial(study: Study, data: Data, label: str, seed: int, columns: list[str]) -> Trial:
    settings = study.configurations[label]
    config = config_of(study, settings)
    config_name = f"{_named('config', config.to_dict())}.json"
    config_files = {_path(data, config_name): config}
    runs: dict[str, PlannedRun] = {}
    names = {"config": config_name}  # names of files and directories of the study

    def add(run: str) -> None:
        flags = flags_of(study, settings, run)
        for other in placeholders(flags):
            if other == "previous" and other not in names:
                previous = _trial(study, data, _previous(study, label), seed, columns=[])
                runs.update({key if ": " in key else f"{previous.label}: {key}": earlier
                             for key, earlier in previous.runs.items()})
                config_files.update(previous.config_files)
                names["previous"] = os.path.basename(previous.runs["pretraining"].directory)
            elif other in study.runs and other not in runs:
                add(other)
        inputs = {name: place for name, place in data.places.items() if place is not None}
        inputs["seed"] = str(seed)
        # The name depends on the inputs, and not on the folder of the study.
        script = study.runs[run].script
        names[run] = _named(script, {name: filled(value, {**inputs, **names}) for name, value in flags.items()})
        paths = {name: _path(data, file) for name, file in names.items()}
        places = {**inputs, **paths, "here": paths[run]}
        runs[run] = PlannedRun(run, script, {name: filled(value, places) for name, value in flags.items()}, paths[run])

    for run in dict.fromkeys(["pretraining", *(COLUMNS[column].run for column in columns)]):
        if run not in runs:
            add(run)
    return Trial(label, seed, config, config_files, runs)


def _previous(study: Study, label: str) -> str:
    """The label of the configuration before.

    Raises:
      ValueError: there is none.
    """
    labels = list(study.configurations)
    if label == labels[0]:
        raise ValueError(f"{study.name}: {label!r} is the first configuration, so it cannot start from {{previous}}")
    return labels[labels.index(label) - 1]


def _path(data: Data, name: str) -> str:
    return os.path.join(data.output_dir, "runs", name)


def _named(name: str, content) -> str:
    return f"{name}-{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]}"

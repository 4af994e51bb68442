"""From a study to the runs of scripts that it needs, in their order.

A run's directory is named after its flags: configurations, and studies, that need the same run share it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from typing import Any, Mapping

from albert_tf.config import AlbertConfig
from albert_tf.script_runs import filled
from studies.columns import COLUMNS
from studies.study import Settings, Study, config_of, flags_of

RESULTS = "eval_results.json"


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """A run of a script, with the flags that it gets. Its directory has what it writes."""

    name: str
    script: str
    flags: dict[str, Any]
    directory: str

    @property
    def results_file(self) -> str:
        """Where an evaluating run leaves its results."""
        return os.path.join(self.directory, RESULTS)


@dataclasses.dataclass(frozen=True)
class Trial:
    """A configuration with one seed.

    Args:
      label: of the configuration.
      seed: of training.
      config: of the model.
      config_file: where the scripts expect it.
      runs: by name, each after those that it reads from.
    """

    label: str
    seed: int
    config: AlbertConfig
    config_file: str
    runs: dict[str, PlannedRun]


@dataclasses.dataclass(frozen=True)
class Data:
    """What the user gives. `places` has paths by placeholder; one that is None was not given."""

    output_dir: str
    places: Mapping[str, str | None]


def plan(study: Study, data: Data) -> list[Trial]:
    """The trials of a study, configuration by configuration for the first seed, then for the next.

    A column whose data were not given is not measured.

    Raises:
      ValueError: the text to train on, or to evaluate on, was not given; a placeholder is unknown.
    """
    columns = measured_columns(study, data)
    return [_trial(study, data, label, settings, seed, columns)
            for seed in study.seeds for label, settings in study.configurations.items()]


def measured_columns(study: Study, data: Data) -> list[str]:
    """The columns of a study whose data were given.

    Raises:
      ValueError: as plan; or no column is left.
    """
    missing = {column: _missing(study, data, COLUMNS[column].run) for column in study.columns}
    columns = [column for column, places in missing.items() if not places]
    needed = _missing(study, data, "pretraining") or ([] if columns else missing[study.columns[0]])
    if needed:
        raise ValueError(f"--{sorted(needed)[0]} is missing: {study.name} needs it")
    return columns


def _missing(study: Study, data: Data, run: str) -> set[str]:
    """The placeholders of data that a run, or one that it reads from, needs and that were not given."""
    missing = set()
    for settings in study.configurations.values():
        for name in _placeholders(flags_of(study, settings, run)):
            if name in study.runs:
                missing |= _missing(study, data, name)
            elif name not in ("here", "config", "seed"):
                if name not in data.places:
                    raise ValueError(f"run {run!r} of scale {study.scale!r} has an unknown placeholder {{{name}}}; "
                                     f"known are {', '.join(['here', 'config', 'seed', *study.runs, *data.places])}")
                missing |= {name} if data.places[name] is None else set()
    return missing


def _trial(study: Study, data: Data, label: str, settings: Settings, seed: int, columns: list[str]) -> Trial:
    config = config_of(study, settings)
    config_name = _named("config", config.to_dict())
    runs: dict[str, PlannedRun] = {}
    names: dict[str, str] = {}  # of the runs' directories, and of the config file

    def add(run: str) -> None:
        flags = flags_of(study, settings, run)
        for other in _placeholders(flags):
            if other in study.runs and other not in runs:
                add(other)
        given = {name: place for name, place in data.places.items() if place is not None}
        given["seed"] = str(seed)
        # The name depends on what is read, and not on where the study is.
        read = {**given, **names, "config": config_name}
        names[run] = _named(run, {name: filled(value, read) for name, value in flags.items()})
        folders = {name: os.path.join(data.output_dir, "runs", folder) for name, folder in names.items()}
        places = {**given, **folders, "here": folders[run], "config": _config_file(data, config_name)}
        runs[run] = PlannedRun(run, study.runs[run].script,
                               {name: filled(value, places) for name, value in flags.items()}, folders[run])

    for run in dict.fromkeys(["pretraining", *(COLUMNS[column].run for column in columns)]):
        if run not in runs:
            add(run)
    return Trial(label, seed, config, _config_file(data, config_name), runs)


def _config_file(data: Data, name: str) -> str:
    return os.path.join(data.output_dir, "runs", f"{name}.json")


def _placeholders(flags: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(re.findall(r"\{(\w+)\}", json.dumps(flags))))


def _named(name: str, content) -> str:
    return f"{name}-{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]}"

"""Reads the files of a study and of a scale, and plans and runs the commands that the study needs (see README.md)."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import pathlib
from typing import Any, Mapping, NamedTuple

from albert_tf.commands.command_runs import Run, filled, parse_runs, placeholders, run_script
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import fingerprint
from albert_tf.utils.files import check_keys, errors_at, make_directory, read_json_object
from albert_tf.utils.outputs import write_text

FOLDER = pathlib.Path(__file__).parent
SCALES = tuple(sorted(path.stem for path in (FOLDER / "scales").glob("*.json")))
BUILT_IN = ("here", "previous", "config", "seed")  # placeholders that are neither runs nor the user's data
FINISHED = "finished.json"
Settings = dict[str, Any]
# By name: the title, the run whose eval_results.json has the value, its key there, and a factor (for percent).
COLUMNS = {
    "masked_lm": ("masked LM", "pretraining", "masked_lm_accuracy", 100.0),
    "masked_lm_long": ("masked LM, long inputs", "pretraining", "dev_long/masked_lm_accuracy", 100.0),
    "masked_lm_ngram3": ("masked LM, n-grams", "pretraining", "dev_ngram3/masked_lm_accuracy", 100.0),
    "sop": ("SOP pairs", "pretraining", "sentence_order_accuracy", 100.0),
    "sop_long": ("SOP pairs, long inputs", "pretraining", "dev_long/sentence_order_accuracy", 100.0),
    "nsp": ("NSP pairs", "pretraining", "dev_nsp/sentence_order_accuracy", 100.0),
    "sst2": ("SST-2", "sst2", "eval_accuracy", 100.0),
    "rte": ("RTE", "rte", "eval_accuracy", 100.0),
    "stsb": ("STS-B, Pearson", "stsb", "pearson", 100.0),
    "squad": ("SQuAD 1.1 F1", "squad", "f1", 1.0),
    "sst2_ensemble": ("SST-2", "sst2_ensemble", "eval_accuracy", 100.0),
}


class Study(NamedTuple):
    """A study at one scale: settings by the label of a configuration, and the label that each is compared with."""

    name: str
    content: dict[str, Any]
    configurations: dict[str, Settings]
    references: dict[str, str]
    seeds: list[int]
    config: dict[str, Any]
    runs: dict[str, Run]

    def config_of(self, settings: Settings) -> AlbertConfig:
        return AlbertConfig.from_dict({**self.config, **_part(settings, "config")})

    def flags_of(self, settings: Settings, run: str) -> dict[str, Any]:
        """The flags of a run, with their placeholders."""
        return {**self.runs[run].flags, **_part(settings, run)}


def study_names() -> list[str]:
    """The studies of this folder."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def read_study(name: str, scale: str) -> Study:
    """Reads a study of this folder, or of a file, and its scale.

    Raises:
      ValueError: there is no such study, or its file is wrong. The message has the file and the key.
    """
    path = FOLDER / f"{name}.json" if name in study_names() else pathlib.Path(name)
    if not path.is_file() or path.stem in study_names() and path.resolve().parent != FOLDER.resolve():
        raise ValueError(f"no study {name!r}: use one of {', '.join(study_names())}, or the path of a file that has "
                         "another name")
    content = check_keys(read_json_object(str(path)), str(path),
                         dict(question=str, paper=dict, columns=list, limits=str, scales=dict))
    place, scale_path = f"{path}: scales.{scale}", str(FOLDER / "scales" / f"{scale}.json")
    at_scale = check_keys(content["scales"].get(scale), place, dict(varies=dict),
                          dict(reference=dict, settings=dict, seeds=list))
    of_scale = check_keys(read_json_object(scale_path), scale_path, dict(about=str, seeds=list, config=dict, runs=dict))
    _check_known(content["columns"], COLUMNS, f"{path}: columns")
    axes = {axis: _levels(axis, levels, place) for axis, levels in at_scale["varies"].items()}
    reference = at_scale.get("reference", {axis: next(iter(levels)) for axis, levels in axes.items()})
    for axis, label in reference.items():
        _check_known([label], axes.get(axis, ()), f"{place}.reference: {axis}")
    configurations, references = {}, {}
    for labels in itertools.product(*axes.values()):
        settings = dict(at_scale.get("settings", {}))
        for axis, label in zip(axes, labels):
            settings.update(axes[axis][label])
        configurations[", ".join(labels)] = settings
        references[", ".join(labels)] = ", ".join(reference.get(axis, label) for axis, label in zip(axes, labels))
    study = Study(path.stem, content, configurations, references, at_scale.get("seeds", of_scale["seeds"]),
                  of_scale["config"], parse_runs(of_scale["runs"], scale_path, BUILT_IN))
    for label, settings in configurations.items():
        _check_known([setting.partition(".")[0] for setting in settings], ("config", *study.runs), f"{place} {label!r}")
        with errors_at(f"{place} {label!r}"):
            study.config_of(settings)
    return study


def _levels(axis: str, levels: Any, place: str) -> dict[str, Settings]:
    """The labels of an axis with their settings."""
    if isinstance(levels, list):
        levels = {value if isinstance(value, str) else json.dumps(value): {axis: value} for value in levels}
    if not isinstance(levels, dict) or not levels or not all(isinstance(level, dict) for level in levels.values()):
        raise ValueError(f"{place}.varies: {axis!r} must be a list of values, or an object of labels and settings")
    return levels


def _check_known(names, known, place: str) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{place}: unknown {name!r}; the known ones are {', '.join(known)}")


def _part(settings: Settings, owner: str) -> Settings:
    """The settings of the config or of one run, by the name of the field or flag."""
    return {name.partition(".")[2]: value for name, value in settings.items() if name.partition(".")[0] == owner}


class PlannedRun(NamedTuple):
    """A run of a command with its flags, and the directory of its outputs."""

    script: str
    flags: dict[str, Any]
    directory: str

    @property
    def is_finished(self) -> bool:
        return os.path.isfile(os.path.join(self.directory, FINISHED))


class Trial(NamedTuple):
    """A configuration with one seed: the files of configs, and the runs in order.

    "LABEL: NAME" is a run of another configuration.
    """

    label: str
    seed: int
    configs: dict[str, AlbertConfig]
    runs: dict[str, PlannedRun]


def plan(study: Study, data: Mapping[str, str | None], output_dir: str) -> list[Trial]:
    """The trials of a study, configuration by configuration for the first seed, then for the next.

    A column is not measured if its data are missing.

    Raises:
      ValueError: the data of pre-training, or of all columns, are missing.
    """
    def missing(run: str) -> set[str]:
        """The data that a run needs, also by other runs, and that the user did not name."""
        names = {name for settings in study.configurations.values()
                 for name in placeholders(study.flags_of(settings, run))} - {*BUILT_IN}
        return {name for name in names - {*study.runs} if data[name] is None}.union(
            *(missing(name) for name in names & {*study.runs}))

    columns = [column for column in study.content["columns"] if not missing(COLUMNS[column][1])]
    for name in missing("pretraining") or (set() if columns else missing(COLUMNS[study.content["columns"][0]][1])):
        raise ValueError(f"--{name} is missing: {study.name} needs it")
    versions = {name: [place, *(fingerprint(path) for path in place.split(",") if os.path.isfile(path))]
                for name, place in data.items() if place is not None}
    labels = list(study.configurations)

    def trial(label: str, seed: int, wanted: list[str]) -> Trial:
        settings, config = study.configurations[label], study.config_of(study.configurations[label])
        places = {name: place for name, place in data.items() if place is not None}
        places |= dict(seed=str(seed), config=path_of("config", config.to_dict()) + ".json")
        configs, runs = {places["config"]: config}, {}

        def add(run: str) -> None:
            flags, script = study.flags_of(settings, run), study.runs[run].script
            for other in placeholders(flags):
                if other == "previous" and other not in places:
                    before = trial(labels[labels.index(label) - 1], seed, [])
                    runs.update({key if ": " in key else f"{before.label}: {key}": earlier
                                 for key, earlier in before.runs.items()})
                    configs.update(before.configs)
                    places["previous"] = before.runs["pretraining"].directory
                elif other in study.runs and other not in runs:
                    add(other)
            # Configurations and studies with the same flags and data share a directory.
            used = {name: versions.get(name, os.path.basename(places[name])) for name in placeholders(flags)
                    if name in places}
            places[run] = path_of(script, flags, used)
            filling = {**places, "here": places[run]}
            runs[run] = PlannedRun(script, {name: filled(value, filling) for name, value in flags.items()}, places[run])

        for run in ("pretraining", *wanted):
            if run not in runs:
                add(run)
        return Trial(label, seed, configs, runs)

    def path_of(name: str, *of: Any) -> str:
        key = hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:12]
        return os.path.join(output_dir, "runs", f"{name}-{key}")

    return [trial(label, seed, [COLUMNS[column][1] for column in columns]) for seed in study.seeds for label in labels]


def run_trial(trial: Trial) -> bool:
    """Runs those commands of a trial that have not finished, and returns whether there were any."""
    for path, config in trial.configs.items():
        make_directory(os.path.dirname(path))
        write_text(path, config.to_json_string())
    waiting = [run for run in trial.runs.values() if not run.is_finished]
    for run in waiting:
        make_directory(run.directory)
        run_script(run.script, **run.flags)
        write_text(os.path.join(run.directory, FINISHED), "{}\n")
    return bool(waiting)

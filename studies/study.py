"""Reads and checks the files of a study and of a scale.

The name of a setting is "config.FIELD" for a field of AlbertConfig, or "RUN.FLAG" for a run of the scale and a flag of
its script. In "varies", an axis has labels with settings, or is itself a setting with a list of values:

    "varies": {
      "sharing": {"all": {"config.cross_layer_sharing": "all"}, "none": {"config.cross_layer_sharing": "none"}},
      "config.embedding_size": [64, 128]
    }

The study trains all combinations of the axes' values, with each seed. "reference" has a label for some axes: each
configuration is compared with the one that has these labels, and its own labels on the other axes. Without it, each
is compared with the first.

In the flags of a scale's runs, {here} is the run's directory, {RUN} that of another run, {previous} that of the
pre-training of the configuration before, {config} the file of the model's config, {seed} the seed; {text}, {glue_dir}
and so on are the user's data.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
from typing import Any, Iterable

from albert_tf.commands.command_runs import Run, parse_runs
from albert_tf.config import AlbertConfig
from albert_tf.utils.files import check_keys, parse_json_object, read_json_object

FOLDER = pathlib.Path(__file__).parent
SCALES = tuple(sorted(path.stem for path in (FOLDER / "scales").glob("*.json")))
BUILT_IN = ("here", "previous", "config", "seed")  # placeholders that are neither runs nor the user's data
Settings = dict[str, Any]
_CONFIG_FIELDS = frozenset(field.name for field in dataclasses.fields(AlbertConfig))


@dataclasses.dataclass(frozen=True)
class Column:
    """A measured value of a configuration.

    Args:
      title: the title in tables and plots.
      run: the run of the scale whose eval_results.json has the value.
      key: the name of the value in eval_results.json.
      scale: the factor of the shown value; accuracies are shown in percent, as in the paper.
    """

    title: str
    run: str
    key: str
    scale: float = 100.0


COLUMNS = {
    "masked_lm": Column("masked LM", "pretraining", "masked_lm_accuracy"),
    "masked_lm_long": Column("masked LM, long inputs", "pretraining", "dev_long/masked_lm_accuracy"),
    "masked_lm_ngram3": Column("masked LM, n-grams", "pretraining", "dev_ngram3/masked_lm_accuracy"),
    "sop": Column("SOP pairs", "pretraining", "sentence_order_accuracy"),
    "sop_long": Column("SOP pairs, long inputs", "pretraining", "dev_long/sentence_order_accuracy"),
    "nsp": Column("NSP pairs", "pretraining", "dev_nsp/sentence_order_accuracy"),
    "sst2": Column("SST-2", "sst2", "eval_accuracy"),
    "rte": Column("RTE", "rte", "eval_accuracy"),
    "stsb": Column("STS-B, Pearson", "stsb", "pearson"),
    "squad": Column("SQuAD 1.1 F1", "squad", "f1", scale=1.0),
    "blimp": Column("BLiMP", "blimp", "all"),
    "sst2_ensemble": Column("SST-2", "sst2_ensemble", "eval_accuracy"),
}


@dataclasses.dataclass(frozen=True)
class Paper:
    """The paper's section, its finding, and the rows of its table, each with a label and a number for each column."""

    source: str
    finding: str
    columns: list[str] = dataclasses.field(default_factory=list)
    rows: list[list] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Study:
    """A study at one scale.

    Args:
      argument: what `python -m studies` was called with: the name of a study of this folder, or the path of a file.
      scale: name of the scale.
      question, limits: the question of the study, and the questions that the small scale cannot answer.
      paper: the paper's answer.
      columns: names of COLUMNS.
      configurations: all settings by label.
      references: for each label the label of the configuration that it is compared with.
      settings: settings of the study that are the same in all configurations.
      overrides: settings of the command line, which replace the study's.
      seeds: the seeds with which each configuration is trained.
      config: the values of the AlbertConfig, before the settings.
      runs: the runs by name, before the settings.
      about: a short description of the scale.
      training_flops_per_second: measured speed of training; None if nothing was measured.
    """

    argument: str
    scale: str
    question: str
    limits: str
    paper: Paper
    columns: list[str]
    configurations: dict[str, Settings]
    references: dict[str, str]
    settings: Settings
    overrides: Settings
    seeds: list[int]
    config: dict[str, Any]
    runs: dict[str, Run]
    about: str
    training_flops_per_second: float | None

    @property
    def name(self) -> str:
        """The name of the study's file, without folder and ending."""
        return pathlib.Path(self.argument).stem


def study_names() -> list[str]:
    """The studies of this folder."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def read_study(name: str, scale: str, overrides: Settings | None = None) -> Study:
    """Reads a study and its scale.

    Args:
      name: name of a study of this folder, or the path of a study's file.
      scale: a name of SCALES.
      overrides: settings for all configurations, which replace the study's.

    Raises:
      ValueError: there is no such study, or its file is wrong. The message has the file and the key.
    """
    path = FOLDER / f"{name}.json" if name in study_names() else pathlib.Path(name)
    if not path.is_file():
        raise ValueError(f"no study {name!r}: use one of {', '.join(study_names())}, or the path of a study's file")
    if path.stem in study_names() and path.resolve().parent != FOLDER.resolve():
        raise ValueError(f"{path}: rename the file, because its reports would replace those of the study {path.stem!r}")
    scale_path = FOLDER / "scales" / f"{scale}.json"
    content = check_keys(read_json_object(str(path)), str(path),
                         dict(question=str, paper=dict, columns=list, limits=str, scales=dict))
    if scale not in content["scales"]:
        raise ValueError(f"{path}: \"scales\" has no {scale!r}, only {', '.join(content['scales'])}")
    place = f"{path}: scales.{scale}"
    at_scale = check_keys(content["scales"][scale], place, dict(varies=dict),
                          dict(reference=dict, settings=dict, seeds=list))
    of_scale = check_keys(read_json_object(str(scale_path)), str(scale_path),
                          dict(about=str, seeds=list, config=dict, runs=dict),
                          dict(training_flops_per_second=float, measured_on=str))
    runs = parse_runs(of_scale["runs"], str(scale_path), BUILT_IN)
    for column in content["columns"]:
        if column not in COLUMNS:
            raise ValueError(f"{path}: unknown column {column!r}; the known ones are {', '.join(COLUMNS)}")
    common = at_scale.get("settings", {})
    axes = _axes(at_scale["varies"], place)
    configurations = {label: {**common, **settings, **(overrides or {})} for label, settings in _product(axes).items()}
    for label, settings in configurations.items():
        _check_settings(settings, of_scale["config"], runs, f"{place} {label!r}")
    paper = _paper(content["paper"], str(path))
    return Study(
        name, scale, content["question"], content["limits"], paper, content["columns"], configurations,
        _references(axes, at_scale.get("reference"), place), common, overrides or {},
        _seeds(at_scale.get("seeds", of_scale["seeds"]), place), of_scale["config"], runs,
        of_scale["about"], of_scale.get("training_flops_per_second"))


def parse_override(text: str) -> tuple[str, Any]:
    """Parses a setting of the command line, NAME=VALUE. A value that is not JSON is a string.

    Raises:
      ValueError: there is no "=".
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set must be NAME=VALUE, as in pretraining.num_train_steps=100. Received: {text}")
    try:
        return name, parse_json_object(f'{{"value": {value}}}', "--set")["value"]
    except ValueError:
        return name, value


def config_of(study: Study, settings: Settings) -> AlbertConfig:
    """The model of a configuration."""
    return AlbertConfig.from_dict({**study.config, **_part(settings, "config")})


def flags_of(study: Study, settings: Settings, run: str) -> dict[str, Any]:
    """The flags of a run of a configuration, with their placeholders."""
    return {**study.runs[run].flags, **_part(settings, run)}


def _part(settings: Settings, owner: str) -> dict[str, Any]:
    """The settings of the config or of one run, by the name of the field or flag."""
    split = {tuple(name.split(".", 1)): value for name, value in settings.items()}
    return {name: value for (of, name), value in split.items() if of == owner}


def _axes(varies: dict, place: str) -> dict[str, dict[str, Settings]]:
    """The axes, each with its labels and their settings."""
    axes = {}
    for axis, levels in varies.items():
        if isinstance(levels, list):
            levels = {_label(value): {axis: value} for value in levels}
        if not isinstance(levels, dict) or not levels or not all(isinstance(level, dict) for level in levels.values()):
            raise ValueError(f"{place}.varies: {axis!r} must be a list of values, or an object of labels and settings")
        axes[axis] = levels
    return axes


def _product(axes: dict[str, dict[str, Settings]]) -> dict[str, Settings]:
    """All combinations of the axes' labels, and their settings."""
    combinations = itertools.product(*(levels.items() for levels in axes.values()))
    return {_joined(label for label, _ in levels): {name: value for _, settings in levels
                                                    for name, value in settings.items()} for levels in combinations}


def _references(axes: dict[str, dict[str, Settings]], reference: dict[str, str] | None, place: str) -> dict[str, str]:
    """For the label of each combination, the label of the one that it is compared with."""
    if reference is None:
        reference = {axis: next(iter(levels)) for axis, levels in axes.items()}
    for axis, label in reference.items():
        if label not in axes.get(axis, {}):
            raise ValueError(f"{place}.reference: there is no {label!r} in \"varies\" of {axis!r}")
    return {_joined(labels): _joined(reference.get(axis, label) for axis, label in zip(axes, labels))
            for labels in itertools.product(*axes.values())}


def _joined(labels: Iterable[str]) -> str:
    return ", ".join(labels)


def _label(value) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _check_settings(settings: Settings, config: dict, runs: dict[str, Run], place: str) -> None:
    for name in settings:
        owner, dot, key = name.partition(".")
        if not (dot and key and owner in ("config", *runs)):
            raise ValueError(f"{place}: a setting must be config.FIELD or RUN.FLAG, and RUN one of {', '.join(runs)}. "
                             f"Received: {name!r}")
        if owner == "config" and key not in _CONFIG_FIELDS:
            raise ValueError(f"{place}: the config has no field {key!r}")
    try:
        AlbertConfig.from_dict({**config, **_part(settings, "config")})
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _paper(content: dict, path: str) -> Paper:
    place = f"{path}: paper"
    paper = Paper(**check_keys(content, place, dict(source=str, finding=str), dict(columns=list, rows=list)))
    for row in paper.rows:
        if not (isinstance(row, list) and len(row) == 1 + len(paper.columns)):
            raise ValueError(f"{place}: a row must be a label and a number for each of {len(paper.columns)} columns. "
                             f"Received: {row!r}")
    return paper


def _seeds(seeds: list, place: str) -> list[int]:
    if not seeds or not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds):
        raise ValueError(f"{place}: seeds must be whole numbers, at least one. Received: {seeds!r}")
    return seeds

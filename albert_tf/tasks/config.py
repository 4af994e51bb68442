"""FineTuningConfig: the common options of all commands that fine-tune. This module does not import TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar, Iterable, Mapping, Sequence

from albert_tf.devices import SERVED_PRECISIONS
from albert_tf.options import COMMAS, Config, Requirement
from albert_tf.text.packing import SPECIAL_TOKENS
from albert_tf.training.config import Devices, FineTuningTraining
from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf, Range
from albert_tf.weights.pooling import Pooling
from albert_tf.weights.source import FirstLayers, HeadChoice, Source, TrainedSource


@dataclasses.dataclass(frozen=True, kw_only=True)
class SavedModelExport(Config, group="Export"):
    """A SavedModel to export."""

    export_dir: Annotated[
        str | None, "Directory of a SavedModel to export, which accepts texts (for run_tagging also words), ids, or "
        "serialized tf.Examples. Default: nothing is exported."] = None
    export_precision: Annotated[
        str | None, OneOf(SERVED_PRECISIONS), "Data type of the exported model's computations. Default: the data type "
        "in which this command computes."] = None

    def requirements(self) -> Iterable[Requirement]:  # noqa: D102
        return [*super().requirements(),
                Requirement(("export_precision",), bool(self.export_dir), "--export_dir")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scoring(Config, group="Export"):
    """A dev file on which an export is scored."""

    score_data: Annotated[
        str | None, "Path of a dev file of the model's task, on which the model is scored before and after the export: "
        "SQuAD's JSON, CoNLL for tags, JSON lines for multiple choice; for texts and sentence vectors a file with the "
        "columns of --task_name or --task_config. Default: nothing is scored."] = None
    max_score_drop: Annotated[
        float | None, Range(0.0), "Largest part of the score that an export of --score_data may lose: 0.005 allows "
        "half a per cent. If one loses more, nothing is written. Default: any."] = None
    task_name: Annotated[str | None, "GLUE task of --score_data, such as sst-2."] = None
    task_config: Annotated[
        str | None, "Path of a JSON file that describes another task, as in docs/fine_tuning.md."] = None

    def requirements(self) -> Iterable[Requirement]:  # noqa: D102
        return [*super().requirements(),
                Requirement(("max_score_drop", "task_name", "task_config"), bool(self.score_data), "--score_data")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelToExport(Config):
    """The model that an exporter writes, and its score before and after."""

    scoring: Scoring = Scoring()
    layers: FirstLayers = FirstLayers()
    pooling: Pooling = Pooling()
    head: HeadChoice = HeadChoice()
    source: Source = Source()


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningConfig(SavedModelExport, FirstLayers, group="Runs"):
    """The options of a command that fine-tunes: the runs in output_dir, and the actions on them."""

    ALIASES: ClassVar[Mapping[str, str]] = dict(seed="random_seed")
    HAS_RECIPE: ClassVar[bool] = True
    ACTIONS: ClassVar[tuple[str, ...]] = ("do_train", "do_eval", "do_predict")
    # The largest number of tokens of a new run's rows, and of the steps between two checkpoints, if nothing is set.
    LONGEST: ClassVar[int] = 512
    LARGEST_INTERVAL: ClassVar[int] = 1000
    RELEASE_STEPS: ClassVar[tuple[int, int] | None] = None

    output_dir: Annotated[
        str, "Directory of checkpoints and results. A run that was started there before is continued."]
    source: TrainedSource = TrainedSource()
    training: FineTuningTraining = FineTuningTraining()
    devices: Devices = Devices()
    recipe: Annotated[
        str | None, "Defaults of flags: the name of a file in albert_tf/recipes/ (the paper's hyper-parameters of a "
        "task), or the path of a JSON file of flags. Flags of the command line take precedence."] = None
    do_train: Annotated[bool, "Whether to train."] = False
    do_eval: Annotated[
        bool, "Whether to evaluate. With --do_train, each checkpoint is evaluated when it is saved, and initial "
        "weights that can do the task already are evaluated first, as step 0. Without it, the checkpoints of all runs "
        "in --output_dir are evaluated, or --init_checkpoint if there are none."] = False
    do_predict: Annotated[
        bool, "Whether to predict, with the best run in --output_dir (its best checkpoint, or its latest one if it was "
        "not evaluated), or with --init_checkpoint if there is no run."] = False
    max_seq_length: Annotated[
        int | None, bounds.SEQ_LENGTH.at_least(SPECIAL_TOKENS + 1), "Largest number of tokens of an input sequence, "
        "including special tokens. A run in --output_dir that is not trained further keeps the length that it was "
        "trained with. Default: the length of the run in --output_dir; for a new run 512 (run_squad: 384; run_tagging "
        "and run_sentence_embeddings: 128), or the model's max_position_embeddings if that is smaller."] = None
    pad_to_max_length: Annotated[
        bool, "Whether to pad every batch to --max_seq_length, as in the release. If false, a batch is padded to the "
        "shortest of several lengths that its examples fit in."] = False
    group_by_length: Annotated[
        bool, "Whether the examples of a training batch have similar lengths, which saves the time of padding. If "
        "false, they are drawn at random, as in the release."] = True
    eval_batch_size: Annotated[
        int, bounds.BATCH_SIZE, "Number of examples in an evaluation step, summed over all devices."] = 8
    predict_batch_size: Annotated[
        int, bounds.BATCH_SIZE, "Number of examples in a prediction step, summed over all devices."] = 8
    cached_dir: Annotated[
        str | None, "Directory in which features are cached as records. Default: --output_dir."] = None
    num_runs: Annotated[
        int, bounds.RUNS, "Number of runs, with the seeds --random_seed, --random_seed + 1, ... Each run has a "
        "separate directory. The medians of their results are reported, and the best run predicts."] = 1
    ensemble_checkpoints: Annotated[
        tuple[str, ...], COMMAS, "Comma-separated list of checkpoints, to average their predictions. Default: only the "
        "run's checkpoint predicts."] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.export_dir or any(getattr(self, name) for name in self.ACTIONS)):
            raise ValueError(f"nothing to do: set {', '.join(f'--{name}' for name in self.ACTIONS)} or --export_dir")
        if self.export_dir and self.ensemble_checkpoints:
            raise ValueError("--export_dir exports one model, not the --ensemble_checkpoints: set --init_checkpoint to "
                             "one of them")
        for option, actions in self.readers.items():
            action = next((action for action in actions if getattr(self, action)), None)
            if action and not getattr(self, option):
                raise ValueError(f"--{option} is missing: --{action} reads it")
        bounds.SEED.check("random_seed + num_runs - 1", self.seeds[-1])

    @property
    def readers(self) -> Mapping[str, Sequence[str]]:
        """By the option of an input file or folder: the options of the actions that read it."""
        return {}

    def path_of(self, option: str) -> str:
        """The value of an option that an action reads. Raises ValueError if it is not set."""
        path = getattr(self, option)
        if not path:
            raise ValueError(f"--{option} is missing")
        return path

    @property
    def release_steps(self) -> tuple[int, int | None] | None:
        """The release's numbers of steps and (None with a recipe: a tenth) of warm-up steps; None for 3 epochs."""
        if not self.RELEASE_STEPS:
            return None
        return self.RELEASE_STEPS[0], None if self.recipe else self.RELEASE_STEPS[1]

    @property
    def splits(self) -> list[str]:
        """The splits that are trained on and evaluated: train, dev, both or none."""
        return ["train"] * self.do_train + ["dev"] * self.do_eval

    @property
    def cache(self) -> str:
        """The directory in which features are cached."""
        return self.cached_dir or self.output_dir

    @property
    def seeds(self) -> range:
        """The seed of each run."""
        return range(self.training.random_seed, self.training.random_seed + self.num_runs)

    @property
    def batch_sizes(self) -> dict[str, int]:
        """The batch sizes that are used, by the names of their options."""
        sizes = dict(train=self.training.train_batch_size, eval=self.eval_batch_size, predict=self.predict_batch_size)
        return {f"{purpose}_batch_size": size for purpose, size in sizes.items() if self.uses(purpose)}

    @property
    def predicts(self) -> bool:
        """Whether the best checkpoint answers anything."""
        return self.do_predict

    def uses(self, purpose: str) -> bool:
        """Whether batches to train on, to evaluate ("eval") or to predict are made."""
        return getattr(self, f"do_{purpose}")

"""ClassifierConfig: the options of run_classifier. This module does not import TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, ClassVar, Iterable, Mapping, Sequence

from albert_tf.modeling.vectors import MEAN_OR_MAX
from albert_tf.options import Requirement
from albert_tf.tasks.classification.data import find_task
from albert_tf.tasks.classification.table_format import TableFormat, read_table_format
from albert_tf.tasks.config import FineTuningConfig
from albert_tf.training.config import Distillation
from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf, Range


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreDistillation(Distillation, group="Teacher"):
    """Distillation from a model, or from a file of scores."""

    TEACHERS: ClassVar[tuple[str, ...]] = ("teacher_checkpoint", "teacher_scores")

    teacher_scores: Annotated[
        str | None, "Path of the scores of the training examples by any model, instead of --teacher_checkpoint: row i "
        "has the logits of example i (before softmax or sigmoid), or its score in a regression. An .npy file with "
        "an array of floating-point numbers, a .safetensors file with one array, or a .parquet file with one column, "
        "or one column of lists."] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.teacher_scores and self.teacher_checkpoint:
            raise ValueError("--teacher_scores and --teacher_checkpoint exclude each other: set one teacher")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierConfig(FineTuningConfig):
    """Classification or regression of texts or pairs. See FineTuningConfig."""

    ACTIONS: ClassVar[tuple[str, ...]] = (*FineTuningConfig.ACTIONS, "calibrate")
    RELEASE_STEPS: ClassVar[tuple[int, int] | None] = (1000, 0)

    distillation: ScoreDistillation = ScoreDistillation()
    task_name: Annotated[
        str | None, "Name of a GLUE task: cola, mnli, mismnli, mrpc, rte, sst-2, sts-b, qqp, qnli, wnli or ax."] = None
    task_config: Annotated[
        str | None, "Path of a JSON file that describes your task, instead of --task_name: its files, columns, labels "
        "and metrics (docs/fine_tuning.md shows one)."] = None
    data_dir: Annotated[
        str | None, "Folder that contains GLUE's folders (CoLA, MNLI, ...), or the files of --task_config. An export "
        "does not read it."] = None
    classifier_dropout_prob: Annotated[
        float, Range(0.0, 1.0), "Dropout rate, from 0 to 1, of the pooled output in training."] = 0.1
    calibrate: Annotated[
        bool, "Whether to fit, on the dev set, a temperature of the probabilities and, if a text can have several "
        "labels, a threshold for each label. They are stored with the best run in --output_dir, for predictions, "
        "exports and serve."] = False
    predict_split: Annotated[
        str, OneOf(["dev", "test"]), "The split that --do_predict predicts. Predictions of a file with labels are also "
        "scored."] = "test"
    predict_file: Annotated[
        str | None, "Path of any file to predict instead of the file of --predict_split. It has the same columns; "
        "labels are optional."] = None
    excel_separator: Annotated[
        str | None, OneOf([",", ";"]), "Write the predictions (.csv) for Excel: with a byte-order mark and this "
        "separator. With \";\", for languages with a decimal comma, numbers have a decimal comma too. Default: a "
        "plain CSV file."] = None
    threshold_to_export: Annotated[
        float | None, "A number that the exported SavedModel returns with its predictions, for clients that compare "
        "probabilities with it. Default: none."] = None
    long_texts: Annotated[
        str | None, OneOf(["truncate", *MEAN_OR_MAX]), "Handling of texts of more than --max_seq_length tokens. "
        "truncate: their ends are dropped. mean, max: they are split into overlapping windows, and the logits of a "
        "text are the mean or the maximum over its windows. Default: truncate, or if nothing is trained as in the "
        "model's training."] = None
    doc_stride: Annotated[
        int, bounds.SEQ_LENGTH.at_least(0), "Number of tokens from the start of one window of a long text to the start "
        "of the next. Default: 0, half a window."] = 0
    max_windows: Annotated[
        int, bounds.CANDIDATES.at_least(2), "Maximum number of windows of a text. A step needs more memory with more "
        "windows."] = 8

    def requirements(self) -> Iterable[Requirement]:  # noqa: D102
        return [*super().requirements(),
                Requirement(("predict_file", "excel_separator"), self.do_predict, "--do_predict"),
                Requirement(("threshold_to_export",), bool(self.export_dir), "--export_dir"),
                Requirement(("doc_stride", "max_windows"), self.long_texts in MEAN_OR_MAX, "--long_texts=mean or max")]

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.task_name) == bool(self.task_config):
            raise ValueError("set either --task_name, or --task_config for your task")

    def uses(self, purpose: str) -> bool:  # noqa: D102
        return super().uses(purpose) or purpose == "predict" and self.calibrate

    @property
    def readers(self) -> Mapping[str, Sequence[str]]:  # noqa: D102
        return dict(data_dir=["do_train", "do_eval", *["do_predict"] * (self.predict_file is None), "calibrate"])

    @property
    def release_steps(self) -> tuple[int, int | None] | None:  # noqa: D102
        return super().release_steps if self.task_name else None

    def table_format(self) -> TableFormat:
        """The format of task_name or task_config. Raises ValueError if it cannot be read."""
        return read_table_format(self.task_config) if self.task_config else find_task(str(self.task_name))

    @property
    def windows(self) -> dict[str, Any]:
        """The arguments of a classifier that long_texts sets."""
        if self.long_texts in (None, "truncate"):
            return dict(max_windows=1) if self.long_texts else {}
        return dict(window_pooling=self.long_texts, max_windows=self.max_windows, doc_stride=self.doc_stride)

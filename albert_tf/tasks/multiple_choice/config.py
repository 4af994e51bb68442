"""MultipleChoiceConfig: the options of run_race. This module does not import TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar, Mapping, Sequence

from albert_tf.tasks.config import FineTuningConfig
from albert_tf.tasks.multiple_choice.data import FORMATS, SPLITS
from albert_tf.training.config import FineTuningTraining
from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf, Range


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceConfig(FineTuningConfig):
    """Questions with several options, one of them right. See FineTuningConfig."""

    ALIASES: ClassVar[Mapping[str, str]] = dict(FineTuningConfig.ALIASES, num_keep_checkpoint="keep_checkpoint_max")
    LARGEST_INTERVAL: ClassVar[int] = 100
    RELEASE_STEPS: ClassVar[tuple[int, int] | None] = (12000, 1000)

    training: FineTuningTraining = FineTuningTraining(learning_rate=1e-5)
    do_train: bool = True
    do_eval: bool = True
    data_dir: Annotated[
        str | None, "Folder that contains RACE, or the .jsonl files of --data_format=jsonl. An export of a model of "
        "RACE does not need it."] = None
    data_format: Annotated[
        str, OneOf(FORMATS), "race: RACE in its original or the release's layout. jsonl: the files train.jsonl, "
        "dev.jsonl and test.jsonl with one question per line. parquet: train.parquet and so on, with the same "
        "columns."] = "race"
    train_file: Annotated[str | None, "Path of the cached training features. Default: a file in --cached_dir."] = None
    eval_file: Annotated[
        str | None, "Path of the cached features of the dev set. Default: a file in --cached_dir."] = None
    predict_file: Annotated[
        str | None, "Path of the cached features of --predict_split. Default: a file in --cached_dir."] = None
    predict_split: Annotated[
        str, OneOf(SPLITS), "The split that --do_predict predicts. It is also scored if it has answers."] = "test"
    high_only: Annotated[bool, "Whether to use only RACE's questions for high schools."] = False
    middle_only: Annotated[bool, "Whether to use only RACE's questions for middle schools."] = False
    max_qa_length: Annotated[
        int | None, bounds.SEQ_LENGTH, "Largest number of tokens of question and option together. If there are more, "
        "only the last tokens are kept. Default: as in the run in --output_dir, or 128."] = None
    dropout_prob: Annotated[
        float, Range(0.0, 1.0), "Dropout rate, from 0 to 1, of the pooled output in training."] = 0.1

    task_name: Annotated[str, "Has no effect. Scripts for the release can set it."] = "race"

    @property
    def readers(self) -> Mapping[str, Sequence[str]]:  # noqa: D102
        """RACE always has the same number of options. For other data, an export reads it from the files."""
        return dict(data_dir=["do_train", "do_eval", "do_predict", *["export_dir"] * (self.data_format != "race")])

    @property
    def release_steps(self) -> tuple[int, int | None] | None:  # noqa: D102
        return super().release_steps if self.data_format == "race" else None

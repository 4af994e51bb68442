"""MultipleChoiceConfig: the options of run_race. This module does not import TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Mapping, Sequence

from albert_tf import options as fields
from albert_tf.tasks.config import FineTuningConfig
from albert_tf.tasks.multiple_choice.data import FORMATS, SPLITS
from albert_tf.training.config import FineTuningTraining
from albert_tf.utils import bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceConfig(FineTuningConfig):
    """Questions with several options, one of them right. See FineTuningConfig."""

    ALIASES: ClassVar[Mapping[str, str]] = dict(FineTuningConfig.ALIASES, num_keep_checkpoint="keep_checkpoint_max")
    LARGEST_INTERVAL: ClassVar[int] = 100
    RELEASE_STEPS: ClassVar[tuple[int, int] | None] = (12000, 1000)

    training: FineTuningTraining = fields.part(FineTuningTraining, learning_rate=1e-5)
    do_train: bool = fields.inherited(FineTuningConfig, "do_train", True)
    do_eval: bool = fields.inherited(FineTuningConfig, "do_eval", True)
    data_dir: str | None = fields.string(
        None, "Folder that contains RACE, or the .jsonl files of --data_format=jsonl. An export of a model of RACE "
        "does not need it.")
    data_format: str = fields.choice(
        "race", FORMATS, "race: RACE in its original or the release's layout. jsonl: the files train.jsonl, dev.jsonl "
        "and test.jsonl with one question per line. parquet: train.parquet and so on, with the same columns.")
    train_file: str | None = fields.string(
        None, "Path of the cached training features. Default: a file in --cached_dir.")
    eval_file: str | None = fields.string(
        None, "Path of the cached features of the dev set. Default: a file in --cached_dir.")
    predict_file: str | None = fields.string(
        None, "Path of the cached features of --predict_split. Default: a file in --cached_dir.")
    predict_split: str = fields.choice(
        "test", SPLITS, "The split that --do_predict predicts. It is also scored if it has answers.")
    high_only: bool = fields.boolean(False, "Whether to use only RACE's questions for high schools.")
    middle_only: bool = fields.boolean(False, "Whether to use only RACE's questions for middle schools.")
    max_qa_length: int | None = fields.integer(
        None, "Largest number of tokens of question and option together. If there are more, only the last tokens are "
        "kept. Default: as in the run in --output_dir, or 128.", bounds.SEQ_LENGTH)
    dropout_prob: float = fields.number(0.1, "Dropout rate, from 0 to 1, of the pooled output in training.", 0.0, 1.0)

    task_name: str = fields.string("race", "Has no effect. Scripts for the release can set it.")

    @property
    def readers(self) -> Mapping[str, Sequence[str]]:  # noqa: D102
        """RACE always has the same number of options. For other data, an export reads it from the files."""
        return dict(data_dir=["do_train", "do_eval", "do_predict", *["export_dir"] * (self.data_format != "race")])

    @property
    def release_steps(self) -> tuple[int, int | None] | None:  # noqa: D102
        return super().release_steps if self.data_format == "race" else None

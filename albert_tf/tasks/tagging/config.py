"""TaggingConfig: the options of run_tagging. This module does not import TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from albert_tf import options as fields
from albert_tf.tasks.config import FineTuningConfig
from albert_tf.tasks.tagging.data import Columns
from albert_tf.training.config import Distillation
from albert_tf.utils import bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingConfig(FineTuningConfig):
    """Tags of words. See FineTuningConfig."""

    LONGEST: ClassVar[int] = 128
    LARGEST_INTERVAL: ClassVar[int] = 100

    distillation: Distillation = fields.part(Distillation)
    train_file: str | None = fields.string(
        None, "Path of the sentences to train on: one word and its tag per line, and a blank line between sentences. "
        "The tags in this file are the labels of the model.")
    eval_file: str | None = fields.string(
        None, "Path of the sentences that --do_eval evaluates, in the same format as --train_file.")
    predict_file: str | None = fields.string(
        None, "Path of the sentences that --do_predict tags, in the same format as --train_file or without tags.")
    columns: tuple[str, ...] | None = fields.names(
        None, "Numbers of the columns of word and tag, from 0. Negative numbers count from the end of the line. "
        "Default: 1,3 (form and UPOS) for .conllu files, 0,-1 for all others.")
    doc_stride: int | None = fields.integer(
        None, "Number of pieces from the start of one window to the start of the next, for sentences of more than "
        "--max_seq_length tokens; 0: half a window. Default: as in the run in --output_dir, or 0.",
        bounds.SEQ_LENGTH.at_least(0))
    classifier_dropout_prob: float = fields.number(
        0.1, "Dropout rate, from 0 to 1, of the sequence output in training.", 0.0, 1.0)

    @property
    def readers(self):  # noqa: D102
        return dict(train_file=["do_train"], eval_file=["do_eval"], predict_file=["do_predict"])

    @property
    def word_and_tag(self) -> Columns | None:
        """The columns of word and tag; None for the default of the file's format."""
        if self.columns is None:
            return None
        try:
            word, tag = map(int, self.columns)
        except ValueError as error:
            raise ValueError("--columns must be two numbers, such as 0,-1. Received: "
                             f"{','.join(self.columns)}") from error
        return Columns(word, tag)

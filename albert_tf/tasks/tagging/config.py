"""TaggingConfig: the options of run_tagging. This module does not import TensorFlow."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, ClassVar, Mapping, Sequence

from albert_tf.options import COMMAS
from albert_tf.tasks.config import FineTuningConfig
from albert_tf.tasks.tagging.reading import Columns, NamedColumns
from albert_tf.training.config import Distillation
from albert_tf.utils import bounds
from albert_tf.utils.bounds import Range

_NUMBER = re.compile("-?[0-9]+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingConfig(FineTuningConfig):
    """Tags of words. See FineTuningConfig."""

    LONGEST: ClassVar[int] = 128
    LARGEST_INTERVAL: ClassVar[int] = 100

    distillation: Distillation = Distillation()
    train_file: Annotated[
        str | None, "Path of the sentences to train on: one word and its tag per line, and a blank line between them; "
        "or JSON lines or Parquet with the lists tokens and ner_tags. The tags in this file are the labels of the "
        "model."] = None
    eval_file: Annotated[
        str | None, "Path of the sentences that --do_eval evaluates, in the same format as --train_file."] = None
    predict_file: Annotated[
        str | None, "Path of the sentences that --do_predict tags, in the same format as --train_file or without "
        "tags."] = None
    columns: Annotated[
        tuple[str, ...] | None, COMMAS, "Numbers of the columns of word and tag, from 0; negative ones count from the "
        "end of the line. For JSON lines and Parquet, their names. Default: 1,3 (form and UPOS) for CoNLL-U, 1,-1 if "
        "the first column numbers the words, 0,-1 for other text; tokens,ner_tags for JSON lines and Parquet."] = None
    tag_names: Annotated[
        tuple[str, ...] | None, COMMAS, "Comma-separated names of the tags 0, 1, ..., if JSON lines or Parquet have "
        "numbers of tags, such as O,B-PER,I-PER. Default: the names that the library datasets stores in "
        "Parquet."] = None
    doc_stride: Annotated[
        int | None, bounds.SEQ_LENGTH.at_least(0), "Number of pieces from the start of one window to the start of the "
        "next, for sentences of more than --max_seq_length tokens; 0: half a window. Default: as in the run in "
        "--output_dir, or 0."] = None
    classifier_dropout_prob: Annotated[
        float, Range(0.0, 1.0), "Dropout rate, from 0 to 1, of the sequence output in training."] = 0.1

    @property
    def readers(self) -> Mapping[str, Sequence[str]]:  # noqa: D102
        return dict(train_file=["do_train"], eval_file=["do_eval"], predict_file=["do_predict"])

    @property
    def word_and_tag(self) -> Columns | NamedColumns | None:
        """The columns of word and tag; None for the default of the file's format."""
        if self.columns is None:
            return None
        if len(self.columns) != 2:
            raise ValueError("--columns must be two numbers, such as 0,-1, or two names. Received: "
                             f"{','.join(self.columns)}")
        if all(map(_NUMBER.fullmatch, self.columns)):
            return Columns(*map(int, self.columns))
        return NamedColumns(*self.columns)

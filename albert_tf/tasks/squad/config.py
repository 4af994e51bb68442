"""SquadConfig: the options of run_squad. This module does not import TensorFlow."""

from __future__ import annotations

import dataclasses
import os
from typing import ClassVar, Mapping, Sequence

from albert_tf import options as fields
from albert_tf.tasks.config import FineTuningConfig
from albert_tf.tasks.squad.reading import VERSIONS
from albert_tf.training.config import Distillation
from albert_tf.utils import bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadConfig(FineTuningConfig):
    """Question answering: files, features, answers and scores. See FineTuningConfig."""

    ACTIONS: ClassVar[tuple[str, ...]] = (*FineTuningConfig.ACTIONS, "ask")
    LONGEST: ClassVar[int] = 384

    distillation: Distillation = fields.part(Distillation)
    train_file: str | None = fields.string(
        None, "Path of the SQuAD JSON file to train on, or of JSON lines or Parquet with the rows of Hugging Face.")
    predict_file: str | None = fields.string(
        None, "Path of the file that --do_predict and --do_eval predict, in the same format as --train_file. It is "
        "scored if it has answers.")
    squad_version: str | None = fields.choice(
        None, VERSIONS, "SQuAD version, which sets the head, the loss and the scores. Default: the version of the "
        "files, or for --ask and --export_dir the weights' version.")
    train_feature_file: str | None = fields.string(
        None, "Path of the cached training features. Default: a file in --cached_dir.")
    n_best_size: int = fields.integer(
        20, "Number of answers per question in nbest_predictions.json.", bounds.CANDIDATES)
    max_answer_length: int = fields.integer(30, "Largest number of pieces of an answer.", bounds.SEQ_LENGTH)
    start_n_top: int = fields.integer(5, "SQuAD 2.0: number of answer starts in the beam.", bounds.CANDIDATES)
    end_n_top: int = fields.integer(
        5, "SQuAD 2.0: number of answer ends for each start in the beam.", bounds.CANDIDATES)
    dropout_prob: float = fields.number(
        0.1, "SQuAD 2.0: dropout rate, from 0 to 1, of the answerability head in training.", 0.0, 1.0)
    null_score_diff_threshold: float | None = fields.number(
        None, "SQuAD 2.0: a question is answered unless its null score is above this threshold. The run stores it "
        "for its exports. Default: the threshold with the best F1 on --predict_file; if that has no answers, the "
        "stored one, or 0 if none is stored.")
    release_compatible: bool = fields.boolean(
        False, "Whether to do as the release: questions are left out if their paragraph cannot be aligned, a question "
        "with a null score equal to the best threshold is not answered, and scores count a question with a null score "
        "above 1 as not answered.")
    count_characters: bool = fields.boolean(
        False, "Whether answers are also scored by characters, as CMRC 2018 does for Chinese: exact_match_characters, "
        "and f1_characters, which then selects the best checkpoint.")
    ask: bool = fields.boolean(
        False, "Whether to answer questions about --context_file that are read from standard input, one per line.")
    context_file: str | None = fields.string(None, "Path of the text file about which --ask answers questions.")
    doc_stride: int | None = fields.integer(
        None, "Number of pieces from the start of one window of a paragraph to the start of the next. Default: as in "
        "the run in --output_dir, or 128, or the pieces of a window if they are fewer.", bounds.SEQ_LENGTH)
    max_query_length: int | None = fields.integer(
        None, "Largest number of pieces of a question; longer questions are truncated. Default: as in the run in "
        "--output_dir, or 64.", bounds.SEQ_LENGTH)
    num_workers: int = fields.integer(
        max(1, min(8, os.cpu_count() or 1)), "Number of processes that make features.", bounds.WORKERS)

    predict_feature_file: str | None = fields.string(
        None, "Has no effect: the features of --predict_file are made anew, in memory. Scripts for the release can set "
        "it.")
    predict_feature_left_file: str | None = fields.string(
        None, "Has no effect, like --predict_feature_file. Scripts for the release can set it.")
    use_einsum: bool = fields.boolean(True, "Has no effect. Scripts for the release can set it.")

    def uses(self, purpose: str) -> bool:  # noqa: D102
        return super().uses(purpose) or purpose == "eval" and self.do_train and self.do_predict

    @property
    def readers(self) -> Mapping[str, Sequence[str]]:  # noqa: D102
        return dict(train_file=["do_train"], predict_file=["do_eval", "do_predict"], context_file=["ask"])

"""SquadConfig: the options of run_squad. This module does not import TensorFlow."""

from __future__ import annotations

import dataclasses
import os
from typing import Annotated, ClassVar, Mapping, Sequence

from albert_tf.tasks.config import FineTuningConfig
from albert_tf.tasks.squad.reading import VERSIONS
from albert_tf.training.config import Distillation
from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf, Range


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadConfig(FineTuningConfig):
    """Question answering: files, features, answers and scores. See FineTuningConfig."""

    ACTIONS: ClassVar[tuple[str, ...]] = (*FineTuningConfig.ACTIONS, "ask")
    LONGEST: ClassVar[int] = 384

    distillation: Distillation = Distillation()
    train_file: Annotated[
        str | None, "Path of the SQuAD JSON file to train on, or of JSON lines or Parquet with the rows of Hugging "
        "Face."] = None
    predict_file: Annotated[
        str | None, "Path of the file that --do_predict and --do_eval predict, in the same format as --train_file. It "
        "is scored if it has answers."] = None
    squad_version: Annotated[
        str | None, OneOf(VERSIONS), "SQuAD version, which sets the head, the loss and the scores. Default: the "
        "version of the files, or for --ask and --export_dir the version of the weights."] = None
    train_feature_file: Annotated[
        str | None, "Path of the cached training features. Default: a file in --cached_dir."] = None
    n_best_size: Annotated[int, bounds.CANDIDATES, "Number of answers per question in nbest_predictions.json."] = 20
    max_answer_length: Annotated[int, bounds.SEQ_LENGTH, "Largest number of pieces of an answer."] = 30
    start_n_top: Annotated[int, bounds.CANDIDATES, "SQuAD 2.0: number of answer starts in the beam."] = 5
    end_n_top: Annotated[int, bounds.CANDIDATES, "SQuAD 2.0: number of answer ends for each start in the beam."] = 5
    dropout_prob: Annotated[
        float, Range(0.0, 1.0), "SQuAD 2.0: dropout rate, from 0 to 1, of the answerability head in training."] = 0.1
    null_score_diff_threshold: Annotated[
        float | None, "SQuAD 2.0: a question is answered unless its null score is above this threshold. The run stores "
        "it for its exports. Default: the threshold with the best F1 on --predict_file; if that has no answers, the "
        "stored one, or 0 if none is stored."] = None
    release_compatible: Annotated[
        bool, "Whether to do as the release: questions are left out if their paragraph cannot be aligned, a question "
        "with a null score equal to the best threshold is not answered, and scores count a question with a null score "
        "above 1 as not answered."] = False
    count_characters: Annotated[
        bool, "Whether answers are also scored by characters, as CMRC 2018 does for Chinese: exact_match_characters, "
        "and f1_characters, which then selects the best checkpoint."] = False
    ask: Annotated[
        bool, "Whether to answer questions about --context_file that are read from standard input, one per "
        "line."] = False
    context_file: Annotated[str | None, "Path of the text file about which --ask answers questions."] = None
    doc_stride: Annotated[
        int | None, bounds.SEQ_LENGTH, "Number of pieces from the start of one window of a paragraph to the start of "
        "the next. Default: as in the run in --output_dir, or 128, or the pieces of a window if they are fewer."] = None
    max_query_length: Annotated[
        int | None, bounds.SEQ_LENGTH, "Largest number of pieces of a question; longer questions are truncated. "
        "Default: as in the run in --output_dir, or 64."] = None
    num_workers: Annotated[
        int, bounds.WORKERS, "Number of processes that make features."] = max(1, min(8, os.cpu_count() or 1))

    predict_feature_file: Annotated[
        str | None, "Has no effect: the features of --predict_file are made anew, in memory. Scripts for the release "
        "can set it."] = None
    predict_feature_left_file: Annotated[
        str | None, "Has no effect, like --predict_feature_file. Scripts for the release can set it."] = None
    use_einsum: Annotated[bool, "Has no effect. Scripts for the release can set it."] = True

    @property
    def predicts(self) -> bool:  # noqa: D102
        return self.do_predict or self.ask

    def uses(self, purpose: str) -> bool:  # noqa: D102
        return super().uses(purpose) or purpose == "eval" and self.do_train and self.do_predict

    @property
    def readers(self) -> Mapping[str, Sequence[str]]:  # noqa: D102
        return dict(train_file=["do_train"], predict_file=["do_eval", "do_predict"], context_file=["ask"])

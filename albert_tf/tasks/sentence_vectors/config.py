"""SentenceVectorsConfig: the options of run_sentence_embeddings. This module does not import TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar, Iterable, Mapping, Sequence

from albert_tf.data.rows import text_column_help
from albert_tf.options import Requirement
from albert_tf.tasks.classification.data import find_task
from albert_tf.tasks.classification.table_format import TableFormat, read_table_format
from albert_tf.tasks.config import FineTuningConfig
from albert_tf.tasks.sentence_vectors.data import DROPOUT
from albert_tf.training.config import FineTuningTraining, TeacherConfig
from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf, Range
from albert_tf.weights.pooling import Pooling, Prompt


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceVectorsConfig(Pooling, Prompt, TeacherConfig, FineTuningConfig):
    """Vectors of sentences, scored by their cosines. See FineTuningConfig."""

    LONGEST: ClassVar[int] = 128
    LARGEST_INTERVAL: ClassVar[int] = 100
    RELEASE_STEPS: ClassVar[tuple[int, int] | None] = (1000, 100)

    training: FineTuningTraining = FineTuningTraining(learning_rate=3e-5, train_batch_size=64)
    objective: Annotated[
        str, OneOf(("sts", "pairs", "simcse", "distillation", "tokens")), "Training objective. sts: the cosine of two "
        "texts predicts STS-B's score. pairs: the two texts of a row are nearest to each other in their batch. simcse: "
        f"like pairs, with each line and the same line under another dropout mask (of the rate {DROPOUT} if the config "
        "has no dropout). distillation: the vectors of lines are learned from --teacher_checkpoint or "
        "--teacher_vectors. tokens: the vectors and the hidden states of all tokens are learned from "
        "--teacher_checkpoint, for lines and for pairs of lines. It is a better start for fine-tuning."] = "sts"
    train_file: Annotated[
        str | None, "Path of the training data. For --objective=pairs it is a .tsv or .csv file with two columns and "
        "no header, or JSON lines or Parquet with text_a and text_b. For --objective=simcse, distillation and tokens "
        "it is UTF-8 text, one text on each line, or a table with --text_column."] = None
    text_column: Annotated[str | None, text_column_help("text")] = None
    teacher_vectors: Annotated[
        str | None, "Path of the vectors of the lines or rows of --train_file by any model, of any width, instead of "
        "--teacher_checkpoint: an .npy file with an array of floating-point numbers, a .safetensors file with one "
        "array, or a .parquet file with one column of lists. Row i is the vector of line i, also if lines are "
        "blank."] = None
    num_negatives: Annotated[
        int, bounds.CANDIDATES.at_least(0), "Number of hard negatives of each row of --train_file, for "
        "--objective=pairs: texts that do not belong to the first one. They are the columns after the second one, or "
        "negative_1, negative_2, ... of JSON lines and Parquet."] = 0
    matryoshka_dims: Annotated[
        tuple[int, ...], bounds.WIDTH, "Comma-separated numbers of dimensions, such as 384,192,96. The loss is the sum "
        "over vectors that are truncated to each of them. Default: vectors are trained as a whole."] = ()
    data_dir: Annotated[str | None, "Directory that holds GLUE's STS-B, or the files of --task_config."] = None
    task_config: Annotated[
        str | None, "Path of a JSON file that describes a regression task on two texts, to use instead of STS-B "
        "(docs/fine_tuning.md shows one)."] = None
    best_score: Annotated[float, Range(1e-6), "The task's highest score, which corresponds to a cosine of 1."] = 5.0
    temperature: Annotated[
        float, Range(1e-6), "Softmax temperature of the objectives pairs and simcse: cosines are divided by it."] = 0.05
    whole_batch_negatives: Annotated[
        bool, "Whether the objectives pairs and simcse compare the texts of all micro-batches "
        "(--gradient_accumulation_steps), as if the batch were computed at once. It needs only a micro-batch's memory, "
        "but a step computes vectors twice."] = False

    distillation_depths: Annotated[
        tuple[int, ...], bounds.LAYERS, "Comma-separated numbers of layers, such as 2,3,4. --objective=distillation "
        "then trains the model and the models of its first 2, 3 and 4 layers together; the loss is the mean of their "
        "losses. convert_checkpoint --num_layers cuts the model to such a size. Default: only the whole model is "
        "trained."] = ()

    def requirements(self) -> Iterable[Requirement]:  # noqa: D102
        return [*super().requirements(),
                Requirement(("num_negatives",), self.objective == "pairs", "--objective=pairs"),
                Requirement(("temperature", "whole_batch_negatives"), self.objective in ("pairs", "simcse"),
                            "--objective=pairs or simcse"),
                Requirement(("distillation_depths",), self.objective == "distillation", "--objective=distillation"),
                Requirement(("matryoshka_dims",), self.objective != "tokens", "another --objective than tokens")]

    def __post_init__(self) -> None:
        super().__post_init__()
        learns = self.objective in ("distillation", "tokens")
        if learns != bool(self.teacher_checkpoint) + bool(self.teacher_vectors):
            raise ValueError("--objective=distillation and tokens need one teacher, and other objectives none: set "
                             "either --teacher_checkpoint or --teacher_vectors (for distillation alone)")
        if self.objective == "tokens" and self.teacher_vectors:
            raise ValueError("--objective=tokens needs --teacher_checkpoint instead of --teacher_vectors, which has no "
                             "vectors of tokens")
        # The trainer makes one part, so threads are not divided.
        if self.objective in ("pairs", "simcse") and not self.devices.cpu_parts:
            object.__setattr__(self, "devices", dataclasses.replace(self.devices, cpu_parts=1))

    @property
    def readers(self) -> Mapping[str, Sequence[str]]:  # noqa: D102
        trains_on_scores = self.objective == "sts"
        return dict(data_dir=["do_eval", "do_predict", *["do_train"] * trains_on_scores],
                    train_file=[] if trains_on_scores else ["do_train"])

    @property
    def release_steps(self) -> tuple[int, int | None] | None:  # noqa: D102
        return super().release_steps if self.objective == "sts" and not self.task_config else None

    def scored(self) -> TableFormat:
        """The task that scores the texts: STS-B or task_config. Raises ValueError if it cannot be read."""
        return read_table_format(self.task_config) if self.task_config else find_task("sts-b")

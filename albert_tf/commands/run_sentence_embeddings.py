"""Fine-tunes sentence vectors; evaluates them by Spearman's correlation; exports.

    python -m albert_tf run_sentence_embeddings --objective=sts --data_dir=glue --init_checkpoint=albert_base_v2 \\
        --output_dir=sentences --do_train --do_eval

--objective=sts trains on the scores of STS-B, pairs on texts that belong together (two columns of --train_file, and
hard negatives after them), simcse on single lines of text (--train_file), and distillation on the vectors that
--teacher_checkpoint makes of such lines. If the script is started again with the same flags, training continues from
the latest checkpoint.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from absl import flags

from albert_tf.commands import (
    finetuning_flags as tuning_flags,
    flag_fields as fields,
    shared_flags as shared,
)
from albert_tf.commands.training_flags import TeacherOptions
from albert_tf.tasks.classification.data import find_task
from albert_tf.tasks.classification.task_config import TaskData, load_task_config
from albert_tf.tasks.sentence_vectors.data import DROPOUT
from albert_tf.utils import bounds

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Options(shared.VectorFlags, shared.VectorPrecisionFlags, shared.PromptFlags, TeacherOptions,
              tuning_flags.Options):
    """The flags of this command, and what several flags make; `scored` is STS-B or --task_config."""

    LARGEST_INTERVAL = 100

    scored: TaskData = fields.made()
    objective: str = fields.choice(
        "sts", ("sts", "pairs", "simcse", "distillation"),
        "Training objective. sts: the cosine of two texts predicts STS-B's score. "
        "pairs: the two texts of a row are nearest to each other in their batch. simcse: like pairs, with each line "
        f"and the same line under another dropout mask (of the rate {DROPOUT} if the config has no dropout). "
        "distillation: the vector of each line is that of --teacher_checkpoint.")
    train_file: str | None = fields.string(
        None, "Path of the training data. For --objective=pairs it is a .tsv or .csv file with two columns and no "
        "header, or JSON lines or Parquet with text_a and text_b. For --objective=simcse and distillation it is UTF-8 "
        "text, one text on each line, or a table with --text_column.")
    text_column: str | None = shared.text_column("text")
    num_negatives: int = fields.integer(
        0, "Number of hard negatives of each row of --train_file, for --objective=pairs: texts that do not belong to "
        "the first one. They are the columns after the second one, or negative_1, negative_2, ... of JSON lines and "
        "Parquet.", bounds.CANDIDATES.at_least(0), needs="objective=pairs")
    matryoshka_dims: tuple[int, ...] = fields.whole_numbers(
        (), "Comma-separated numbers of dimensions, such as 384,192,96. The loss is the sum over vectors that are "
        "truncated to each of them. Default: vectors are trained as a whole.", bounds.WIDTH)
    data_dir: str | None = fields.string(None, "Directory that holds GLUE's STS-B, or the files of --task_config.")
    task_config: str | None = fields.string(
        None, "Path of a JSON file that describes a regression task on two texts, to use instead of STS-B; see "
        "albert_tf/tasks/classification/task_config.py.")
    best_score: float = fields.number(5.0, "The task's highest score, which corresponds to a cosine of 1.", 1e-6)
    temperature: float = fields.number(
        0.05, "Number by which cosines are divided, for the objectives pairs and simcse.", 1e-6,
        needs="objective=pairs,simcse")
    whole_batch_negatives: bool = fields.boolean(
        False, "Whether the objectives pairs and simcse compare the texts of all micro-batches "
        "(--gradient_accumulation_steps) and parts (--cpu_parts) of a device, as if the batch were computed at once. "
        "The memory is that of a micro-batch, and a step computes vectors twice.", needs="objective=pairs,simcse")

    distillation_cosines: float = fields.number(
        0.0, "Weight in the loss of --objective=distillation of the squared differences between the cosines of the "
        "texts of a batch and those of the teacher's vectors.", 0.0, needs="objective=distillation")
    distillation_tokens: float = fields.number(
        0.0, "Weight in the loss of --objective=distillation of the relative squared distance of the last layer's "
        "outputs from the teacher's, whose vocabulary must be the same. The teacher's are kept in memory and in "
        "--cached_dir: 1.5 GB for a million tokens of 384 numbers.", 0.0, needs="objective=distillation")

    distillation_depths: tuple[int, ...] = fields.whole_numbers(
        (), "Comma-separated numbers of layers, such as 2,3,4. The loss of --objective=distillation is the mean of "
        "those of the model and of the models of its first 2, 3 and 4 layers, to which convert_checkpoint --num_layers "
        "cuts it. Default: the model is trained as a whole.", bounds.LAYERS, needs="objective=distillation")

    @functools.cached_property
    def vector_pooling(self) -> dict[str, Any]:
        """The arguments of the sentence encoder for its pooling."""
        return shared.sentence_pooling(self.model, self)

    @property
    def readers(self):
        trains_on_scores = self.objective == "sts"
        return dict(data_dir=["do_eval", "do_predict", *["do_train"] * trains_on_scores],
                    train_file=[] if trains_on_scores else ["do_train"])


def define_flags() -> None:
    tuning_flags.define_flags(Options, max_seq_length=128, learning_rate=3e-5, train_batch_size=64)


def options_from_flags() -> Options:
    model = tuning_flags.set_defaults("sentence_encoder")
    of_a_batch = FLAGS.objective in ("pairs", "simcse")  # the other texts of a part are the negatives
    if (FLAGS.objective == "distillation") != bool(FLAGS.teacher_checkpoint):
        raise ValueError("--objective=distillation and --teacher_checkpoint need each other: set both or neither")
    scored = load_task_config(FLAGS.task_config) if FLAGS.task_config else find_task("sts-b")
    release_steps = (1000, 100) if FLAGS.objective == "sts" and not FLAGS.task_config else None
    return tuning_flags.options_from_flags(Options, model, release_steps=release_steps, scored=scored,
                                           cpu_parts=FLAGS.cpu_parts or int(of_a_batch))


def main() -> None:
    from albert_tf.tasks.sentence_vectors.fine_tuning import SentenceEmbeddings

    SentenceEmbeddings(options_from_flags()).run()

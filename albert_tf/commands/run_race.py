"""Fine-tunes ALBERT on RACE or other multiple choice; evaluates, predicts, exports.

    python -m albert_tf run_race --data_dir=data --init_checkpoint=albert_base_v2 --output_dir=race --recipe=race_v2 \\
        --do_predict

    python -m albert_tf run_race --data_dir=mine --data_format=jsonl --init_checkpoint=albert_base_v2 \\
        --output_dir=mine_trained

If it is started again with the same flags, training continues from the latest checkpoint.
albert_tf/tasks/multiple_choice/data.py shows the JSON lines.
"""

from __future__ import annotations

import dataclasses

from absl import flags

from albert_tf.commands import finetuning_flags as tuning_flags, flag_fields as fields
from albert_tf.tasks.multiple_choice.data import FORMATS, SPLITS
from albert_tf.utils import bounds

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Options(tuning_flags.Options):
    """The flags of this command."""

    LARGEST_INTERVAL = 100

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
        "kept. Default: that of the run in --output_dir, or 128.", bounds.SEQ_LENGTH)
    dropout_prob: float = fields.number(0.1, "Dropout rate, from 0 to 1, of the pooled output in training.", 0.0, 1.0)

    task_name: str = fields.string("race", "Has no effect. Scripts for the release can set it.")

    @property
    def readers(self):
        """RACE always has the same number of options; other data tell it to an export."""
        return dict(data_dir=["do_train", "do_eval", "do_predict", *["export_dir"] * (self.data_format != "race")])


def define_flags() -> None:
    tuning_flags.define_flags(Options, max_seq_length=512, learning_rate=1e-5, do_train=True, do_eval=True)
    fields.define_alias("num_keep_checkpoint", "keep_checkpoint_max")


def options_from_flags() -> Options:
    model = tuning_flags.set_defaults("multiple_choice")
    release_steps = (12000, 1000) if FLAGS.data_format == "race" else None
    return tuning_flags.options_from_flags(Options, model, release_steps=release_steps)


def main() -> None:
    from albert_tf.tasks.multiple_choice.fine_tuning import MultipleChoice

    MultipleChoice(options_from_flags()).run()

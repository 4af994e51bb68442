"""Fine-tunes ALBERT to tag words, such as names; evaluates, predicts, exports.

    python -m albert_tf run_tagging --train_file=train.conll --eval_file=dev.conll --predict_file=test.conll \\
        --init_checkpoint=albert_base_v2 --output_dir=tagger --recipe=tagging --do_train --do_eval --do_predict

albert_tf/tasks/tagging/data.py describes the files. If the script is started again with the same flags, training
continues from the latest checkpoint.
"""

from __future__ import annotations

import dataclasses

from absl import flags

from albert_tf.commands import finetuning_flags as tuning_flags, flag_fields as fields
from albert_tf.commands.training_flags import DistillationOptions
from albert_tf.tasks.tagging.data import (
    Columns,
)
from albert_tf.utils import bounds

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Options(DistillationOptions, tuning_flags.Options):
    """The flags of this command."""

    LARGEST_INTERVAL = 100

    train_file: str | None = fields.string(
        None, "Path of the sentences to train on: one word and its tag per line, and a blank line between sentences. "
        "The tags in this file are the labels of the model.")
    eval_file: str | None = fields.string(
        None, "Path of the sentences that --do_eval evaluates, in the same format as --train_file.")
    predict_file: str | None = fields.string(
        None, "Path of the sentences that --do_predict tags, in the same format as --train_file or without tags.")
    columns: Columns | None = fields.names(
        None, "Numbers of the columns of word and tag, from 0. Negative numbers count from the end of the line. "
        "Default: 1,3 (form and UPOS) for .conllu files, 0,-1 for all others.")
    doc_stride: int | None = fields.integer(
        None, "Number of pieces from the start of one window to the start of the next, for sentences of more than "
        "--max_seq_length tokens; 0: half a window. Default: that of the run in --output_dir, or 0.",
        bounds.SEQ_LENGTH.at_least(0))
    label_all_pieces: bool | None = fields.boolean(
        None, "Whether all pieces of a word have its tag in training, and the prediction is their mean. If false, only "
        "the first piece of a word has its tag. Default: false, or as in the model's training if nothing is trained.")
    classifier_dropout_prob: float = fields.number(
        0.1, "Dropout rate, from 0 to 1, of the sequence output in training.", 0.0, 1.0)

    @property
    def readers(self):
        return dict(train_file=["do_train"], eval_file=["do_eval"], predict_file=["do_predict"])


def define_flags() -> None:
    tuning_flags.define_flags(Options, max_seq_length=128)


def options_from_flags() -> Options:
    model = tuning_flags.set_defaults("token_classifier")
    columns = None
    if FLAGS.columns is not None:
        try:
            word, tag = map(int, FLAGS.columns)
        except ValueError as error:
            raise ValueError("--columns must be two numbers, such as 0,-1. Received: "
                             f"{','.join(FLAGS.columns)}") from error
        columns = Columns(word, tag)
    return tuning_flags.options_from_flags(Options, model, columns=columns)


def main() -> None:
    from albert_tf.tasks.tagging.fine_tuning import Tagging

    Tagging(options_from_flags()).run()

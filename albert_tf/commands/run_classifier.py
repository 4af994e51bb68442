"""Fine-tunes ALBERT on a GLUE task or one of your own; evaluates, predicts, exports.

    python -m albert_tf run_classifier --task_name=rte --data_dir=glue --init_checkpoint=albert_base_v2 \\
        --output_dir=rte --recipe=rte --do_train --do_eval --do_predict

If it is started again with the same flags, training continues from the latest checkpoint. run_glue.py runs all tasks of
a folder.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from absl import flags

from albert_tf.commands import finetuning_flags as tuning_flags, flag_fields as fields
from albert_tf.commands.training_flags import DistillationOptions
from albert_tf.modeling.vectors import MEAN_OR_MAX
from albert_tf.tasks.classification.data import find_task
from albert_tf.tasks.classification.task_config import TaskData, load_task_config
from albert_tf.utils import bounds

FLAGS = flags.FLAGS
_LONG_TEXTS = ("window_pooling", "max_windows", "doc_stride")  # what --long_texts tells a classifier


@dataclasses.dataclass(frozen=True)
class Options(DistillationOptions, tuning_flags.Options):
    """The flags of this command; `task` and `windows` are made from several flags."""

    task: TaskData = fields.made()
    windows: dict[str, Any] = fields.made()
    task_name: str | None = fields.string(
        None, "Name of a GLUE task: cola, mnli, mismnli, mrpc, rte, sst-2, sts-b, qqp, qnli, wnli or ax.")
    task_config: str | None = fields.string(
        None, "Path of a JSON file that describes a task of your own, instead of --task_name: its files, columns, "
        "labels and metrics (docs/fine_tuning.md shows one).")
    data_dir: str | None = fields.string(None, "Folder that contains GLUE's folders (CoLA, MNLI, ...), or the files of "
                                         "--task_config. An export does not read it.")
    classifier_dropout_prob: float = fields.number(0.1, "Dropout rate, from 0 to 1, of the pooled output in training.",
                                                   0.0, 1.0)
    focal_gamma: float = fields.number(0.0, "Exponent of the focal loss (Lin et al., 2017), which gives texts that the "
                                       "model already labels correctly less weight in training; 2 is usual. 0: no "
                                       "focal loss.", 0.0, 10.0)
    calibrate: bool = fields.boolean(False, "Whether to fit, on the dev set, a temperature of the probabilities and, "
                                     "if a text can have several labels, a threshold for each label. They are stored "
                                     "with the best run in --output_dir, for predictions, exports and serve.")
    predict_split: str = fields.choice("test", ["dev", "test"], "The split that --do_predict predicts.")
    excel_separator: str | None = fields.choice(
        None, [",", ";"], "Write the predictions (.csv) for Excel: with a byte-order mark and this separator, \";\" in "
        "languages with a decimal comma, which numbers then have. Default: a plain CSV file.", needs="do_predict")
    threshold_to_export: float | None = fields.number(None, "A number that the exported SavedModel returns with its "
                                                      "predictions, for clients that compare probabilities with it. "
                                                      "Default: none.", needs="export_dir")
    long_texts: str | None = fields.choice(
        None, ["truncate", *MEAN_OR_MAX], "Handling of texts of more than --max_seq_length tokens. truncate: their "
        "ends are dropped. mean, max: they are split into overlapping windows, and the logits of a text are the mean "
        "or the maximum over its windows. Default: truncate, or if nothing is trained as in the model's training.")
    doc_stride: int = fields.integer(0, "Number of tokens from the start of one window of a long text to the start of "
                                     "the next. Default: 0, half a window.", bounds.SEQ_LENGTH.at_least(0),
                                     needs="long_texts=mean,max")
    max_windows: int = fields.integer(8, "Maximum number of windows of a text. A step needs more memory with more "
                                      "windows.", bounds.CANDIDATES.at_least(2), needs="long_texts=mean,max")

    @property
    def readers(self):
        return dict(data_dir=["do_train", "do_eval", "do_predict", "calibrate"])


def define_flags() -> None:
    tuning_flags.define_flags(Options, max_seq_length=512)


def options_from_flags() -> Options:
    model = tuning_flags.set_defaults("classifier")
    if bool(FLAGS.task_name) == bool(FLAGS.task_config):
        raise ValueError("set either --task_name, or --task_config for a task of your own")
    task = load_task_config(FLAGS.task_config) if FLAGS.task_config else find_task(FLAGS.task_name)
    requested: dict[str, Any] = {}
    if FLAGS.long_texts == "truncate":
        requested = dict(max_windows=1)
    elif FLAGS.long_texts:
        requested = dict(window_pooling=FLAGS.long_texts, max_windows=FLAGS.max_windows, doc_stride=FLAGS.doc_stride)
    windows = {name: model.reconciled(name, requested.get(name), "long_texts") for name in _LONG_TEXTS}
    windows = {name: value for name, value in windows.items() if value is not None}
    return tuning_flags.options_from_flags(
        Options, model, ["calibrate"], (1000, 0) if FLAGS.task_name else None, task=task, windows=windows)


def main() -> None:
    from albert_tf.tasks.classification.fine_tuning import TextClassification

    TextClassification(options_from_flags()).run()

"""Pre-trains ALBERT on records of create_pretraining_data.py, and evaluates it.

    python -m albert_tf run_pretraining --albert_config_file=albert_base_v2 --input_file='data/train*.tfrecord' \\
        --eval_input_file=data/dev.tfrecord --do_eval --output_dir=model --spm_model_file=30k-clean.model

If it is started again with the same flags, it continues from the latest checkpoint, and ends with exactly the same
weights as without the interruption. The vocabulary is optional: it is copied to --output_dir, where other scripts find
it.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from absl import flags

from albert_tf.commands import flag_fields as fields, shared_flags as shared, training_flags, usage
from albert_tf.commands.training_flags import LayerDistillationOptions
from albert_tf.training.options import RunOptions, Schedule, TrainerOptions, default_interval
from albert_tf.utils import bounds

if TYPE_CHECKING:
    from albert_tf.weights.resolved_model import ResolvedModel

FLAGS = flags.FLAGS
SAVE_CHECKPOINTS_STEPS = 5000  # at most, if the flag is not set


@dataclasses.dataclass(frozen=True)
class Options(shared.ModelFlags, training_flags.TrainingFlags, training_flags.DeviceFlags, LayerDistillationOptions):
    """The flags of this command; `model` is made from several flags."""

    model: ResolvedModel = fields.made()
    num_train_steps: int = fields.integer(125000, "Number of training steps.", bounds.STEPS)
    num_warmup_steps: int = fields.integer(
        3125, "Number of steps in which the learning rate increases from 0 to its peak.", bounds.STEPS.at_least(0))
    start_warmup_step: int = fields.integer(
        0, "The step at which the learning rate's warm-up begins.", bounds.STEPS.at_least(0))
    poly_power: float = fields.number(
        1.0, "Power of the learning rate's polynomial decay. 1: linear decay.", lower_bound=0.0)
    input_file: list[str] = fields.strings(
        None, "Comma-separated list of paths and globs of the training records. Repeat the flag for several sets of "
        "records, whose lengths may differ: each step trains on one of the sets, and a step of shorter examples has "
        "more of them than --train_batch_size, so that all steps have equally many tokens.")
    eval_input_file: list[str] = fields.strings(
        None, "Comma-separated list of paths and globs of records that --do_eval evaluates. Repeat the flag for "
        "several sets: each set is evaluated on its own, at the length of its records, and the first one decides which "
        "checkpoint is the best. Default: --input_file.")
    input_share: list[int] = fields.field(
        flags.DEFINE_multi_integer, None, "Whole number for each --input_file, in the same order: the share of the "
        "steps that train on it. 3 and 1: three of four steps train on the first set. Default: equal shares.",
        *bounds.SHARES)
    max_seq_length: int = fields.integer(
        512, "Length of the examples in the training records, with padding: the --max_seq_length with which they were "
        "made. For several sets: the largest length, a multiple of the others.", bounds.SEQ_LENGTH)
    max_predictions_per_seq: int = fields.integer(
        20, "Length of the lists of masked tokens in the training records, with padding: the --max_predictions_per_seq "
        "with which they were made, or twice that with --do_permutation. For several sets: that of the longest "
        "examples.", bounds.PREDICTIONS)
    dynamic_masking: bool = fields.boolean(
        False, "Whether to draw new masks for the training records in each epoch, by the rules with which the records "
        "were made.")
    masked_lm_budget: float = fields.number(
        0.0, "The release's flag for --dynamic_masking: any number above 0 turns it on.", lower_bound=0.0)
    masked_lm_prob: float | None = fields.number(
        None, "Share of the tokens that --dynamic_masking masks at the start of the training. Default: the share with "
        "which the records were made. Evaluation keeps the masks of its records.", lower_bound=0.0, upper_bound=1.0)
    final_masked_lm_prob: float | None = fields.number(
        None, "Share of the tokens that --dynamic_masking masks at the end of the training. The share changes "
        "linearly, from step to step. Default: it stays the same.", lower_bound=0.0, upper_bound=1.0)
    do_train: bool = fields.boolean(True, "Whether to train.")
    do_eval: bool = fields.boolean(
        False, "Whether to evaluate. With --do_train, each checkpoint is evaluated when it is saved. Without it, the "
        "checkpoints in --output_dir are evaluated, or --init_checkpoint if there are none.")
    eval_batch_size: int = fields.integer(
        64, "Number of examples in an evaluation step, summed over all devices.", bounds.BATCH_SIZE)
    max_eval_steps: int = fields.integer(
        100, "Largest number of steps of an evaluation. 0: all records are evaluated.", bounds.STEPS.at_least(0))
    sentence_objective: str | None = fields.choice(
        None, ["sop", "nsp", "none"], "The sentence objective: sop or nsp for a sentence loss, none for no sentence "
        "loss. Default: the objective with which the records were made.")
    init_from_group0: bool = fields.boolean(
        False, "Whether to initialize the weights of every layer group from group 0 of --init_checkpoint.")

    @functools.cached_property
    def devices(self) -> training_flags.DeviceOptions:
        """On what the command computes."""
        return training_flags.device_options(self, "train", "eval")

    @functools.cached_property
    def run(self) -> RunOptions:
        """Where the run is."""
        return training_flags.run_options(self)

    @property
    def schedule(self) -> Schedule:
        """The steps of the run."""
        return fields.made_from(Schedule, self, save_checkpoints_steps=self.save_checkpoints_steps or default_interval(
            self.num_train_steps, SAVE_CHECKPOINTS_STEPS))

    @functools.cached_property
    def trainer(self) -> TrainerOptions:
        """How it is trained."""
        several = len(self.input_file) > 1
        return training_flags.trainer_options(
            self, self.devices, shapes_vary=several, rows_vary=several, trainable=None, lora_rank=0, lora_alpha=None,
            lora_per_layer=False)

    @property
    def command_line(self) -> str:
        """The command line, for model cards."""
        return usage.command_line()


def define_flags() -> None:
    fields.define_fields(Options, optimizer="lamb", learning_rate=0.00176, train_batch_size=4096)


def options_from_flags() -> Options:
    if not (FLAGS.do_train or FLAGS.do_eval):
        raise ValueError("nothing to do: set --do_train or --do_eval")
    is_dynamic = FLAGS.dynamic_masking or FLAGS.masked_lm_budget > 0
    for name in ("masked_lm_prob", "final_masked_lm_prob"):
        if FLAGS[name].value is not None and not is_dynamic:
            raise ValueError(f"--{name} needs --dynamic_masking: without it, the records' own masks are used")
    input_file = FLAGS.input_file or []
    shares = FLAGS.input_share or [1] * len(input_file)
    if len(shares) != len(input_file):
        raise ValueError(f"--input_share must be set once for each of {len(input_file)} --input_file. "
                         f"Received: {len(shares)} times")
    if not (input_file or FLAGS.eval_input_file and not FLAGS.do_train):
        raise ValueError("--input_file is missing")
    return fields.from_flags(
        Options, model=fields.from_flags(shared.ModelFlags).resolve_model(
            "pretrainer", output_dir=FLAGS.output_dir, do_train=FLAGS.do_train),
        input_file=input_file, input_share=shares,
        eval_input_file=FLAGS.eval_input_file or input_file, dynamic_masking=is_dynamic)


def main() -> None:
    from albert_tf.pretraining.pretrain import pretrain

    pretrain(options_from_flags())

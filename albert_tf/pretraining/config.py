"""PretrainingConfig: what run_pretraining does. This module does not import TensorFlow."""

from __future__ import annotations

import dataclasses

from albert_tf import options as fields
from albert_tf.options import Config
from albert_tf.training.config import Devices, Distillation, Schedule, Training, default_interval
from albert_tf.utils import bounds
from albert_tf.weights.source import TrainedSource

_LARGEST_INTERVAL = 5000  # steps between two checkpoints, if nothing is set


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingSteps(Training, group="Training"):
    """How a model is pre-trained, and for how many steps."""

    num_train_steps: int = fields.integer(125000, "Number of training steps.", bounds.STEPS)
    num_warmup_steps: int = fields.integer(
        3125, "Number of steps in which the learning rate increases from 0 to its peak.", bounds.STEPS.at_least(0))
    start_warmup_step: int = fields.integer(
        0, "The step at which the learning rate's warm-up begins.", bounds.STEPS.at_least(0))
    poly_power: float = fields.number(
        1.0, "Power of the learning rate's polynomial decay. 1: linear decay.", lower_bound=0.0)

    @property
    def schedule(self) -> Schedule:
        """The steps of the run."""
        interval = self.save_checkpoints_steps or default_interval(self.num_train_steps, _LARGEST_INTERVAL)
        return Schedule(self.num_train_steps, self.num_warmup_steps, interval, self.start_warmup_step, self.poly_power)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingConfig(Config):
    """The options of run_pretraining."""

    output_dir: str = fields.required("Directory of checkpoints and results. A run that was started there before is "
                                      "continued.")
    source: TrainedSource = fields.part(TrainedSource)
    training: PretrainingSteps = fields.part(
        PretrainingSteps, optimizer="lamb", learning_rate=0.00176, train_batch_size=4096)
    devices: Devices = fields.part(Devices)
    distillation: Distillation = fields.part(Distillation)
    input_file: str | None = fields.string(
        None, "Comma-separated list of paths and globs of the training records, which must have the same length.")
    eval_input_file: tuple[str, ...] = fields.strings(
        (), "Comma-separated list of paths and globs of records that --do_eval evaluates. Repeat the flag for "
        "several sets: each set is evaluated separately, at the length of its records, and the first one decides which "
        "checkpoint is the best. Default: --input_file.")
    max_seq_length: int = fields.integer(
        512, "Length of the examples in the training records, with padding: --max_seq_length of their creation. An "
        "evaluation uses the length of its records.", bounds.SEQ_LENGTH)
    max_predictions_per_seq: int = fields.integer(
        20, "Number of masked tokens in an example of the training records, with padding: --max_predictions_per_seq of "
        "their creation, or twice as many with --do_permutation.", bounds.PREDICTIONS)
    dynamic_masking: bool = fields.boolean(
        False, "Whether to draw new masks in each epoch, by the rules with which the records were made.")
    masked_lm_budget: float = fields.number(
        0.0, "The release's flag for --dynamic_masking: any number above 0 turns it on.", lower_bound=0.0)
    masked_lm_prob: float | None = fields.number(
        None, "Share of the tokens that --dynamic_masking masks. Default: the share with which the "
        "records were made. Evaluation keeps the masks of its records.", lower_bound=0.0, upper_bound=1.0)
    pack_rows: int = fields.integer(
        0, "Length of the rows of a training batch, as a multiple of the length of the records. Several examples share "
        "a row, so that there is less padding; the losses stay the same. Longer rows have less padding, but each "
        "token is compared with its whole row. 0: each example is a row.", bounds.SHARES.at_least(0))
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
    word_predictions: str = fields.choice(
        "all", ["all", "once"], "With records of phonemes, whether a word is predicted at each of its phonemes, as by "
        "PL-BERT (all), or once, from the mean of its phonemes (once), which takes less time.")
    init_from_group0: bool = fields.boolean(
        False, "Whether to initialize the weights of every layer group from group 0 of --init_checkpoint.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.do_train or self.do_eval):
            raise ValueError("nothing to do: set --do_train or --do_eval")
        if self.masked_lm_prob is not None and not self.draws_masks:
            raise ValueError("--masked_lm_prob needs --dynamic_masking: without it, the masks of the records are used")
        if self.pack_rows and self.devices.strategy == "tpu":
            raise ValueError("--pack_rows is not for a TPU with TensorFlow: use --runtime=jax")
        if not (self.input_file or self.eval_input_file and not self.do_train):
            raise ValueError("--input_file is missing")

    @property
    def draws_masks(self) -> bool:
        """Whether new masks are drawn in each epoch."""
        return self.dynamic_masking or self.masked_lm_budget > 0

    @property
    def batch_sizes(self) -> dict[str, int]:
        """The batch sizes that are used, by the names of their options."""
        sizes = dict(train=self.training.train_batch_size, eval=self.eval_batch_size)
        return {f"{purpose}_batch_size": size for purpose, size in sizes.items() if getattr(self, f"do_{purpose}")}

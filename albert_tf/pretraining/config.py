"""PretrainingConfig: what run_pretraining does. This module does not import TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from albert_tf.options import Config
from albert_tf.training.config import Devices, Distillation, Schedule, Training, default_interval
from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf, Range
from albert_tf.weights.source import TrainedSource

_LARGEST_INTERVAL = 5000  # steps between two checkpoints, if nothing is set


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingSteps(Training, group="Training"):
    """How a model is pre-trained, and for how many steps."""

    num_train_steps: Annotated[int, bounds.STEPS, "Number of training steps."] = 125000
    num_warmup_steps: Annotated[
        int, bounds.STEPS.at_least(0), "Number of steps in which the learning rate increases from 0 to its "
        "peak."] = 3125
    start_warmup_step: Annotated[
        int, bounds.STEPS.at_least(0), "The step at which the learning rate's warm-up begins."] = 0
    poly_power: Annotated[float, Range(0.0), "Power of the learning rate's polynomial decay. 1: linear decay."] = 1.0

    @property
    def schedule(self) -> Schedule:
        """The steps of the run."""
        interval = self.save_checkpoints_steps or default_interval(self.num_train_steps, _LARGEST_INTERVAL)
        return Schedule(self.num_train_steps, self.num_warmup_steps, interval, self.start_warmup_step, self.poly_power)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingConfig(Config):
    """The options of run_pretraining."""

    output_dir: Annotated[
        str, "Directory of checkpoints and results. A run that was started there before is continued."]
    source: TrainedSource = TrainedSource()
    training: PretrainingSteps = PretrainingSteps(optimizer="lamb", learning_rate=0.00176, train_batch_size=4096)
    devices: Devices = Devices()
    distillation: Distillation = Distillation()
    input_file: Annotated[
        str | None, "Comma-separated list of paths and globs of the training records, which must have the same "
        "length."] = None
    eval_input_file: Annotated[
        tuple[str, ...], "Comma-separated list of paths and globs of records that --do_eval evaluates. Repeat the flag "
        "for several sets: each set is evaluated separately, at the length of its records, and the first one decides "
        "which checkpoint is the best. Default: --input_file."] = ()
    max_seq_length: Annotated[
        int, bounds.SEQ_LENGTH, "Length of the examples in the training records, with padding: --max_seq_length of "
        "their creation. An evaluation uses the length of its records."] = 512
    max_predictions_per_seq: Annotated[
        int, bounds.PREDICTIONS, "Number of masked tokens in an example of the training records, with padding: "
        "--max_predictions_per_seq of their creation, or twice as many with --do_permutation."] = 20
    dynamic_masking: Annotated[
        bool, "Whether to draw new masks in each epoch, by the rules with which the records were made."] = False
    masked_lm_budget: Annotated[
        float, Range(0.0), "The release's flag for --dynamic_masking: any number above 0 turns it on."] = 0.0
    masked_lm_prob: Annotated[
        float | None, Range(0.0, 1.0), "Share of the tokens that --dynamic_masking masks. Default: the share with "
        "which the records were made. Evaluation keeps the masks of its records."] = None
    pack_rows: Annotated[
        int, bounds.SHARES.at_least(0), "Length of the rows of a training batch, as a multiple of the length of the "
        "records. Several examples share a row, so that there is less padding; the losses stay the same. Longer rows "
        "have less padding, but each token is compared with its whole row. 0: each example is a row."] = 0
    do_train: Annotated[bool, "Whether to train."] = True
    do_eval: Annotated[
        bool, "Whether to evaluate. With --do_train, each checkpoint is evaluated when it is saved, and initial "
        "weights with the heads of pre-training first, as step 0. Without it, the checkpoints in --output_dir are "
        "evaluated, or --init_checkpoint if there are none."] = False
    eval_batch_size: Annotated[
        int, bounds.BATCH_SIZE, "Number of examples in an evaluation step, summed over all devices."] = 64
    max_eval_steps: Annotated[
        int, bounds.STEPS.at_least(0), "Largest number of steps of an evaluation. 0: all records are evaluated."] = 100
    sentence_objective: Annotated[
        str | None, OneOf(["sop", "nsp", "none"]), "The sentence objective: sop or nsp for a sentence loss, none for "
        "no sentence loss. Default: the objective with which the records were made."] = None
    word_predictions: Annotated[
        str, OneOf(["all", "once"]), "With records of phonemes, whether a word is predicted at each of its phonemes, "
        "as by PL-BERT (all), or once, from the mean of its phonemes (once), which takes less time."] = "all"
    init_from_group0: Annotated[
        bool, "Whether to initialize the weights of every layer group from group 0 of --init_checkpoint."] = False

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

"""The flags that the training scripts share, and what they say as values: the only file here that reads FLAGS."""

from __future__ import annotations

import tensorflow as tf
from absl import flags

from albert_tf.config import AlbertConfig
from albert_tf.training.optimizer import OPTIMIZERS, create_optimizer
from albert_tf.training.run import RunOptions, steps_per_execution
from albert_tf.training.strategy import STRATEGIES, TpuAddress, create_strategy
from albert_tf.training.trainer import Trainer

FLAGS = flags.FLAGS
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")


def define_model_flags() -> None:
    flags.DEFINE_string("albert_config_file", None, "The model's albert_config.json.")
    flags.DEFINE_string("init_checkpoint", None,
                        "Where the weights start: a directory or checkpoint, of the release or ours.")
    flags.DEFINE_float("hidden_dropout_prob", None, "Overrides the config's.")
    flags.DEFINE_float("attention_probs_dropout_prob", None, "Overrides the config's.")


def define_training_flags(
    optimizer: str, learning_rate: float, train_batch_size: int, save_checkpoints_steps: int
) -> None:
    """Args: the defaults of the script."""
    flags.DEFINE_string("output_dir", None, "Where checkpoints and results go.", required=True)
    flags.DEFINE_enum("optimizer", optimizer, OPTIMIZERS, "The optimizer.")
    flags.DEFINE_float("learning_rate", learning_rate, "The peak learning rate.")
    flags.DEFINE_integer("train_batch_size", train_batch_size, "Examples of a step, over all devices.", lower_bound=1)
    flags.DEFINE_integer("gradient_accumulation_steps", 1,
                         "Parts that a device's share of the batch is worked through in.", lower_bound=1)
    flags.DEFINE_integer("save_checkpoints_steps", save_checkpoints_steps, "Steps between two checkpoints.",
                         lower_bound=1)
    flags.DEFINE_integer("keep_checkpoint_max", 5, "How many checkpoints are kept, besides the best.", lower_bound=1)
    flags.DEFINE_integer("iterations_per_loop", 1000, "Steps between two returns to the host, on TPU.", lower_bound=1)
    flags.DEFINE_integer("random_seed", 12345, "Of the initial weights, the order of the data, new masks and dropout.",
                         lower_bound=0)


def define_device_flags() -> None:
    flags.DEFINE_enum("precision", "float32", PRECISIONS,
                      "What the model computes in; its variables are float32 always.")
    flags.DEFINE_bool("jit_compile", False, "Whether XLA compiles what computes gradients.")
    flags.DEFINE_enum("distribution_strategy", "auto", STRATEGIES, "Where a step runs.")
    flags.DEFINE_bool("use_tpu", False, "The release's name for --distribution_strategy=tpu.")
    flags.DEFINE_string("tpu_name", None, "The TPU's name, or its grpc:// address.")
    flags.DEFINE_string("tpu_zone", None, "The TPU's zone, where it cannot be found out.")
    flags.DEFINE_string("gcp_project", None, "The TPU's project, where it cannot be found out.")
    flags.DEFINE_string("master", None, "The TPU's address; wins over --tpu_name.")
    flags.DEFINE_integer("num_tpu_cores", 8, "Kept for the release's scripts: TensorFlow 2 finds out.")


def config() -> AlbertConfig:
    """The model's config, with the dropout that the flags say."""
    if not FLAGS.albert_config_file:
        raise ValueError("--albert_config_file is missing")
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    overrides = {name: getattr(FLAGS, name) for name in names if getattr(FLAGS, name) is not None}
    return AlbertConfig.from_json_file(FLAGS.albert_config_file).replace(**overrides)


def set_up() -> tf.distribute.Strategy:
    """Sets seed and precision, and gives the strategy: to be called before anything is built."""
    strategy = create_strategy("tpu" if FLAGS.use_tpu else FLAGS.distribution_strategy,
                               TpuAddress(FLAGS.tpu_name, FLAGS.tpu_zone, FLAGS.gcp_project, FLAGS.master))
    tf.keras.utils.set_random_seed(FLAGS.random_seed)
    tf.keras.mixed_precision.set_global_policy(FLAGS.precision)
    return strategy


def new_trainer(
    task, strategy: tf.distribute.Strategy, options: RunOptions, num_warmup_steps: int, **schedule
) -> Trainer:
    """A compiled trainer of a task that was made, with its model and metrics, under the strategy.

    Args:
      task, strategy, options: of the run.
      num_warmup_steps, **schedule: what create_optimizer takes besides the flags.
    """
    with strategy.scope():
        trainer = Trainer(task, FLAGS.random_seed, FLAGS.gradient_accumulation_steps, FLAGS.jit_compile,
                          loss_scaling=FLAGS.precision == "mixed_float16")
        optimizer = create_optimizer(FLAGS.optimizer, FLAGS.learning_rate, options.num_train_steps, num_warmup_steps,
                                     **schedule)
        trainer.compile(optimizer, steps_per_execution=steps_per_execution(options, strategy))
    return trainer


def run_options(num_train_steps: int) -> RunOptions:
    tf.io.gfile.makedirs(FLAGS.output_dir)
    return RunOptions(FLAGS.output_dir, num_train_steps, FLAGS.train_batch_size, FLAGS.save_checkpoints_steps,
                      FLAGS.keep_checkpoint_max, FLAGS.iterations_per_loop)

"""The flags that scripts share, and what they say as values.

This file and finetuning_flags.py are the only ones of the package that read FLAGS. A script reads them in one place::

    @dataclasses.dataclass(frozen=True)
    class Options:

        run: RunOptions
        input_file: str  # --input_file

    def options_from_flags() -> Options:
        return shared.from_flags(Options, run=shared.run_options())

    def main():
        options = options_from_flags()
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from typing import Any, TypeVar

import tensorflow as tf
from absl import flags

from albert_tf import bounds, help, keras, quiet
from albert_tf.config import AlbertConfig
from albert_tf.files import check_directory
from albert_tf.finite import define_float
from albert_tf.interchange.from_pretrained import build
from albert_tf.interchange.open_source import open_source
from albert_tf.interchange.restoring import RestoreReport
from albert_tf.interchange.source import Source
from albert_tf.interchange.unsharing import unshared_config
from albert_tf.interchange.vocabulary_files import VocabularyFiles
from albert_tf.interchange.weights_reader import WeightsReader
from albert_tf.modeling.pooling import POOLINGS, SentencePooling
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.required_flags import define_required
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training.checkpoints import best_or_latest
from albert_tf.training.new_trainer import TrainerOptions
from albert_tf.training.optimizer import OPTIMIZERS
from albert_tf.training.run import RunOptions
from albert_tf.training.several_runs import best_run
from albert_tf.training.strategy import STRATEGIES, TpuAddress, create_strategy

FLAGS = flags.FLAGS
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
AnyOptions = TypeVar("AnyOptions")


@help.group("Model")
def define_source_flags() -> None:
    """Where a model comes from."""
    flags.DEFINE_string("albert_config_file", None,
                        "Path of the model's albert_config.json, or the name of a published size "
                        "(albert_base_v2). Default: the config of the weights.")
    flags.DEFINE_string("init_checkpoint", None,
                        "Initial weights: a released directory or its .tar.gz, a checkpoint, a run's directory, a "
                        "Hugging Face folder, or a TF-Hub module whose variables have the release's names.")
    flags.DEFINE_string("albert_hub_module_handle", None,
                        "Path or URL of a TF-Hub module, in the place of --init_checkpoint. A TF2 module whose "
                        "variables have other names is used by running its own graph, so give only modules that you "
                        "trust.")


@help.group("Model")
def define_model_flags() -> None:
    """Defines the flags of the model and of the weights that it starts from."""
    define_source_flags()
    define_float("hidden_dropout_prob", None, "Dropout of the embeddings and of each layer's outputs. Default: the "
                 "config's.")
    define_float("attention_probs_dropout_prob", None, "Dropout of the attention probabilities. Default: the config's.")
    flags.DEFINE_bool("unshare_layers", False, "Whether each layer gets its own copy of the weights that layers share. "
                      "The outputs are the same at the start; training then changes each copy on its own.")


@help.group("Model")
def define_vocabulary_flags() -> None:
    """Defines the flags of the vocabulary and of its casing."""
    flags.DEFINE_string("spm_model_file", None, "Path of the SentencePiece model. Default: the one that comes with the "
                        "weights.")
    flags.DEFINE_string("vocab_file", None,
                        "Path of the WordPiece vocabulary, for models without a SentencePiece model. Default: the "
                        "one that comes with the weights.")
    flags.DEFINE_bool("do_lower_case", None,
                      "Whether text is lower-cased. Default: as the files beside the weights say, else true.")


@help.group("Model")
def define_pooling_flags(default: str = "mean", with_normalize: bool = True) -> None:
    """Defines the flags of how the vector of a text is made of those of its tokens.

    Args:
      default: the pooling, where none is stored with the weights.
      with_normalize: whether there is --normalize.
    """
    flags.DEFINE_enum("pooling", None, POOLINGS,
                      "The vector of a text: the mean or the maximum over its tokens, the vector of [CLS] (cls), or "
                      f"the pooled output (pooler). Default: the one stored with the weights, else {default}.")
    if with_normalize:
        flags.DEFINE_bool("normalize", None, "Whether the vectors of texts have length 1. Default: as stored with the "
                          "weights, else false.")


@help.group("Training")
def define_training_flags(
    optimizer: str, learning_rate: float, train_batch_size: int, save_checkpoints_steps: int
) -> None:
    """Args: the defaults of the script."""
    define_required("output_dir", "Directory of checkpoints and results. A run that was started there before is "
                    "continued.")
    flags.DEFINE_enum("optimizer", optimizer, OPTIMIZERS, "The optimizer.")
    define_float("learning_rate", learning_rate, "The peak learning rate.", lower_bound=0.0)
    flags.DEFINE_integer("train_batch_size", train_batch_size, "Examples in a training step, summed over all devices.",
                         *bounds.BATCH_SIZE)
    flags.DEFINE_integer("gradient_accumulation_steps", 1,
                         "Number of micro-batches that each device computes for a step, one after the other. More "
                         "of them need less memory.", *bounds.BATCH_SIZE)
    flags.DEFINE_bool("gradient_checkpointing", False, "Whether the activations within a layer are computed again for "
                      "the gradients instead of being kept: less memory, more time.")
    flags.DEFINE_integer("save_checkpoints_steps", save_checkpoints_steps,
                         "Steps between two checkpoints, and between two evaluations.", *bounds.STEPS)
    flags.DEFINE_integer("keep_checkpoint_max", 5,
                         "Number of the latest checkpoints that are kept, besides the best one.", *bounds.STEPS)
    flags.DEFINE_integer("iterations_per_loop", 1000, "Steps between two returns to the host, on TPU.", *bounds.STEPS)
    flags.DEFINE_integer("random_seed", 12345,
                         "Seed of the initial weights, the order of the data, dynamic masks and dropout.", *bounds.SEED)


@help.group("Devices")
def define_device_flags() -> None:
    """Defines the flags of precision and of the devices to compute on."""
    flags.DEFINE_enum("precision", "float32", PRECISIONS,
                      "Type that the model computes in. Its variables are always float32.")
    flags.DEFINE_bool("jit_compile", False, "Whether XLA compiles the whole computation of gradients and predictions. "
                      "XLA always compiles the LayerNorm, softmax and activations of training "
                      "(albert_tf/modeling/fused.py).")
    flags.DEFINE_enum("distribution_strategy", "auto", STRATEGIES,
                      "Devices of a step. auto: all workers if TF_CONFIG names several, else all GPUs if there are "
                      "several, else one device.")
    flags.DEFINE_bool("use_tpu", False, "The release's name for --distribution_strategy=tpu.")
    flags.DEFINE_string("tpu_name", None, "The TPU's name, or its grpc:// address.")
    flags.DEFINE_string("tpu_zone", None, "The TPU's zone, if it cannot be found out.")
    flags.DEFINE_string("gcp_project", None, "The TPU's project, if it cannot be found out.")
    flags.DEFINE_string("master", None, "The TPU's address; wins over --tpu_name.")
    flags.DEFINE_integer("num_tpu_cores", 8,
                         "Kept for the release's scripts, without effect: TensorFlow 2 finds the number.",
                         *bounds.DEVICES)


def starting_point() -> str | None:
    """Where the weights start, as load_checkpoint takes it; None for random ones."""
    if FLAGS.init_checkpoint and FLAGS.albert_hub_module_handle:
        raise ValueError("--init_checkpoint and --albert_hub_module_handle say the same: give one")
    return FLAGS.init_checkpoint or FLAGS.albert_hub_module_handle


def is_trusted(path: str) -> bool:
    """Whether the user has named a path as a module: the graph of a TF2 module may run then."""
    return path == FLAGS.albert_hub_module_handle


def _open(path: str) -> Source:
    return open_source(path, is_trusted(path))


def _home() -> str | None:
    """What has config and vocabulary, where the flags do not name them."""
    directory = FLAGS.output_dir if "output_dir" in FLAGS else None
    run = best_or_latest(best_run(directory)) if directory else None
    ensemble = FLAGS.ensemble_checkpoints if "ensemble_checkpoints" in FLAGS else []
    return starting_point() or run or next(iter(ensemble), None)


def config() -> AlbertConfig:
    """The model's config, of --albert_config_file, else of the weights, the run in --output_dir or the ensemble.

    With the dropout that the flags say.
    """
    home = None if FLAGS.albert_config_file else _home()
    if FLAGS.albert_config_file:
        given = AlbertConfig.from_file_or_preset(FLAGS.albert_config_file)
    elif home:
        given = _open(home).config
    else:
        raise ValueError("--albert_config_file is missing, and there is no checkpoint that has one: neither "
                         "--init_checkpoint nor one of a run in --output_dir")
    if "unshare_layers" in FLAGS and FLAGS.unshare_layers:
        given = unshared_config(given)
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    said = {name: FLAGS[name].value for name in names if name in FLAGS}
    return given.replace(**{name: value for name, value in said.items() if value is not None})


def pretrained(model: str, **arguments) -> keras.Model:
    """The model that --init_checkpoint or --albert_hub_module_handle names, with its weights.

    Args:
      model, arguments: as from_pretrained takes them.
    """
    return _pretrained(model, **arguments)[0]


def pretrained_masked_lm() -> AlbertPretrainer:
    """The pretrainer that `pretrained` makes, for scripts that need its masked-LM head.

    Raises:
      ValueError: the weights have no masked-LM head, whose predictions would be random.
    """
    model, report = _pretrained("pretrainer")
    missing = [name for name in report.not_restored if name.startswith("cls/predictions/")]
    if missing:
        raise ValueError(f"{starting_point()} has no masked-LM head: {', '.join(missing)} are missing")
    return model


def _pretrained(model: str, **arguments) -> tuple[keras.Model, RestoreReport]:
    path = starting_point()
    if not path:
        raise ValueError("--init_checkpoint is missing")
    return build(_open(path), model, config() if FLAGS.albert_config_file else None, **arguments)


def weights_reader(init_from_group0: bool = False) -> WeightsReader:
    """Reads --init_checkpoint and other weights; only --albert_hub_module_handle may run a module's own graph."""
    return WeightsReader(FLAGS.albert_hub_module_handle, init_from_group0, FLAGS.unshare_layers)


def vocabulary() -> VocabularyFiles:
    """The vocabulary that the flags name, else the one beside what `config` is of; `.tokenizer()` makes it one."""
    return _vocabulary(_home())


def starting_vocabulary() -> VocabularyFiles:
    """The vocabulary that the flags name, else that of --init_checkpoint; empty where there is neither."""
    return _vocabulary(starting_point())


def _vocabulary(path: str | None) -> VocabularyFiles:
    found = _open(path).vocabulary if path else VocabularyFiles()
    lower = found.do_lower_case if FLAGS.do_lower_case is None else FLAGS.do_lower_case
    given = VocabularyFiles(FLAGS.spm_model_file, FLAGS.vocab_file, lower)
    return given if given else dataclasses.replace(found, do_lower_case=lower)


def label_names() -> tuple[str, ...]:
    """The names of the labels of what `config` is of.

    Raises:
      ValueError: there is no model, or its labels have no names.
    """
    home = _home()
    names = _open(home).label_names if home else None
    if names is None:
        raise ValueError("--train_file is missing, and no names of labels come with the weights: it tells the tags")
    return names


def sentence_pooling(default: str = "mean") -> SentencePooling:
    """The pooling, normalization and length of --pooling, --normalize and --max_seq_length.

    A value whose flag is not set, or not defined, is the one stored with the weights, the run in --output_dir or the
    ensemble.

    Args:
      default: the pooling, where none is stored.
    """
    home = _home()
    return pooling_from_flags((_open(home).sentence_pooling if home else None) or SentencePooling(default))


def pooling_from_flags(stored: SentencePooling) -> SentencePooling:
    """`stored` with the values of --pooling, --normalize and --max_seq_length, where these flags are set."""
    names = (field.name for field in dataclasses.fields(SentencePooling))
    values = {name: FLAGS[name].value for name in names if name in FLAGS}
    return dataclasses.replace(stored, **{name: value for name, value in values.items() if value is not None})


def pooling_arguments(model: str) -> dict[str, Any]:
    """The arguments that the flags of define_pooling_flags give to a model, besides its config.

    Args:
      model: which one, as from_pretrained takes it; only the sentence encoder has such arguments.

    Raises:
      ValueError: a flag of pooling is set for another model.
    """
    if model == "sentence_encoder":
        return dataclasses.asdict(sentence_pooling())
    for name in ("pooling", "normalize"):
        if FLAGS[name].value is not None:
            raise ValueError(f"--{name} is for --model=sentence_encoder. Received: --model={model}")
    return {}


def check_vocabulary(tokenizer: FullTokenizer, given: AlbertConfig) -> None:
    """Raises ValueError where a tokenizer has pieces that the model has not."""
    if tokenizer.vocab_size > given.vocab_size:
        raise ValueError(f"{tokenizer.vocabulary_file} has {tokenizer.vocab_size:,} pieces, and the config's "
                         f"vocab_size is {given.vocab_size:,}: they are of different models")


def check_length(max_seq_length: int | None, config: AlbertConfig) -> None:
    """Raises ValueError where --max_seq_length is set and more than a model's positions."""
    if max_seq_length and max_seq_length > config.max_position_embeddings:
        raise ValueError(f"--max_seq_length={max_seq_length} is more than the config's max_position_embeddings, "
                         f"{config.max_position_embeddings}")


def set_up() -> tf.distribute.Strategy:
    """Sets seed and precision, and gives the strategy: to be called before anything is built.

    Raises:
      ValueError: as create_strategy; or a batch size that is used cannot be divided among the replicas.
    """
    strategy = create_strategy("tpu" if FLAGS.use_tpu else FLAGS.distribution_strategy,
                               TpuAddress(FLAGS.tpu_name, FLAGS.tpu_zone, FLAGS.gcp_project, FLAGS.master))
    _check_batch_sizes(strategy.num_replicas_in_sync)
    quiet.start_xla()
    keras.utils.set_random_seed(FLAGS.random_seed)
    keras.mixed_precision.set_global_policy(FLAGS.precision)
    return strategy


def _check_batch_sizes(replicas: int) -> None:
    for purpose in ("train", "eval", "predict"):
        name, used = f"{purpose}_batch_size", f"do_{purpose}"
        parts = FLAGS.gradient_accumulation_steps if purpose == "train" else 1
        if used in FLAGS and FLAGS[used].value and FLAGS[name].value % (replicas * parts):
            accumulation = f" times {parts} --gradient_accumulation_steps" if parts > 1 else ""
            raise ValueError(f"--{name} must be a multiple of {replicas} replica(s){accumulation}. "
                             f"Received: {FLAGS[name].value}")


def from_flags(options_class: type[AnyOptions], **values) -> AnyOptions:
    """Makes a dataclass of options from the flags that have the names of its fields.

    Args:
      options_class: the dataclass.
      values: of the fields that are no flags, or whose values are not those of the flags.
    """
    names = {field.name for field in dataclasses.fields(options_class)} - set(values)  # type: ignore[arg-type]
    return options_class(**values, **{name: FLAGS[name].value for name in names if name in FLAGS})


def command_line() -> str:
    """The command that started this script."""
    return shlex.join(["python", os.path.basename(sys.argv[0]), *sys.argv[1:]])


def trainer_options(**values) -> TrainerOptions:
    """How a task is trained; the arguments are those of from_flags."""
    return from_flags(TrainerOptions, loss_scaling=FLAGS.precision == "mixed_float16", **values)


def run_options(**values) -> RunOptions:
    """How long training runs; the arguments are those of from_flags."""
    check_directory(FLAGS.output_dir)
    return from_flags(RunOptions, **values)

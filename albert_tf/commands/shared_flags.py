"""The flags that commands share, the kinds of flags that absl does not have, and what the flags' values make.

In the package, flags are read only here, in finetuning.py, in one function of each command, and where the command line
itself is handled (app.py, usage.py). A command with many functions declares its flags as the fields of its options,
which all other functions take::

    @dataclasses.dataclass(frozen=True)
    class Options:
        run: RunOptions  # made from several flags
        input_file: str | None = string(None, "Path of the text.")
        top_k: int = integer(5, "Number of pieces to show.", bounds.CANDIDATES)

    def define_flags() -> None:
        define_training_flags(...)
        define_fields(Options)

    def options_from_flags() -> Options:
        return from_flags(Options, run=run_options())
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any, Callable, Sequence, TypeVar

import tensorflow as tf
from absl import flags

from albert_tf import devices, keras
from albert_tf.commands import usage
from albert_tf.config import AlbertConfig
from albert_tf.export.precision import SERVED_PRECISIONS
from albert_tf.modeling.early_exit import DEFAULT_TOLERANCE, EarlyExit
from albert_tf.modeling.pooling import POOLINGS, SentencePooling
from albert_tf.modeling.vector_precision import VECTOR_PRECISIONS, VectorPrecision, read_ranges
from albert_tf.training import trainer
from albert_tf.training.checkpoints import BEST
from albert_tf.training.optimizer import OPTIMIZERS
from albert_tf.training.run import RunOptions, TrainerOptions
from albert_tf.training.strategy import STRATEGIES, TpuAddress, create_strategy, resolve_strategy
from albert_tf.utils import bounds, imports
from albert_tf.utils.files import check_directory
from albert_tf.utils.progress import count_of
from albert_tf.weights.open_source import is_url
from albert_tf.weights.resolved_model import ModelRequest, ResolvedModel
from albert_tf.weights.vocabulary_files import VocabularyFiles

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from albert_tf.tasks.scores import Scorer

FLAGS = flags.FLAGS
flags.disclaim_key_flags()  # a flag belongs to the command that calls these functions
AnyOptions = TypeVar("AnyOptions")
# The flags of define_source_flags and define_vocabulary_flags, for the manifests of what is computed with a model.
MODEL_FLAGS = ("init_checkpoint", "albert_hub_module_handle", "albert_config_file", "spm_model_file", "vocab_file",
               "do_lower_case", "keep_accents")
_DEFAULT_INTERVAL: list[int] = []  # the command's default of --save_checkpoints_steps, which a recipe may replace
_EVALUATIONS = 5  # that a short run has at least


def define_required(name: str, help: str) -> None:
    """Defines a string flag that must be set to a non-empty value.

    (`--output_dir=$DIRECTORY` is empty if the variable is not set.)
    """
    flags.DEFINE_string(name, None, help)
    require(name)


def require(name: str) -> None:
    """Makes a string flag of another module required."""
    flags.register_validator(name, _is_set)


def define_float(name: str, default: float | None, help: str, lower_bound: float | None = None,
                 upper_bound: float | None = None) -> None:
    """flags.DEFINE_float for finite numbers. absl itself accepts "nan" and "inf", whatever the bounds."""
    parser = _FiniteFloatParser(lower_bound, upper_bound)
    flags.DEFINE(parser, name, default, help, serializer=flags.ArgumentSerializer())


def define_integer(name: str, default: int | None, help: str, lower_bound: int, upper_bound: int) -> None:
    """flags.DEFINE_integer for a decimal number. absl itself reads 1_0 as 10."""
    parser = _DecimalParser(lower_bound, upper_bound)
    flags.DEFINE(parser, name, default, help, serializer=flags.ArgumentSerializer())


def string(default: str | None, help: str) -> Any:
    """A field of options whose flag is a string."""
    return _flag(flags.DEFINE_string, default, help)


def strings(default: list[str] | None, help: str) -> Any:
    """A field of options whose flag is a string that can be repeated."""
    return _flag(flags.DEFINE_multi_string, default, help)


def boolean(default: bool | None, help: str) -> Any:
    """A field of options whose flag is true or false."""
    return _flag(flags.DEFINE_bool, default, help)


def integer(default: int | None, help: str, limits: bounds.Bounds) -> Any:
    """A field of options whose flag is a whole number."""
    return _flag(define_integer, default, help, *limits)


def whole_numbers(default: tuple[int, ...], help: str, limits: bounds.Bounds) -> Any:
    """A field of options whose flag is a comma-separated list of whole numbers, as a tuple."""
    return _flag(_define_integers, default, help, limits)


def number(default: float | None, help: str, lower_bound: float | None = None, upper_bound: float | None = None) -> Any:
    """A field of options whose flag is a finite number."""
    return _flag(define_float, default, help, lower_bound, upper_bound)


def choice(default: str | None, values: Sequence[str], help: str) -> Any:
    """A field of options whose flag is one of several values."""
    return _flag(flags.DEFINE_enum, default, values, help)


def text_column(content: str) -> Any:
    """A field of options whose flag is the name of the column with the texts of a table.

    Args:
      content: what a row of the table is: "text", "document".
    """
    return string(None, f"Name of the column with the texts, if the input is a table: Parquet, JSON lines, CSV or TSV "
                        f"with a header. Each row is a {content}. Default: the input is text.")


def define_text_column_flag(content: str = "text") -> None:
    """Defines --text_column; see text_column."""
    text_column(content).metadata["define"]("text_column")


def _flag(define: Callable[..., Any], *arguments: Any) -> Any:
    return dataclasses.field(metadata=dict(define=lambda name: define(name, *arguments)))


def define_fields(options_class: type) -> None:
    """Defines the flags that are declared as fields of an options dataclass, in their order."""
    for field in dataclasses.fields(options_class):
        if "define" in field.metadata:
            field.metadata["define"](field.name)


def define_engine_flags(num_workers_help: str) -> None:
    """Defines --engine, --beam_pipeline_options and --num_workers.

    Args:
      num_workers_help: the help of --num_workers.
    """
    flags.DEFINE_enum("engine", "local", ["local", "beam"], "The work is done by processes on this machine (local), or "
                      "by the workers of an Apache Beam runner (beam); see docs/large_corpora.md.")
    flags.DEFINE_string("beam_pipeline_options", None, "Comma-separated options of the Beam pipeline, such as "
                        "runner=FlinkRunner,flink_master=host:8081. Default: Beam's local runner with --num_workers "
                        "processes.")
    define_integer("num_workers", min(os.cpu_count() or 1, bounds.WORKERS.upper), num_workers_help, *bounds.WORKERS)


def beam_options(engine: str, beam_pipeline_options: str | None, num_workers: int) -> PipelineOptions | None:
    """The options of the pipeline; None for the local engine.

    Args:
      engine, beam_pipeline_options, num_workers: the values of the flags with these names.

    Raises:
      ValueError: Apache Beam is not installed, or the options do not fit the engine.
    """
    if engine == "local":
        if beam_pipeline_options:
            raise ValueError("--beam_pipeline_options needs --engine=beam")
        return None
    if importlib.util.find_spec("apache_beam") is None:
        raise ValueError("--engine=beam needs Apache Beam, which is not installed: "
                         "in a clone of albert_tf, pip install -r requirements-beam.txt")
    from albert_tf.beam.running import pipeline_options

    return pipeline_options(beam_pipeline_options or "", num_workers)


@usage.group("Model")
def define_source_flags() -> None:
    """Defines the flags that select a model's config and weights."""
    flags.DEFINE_string("albert_config_file", None, "Path of the model's albert_config.json, or the name of a "
                        "published size (albert_base_v2). Default: the config of the weights.")
    flags.DEFINE_string("init_checkpoint", None,
                        "Initial weights: a released directory or its .tar.gz (a path or a URL), a checkpoint, a "
                        "run's directory (of several runs the best), a Hugging Face folder, a preset of keras-hub, "
                        "hf://org/name[@revision][/subfolder] on the Hugging Face Hub, a TF-Hub module whose "
                        "variables have the release's names, or albert_tiny_en, which comes with the package.")
    flags.DEFINE_string("albert_hub_module_handle", None, "Path or URL of a TF-Hub module with the initial weights, "
                        "instead of --init_checkpoint. A TF2 module whose variables do not have the release's names is "
                        "used by running its own graph, so use only modules that you trust.")


@usage.group("Model")
def define_model_flags() -> None:
    """Defines the flags of a model to train: config, initial weights, dropout and sharing."""
    define_source_flags()
    define_float("hidden_dropout_prob", None, "Dropout rate, from 0 to 1, of the embeddings and of each layer's "
                 "outputs in training. Default: the config's.")
    define_float("attention_probs_dropout_prob", None, "Dropout rate, from 0 to 1, of the attention probabilities in "
                 "training. Default: the config's.")
    flags.DEFINE_bool("unshare_layers", False, "Whether to give each layer its own copy of the weights that layers "
                      "share. The outputs are the same at the start; training then changes each copy on its own.")


@usage.group("Model")
def define_vocabulary_flags(with_weights: bool = True) -> None:
    """Defines the flags of the vocabulary, its casing and its accents.

    Args:
      with_weights: whether the command has weights, which can come with a vocabulary.
    """
    default = " Default: the one that comes with the weights." if with_weights else ""
    stored = "with the weights or the vocabulary" if with_weights else "beside the vocabulary"
    flags.DEFINE_string("spm_model_file", None, f"Path of the SentencePiece model.{default}")
    flags.DEFINE_string("vocab_file", None, "Path of the WordPiece vocabulary, for models without a SentencePiece "
                        f"model: it is ignored if --spm_model_file is set.{default}")
    flags.DEFINE_bool("do_lower_case", None, f"Whether to lower-case text. Default: as stored {stored}, or true if "
                      "nothing is stored.")
    flags.DEFINE_bool("keep_accents", None, "Whether to keep accents, which the release removes. Default: as stored "
                      f"{stored}, or false if nothing is stored.")


@usage.group("Model")
def define_pooling_flags(default: str = "mean", with_normalize: bool = True) -> None:
    """Defines the flags of pooling, which makes the vector of a text from the vectors of its tokens.

    Args:
      default: the pooling if none is stored with the weights.
      with_normalize: whether to define --normalize.
    """
    flags.DEFINE_enum("pooling", None, POOLINGS,
                      "The vector of a text: the mean or the maximum over its tokens, the vector of [CLS] (cls), or "
                      "the pooled output (pooler). Default: the pooling that is stored with the weights, or "
                      f"{default} if none is stored.")
    if with_normalize:
        flags.DEFINE_bool("normalize", None, "Whether to scale the vectors of texts to length 1. Default: as stored "
                          "with the weights, or false if nothing is stored.")


@usage.group("Model")
def define_vector_flags(with_precision: bool = True) -> None:
    """Defines the flags of the size and the precision of sentence vectors.

    Args:
      with_precision: whether to define --vector_precision and --vector_ranges.
    """
    define_integer("truncate_dim", None, "Number of dimensions of sentence vectors; the others are left out before "
                   "vectors are normalized. Default: as stored with the weights, or all if nothing is stored.",
                   *bounds.WIDTH)
    if with_precision:
        flags.DEFINE_enum("vector_precision", "float32", VECTOR_PRECISIONS, "Precision of stored and exported sentence "
                          "vectors. int8: a byte for each dimension, which counts steps of 1/255 of its range. binary: "
                          "a bit for each dimension, which is 1 if it is positive.")
        flags.DEFINE_string("vector_ranges", None, "Path of an .npy file with the smallest and the largest value of "
                            "each dimension, float32 [2, dimensions], for --vector_precision=int8. extract_embeddings "
                            "writes it.")


@usage.group("Model")
def define_checkpoint_name_flag() -> None:
    """Defines the release's flag of a checkpoint in --albert_directory."""
    flags.DEFINE_string("checkpoint_name", BEST, "Name of the checkpoint in --albert_directory. If the default does "
                        "not exist, it is the latest or the only checkpoint.")


def define_exit_flags() -> None:
    """Defines the flags of predictions with early exit."""
    define_integer("exit_patience", None, "Predictions stop after this many consecutive layers whose answer agrees "
                   "with that of the layer before. The model must have exit heads (--exit_heads of run_classifier, "
                   "run_tagging and run_race). Default: all layers are used.", *bounds.LAYERS)
    define_float("exit_tolerance", None, "For regression and --exit_patience: the scores of two layers agree if they "
                 f"differ by less. Default: {DEFAULT_TOLERANCE}.", lower_bound=0.0)
    define_integer("num_layers", None, "Number of layers that predictions use, from the first on. The model must have "
                   "exit heads. Default: all.", *bounds.LAYERS)


def early_exit_from_flags() -> EarlyExit:
    """What --exit_patience, --exit_tolerance and --num_layers set.

    Raises:
      ValueError: a tolerance is set without a patience.
    """
    if FLAGS.exit_tolerance is not None and FLAGS.exit_patience is None:
        raise ValueError(f"--exit_tolerance={FLAGS.exit_tolerance} needs --exit_patience")
    return from_flags(EarlyExit)


@usage.group("Training")
def define_training_flags(
    optimizer: str, learning_rate: float, train_batch_size: int, save_checkpoints_steps: int
) -> None:
    """Defines the flags of a training run. The arguments are the script's defaults."""
    define_required("output_dir", "Directory of checkpoints and results. A run that was started there before is "
                    "continued.")
    flags.DEFINE_enum("optimizer", optimizer, OPTIMIZERS, "The optimizer.")
    flags.DEFINE_bool("bias_correction", False, "Whether the optimizer corrects the bias of its moments, as AdamW of "
                      "PyTorch and of Keras does. The release does not, so its early updates are larger.")
    define_float("learning_rate", learning_rate, "The peak learning rate, after the warm-up.", lower_bound=0.0)
    define_integer("train_batch_size", train_batch_size, "Number of examples in a training step, summed over all "
                   "devices.", *bounds.BATCH_SIZE)
    define_integer("gradient_accumulation_steps", 1,
                   "Number of micro-batches into which each device splits its part of a batch. They are computed "
                   "one after the other: more micro-batches need less memory.", *bounds.BATCH_SIZE)
    define_integer("cpu_parts", 0, "Largest number of equal parts of a batch that a CPU computes at the same "
                   f"time. 0: a part for each core, but at most {trainer.MOST_PARTS}; one part with "
                   "--jit_compile or several devices.", *bounds.WORKERS.at_least(0))
    flags.DEFINE_bool("gradient_checkpointing", False, "Whether to recompute a layer's activations for its gradients "
                      "instead of keeping them in memory. This needs less memory and more time.")
    define_integer("save_checkpoints_steps", save_checkpoints_steps,
                   "Number of steps between two checkpoints, and between two evaluations. If neither the command "
                   "line nor a recipe sets the flag, it is at most a fifth of the run.", *bounds.STEPS)
    _DEFAULT_INTERVAL[:] = [save_checkpoints_steps]
    define_integer("keep_checkpoint_max", 5,
                   "Number of the latest checkpoints to keep, besides the best one.", *bounds.STEPS)
    define_integer("iterations_per_loop", 1000, "On TPU, the largest number of steps between two returns to the "
                   "host. It has no effect on other devices.", *bounds.STEPS)
    define_integer("random_seed", 12345,
                   "Seed of the initial weights, the order of the data, dynamic masks and dropout.", *bounds.SEED)


@usage.group("Devices")
def define_precision_flag() -> None:
    """Defines the flag of the data type of computations."""
    flags.DEFINE_enum("precision", "float32", ("float32", "mixed_bfloat16", "mixed_float16"),
                      "Data type of the model's computations. Its variables are always float32.")


@usage.group("Devices")
def define_device_flags() -> None:
    """Defines the flags of precision and of the devices to compute on."""
    define_precision_flag()
    flags.DEFINE_bool("jit_compile", False, "Whether to compile the whole computation of gradients and predictions "
                      "with XLA. Without this flag, XLA compiles only the LayerNorm, softmax and activations of "
                      "training (albert_tf/modeling/fused.py).")
    flags.DEFINE_enum("distribution_strategy", "auto", STRATEGIES, "The devices that share a step. auto: all workers "
                      "if TF_CONFIG names several; otherwise all GPUs if there are several; otherwise one device.")
    flags.DEFINE_bool("use_tpu", False, "The release's name for --distribution_strategy=tpu.")
    flags.DEFINE_string("tpu_name", None, "Name of the TPU, or its grpc:// address.")
    flags.DEFINE_string("tpu_zone", None, "Zone of the TPU. Default: the zone of this machine.")
    flags.DEFINE_string("gcp_project", None, "Google Cloud project of the TPU. Default: the project of this machine.")
    flags.DEFINE_string("master", None, "Address of the TPU. If it is set, --tpu_name is ignored.")
    define_integer("num_tpu_cores", 8, "Has no effect, since TensorFlow 2 detects the number of cores. Scripts for the "
                   "release can set it.", *bounds.DEVICES)


@usage.group("Export")
def define_export_flags(accepted: str = "raw text, ids, or serialized tf.Examples") -> None:
    """Defines the flags of a SavedModel to export that accepts these inputs."""
    flags.DEFINE_string("export_dir", None, f"Directory of a SavedModel to export, which accepts {accepted}. Default: "
                        "nothing is exported.")
    flags.DEFINE_enum("export_precision", None, SERVED_PRECISIONS, "Data type of the exported model's computations. "
                      "Default: the data type in which this command computes.")


@usage.group("Export")
def define_score_flags() -> None:
    """Defines the flags of a dev file on which an export is scored."""
    flags.DEFINE_string("score_data", None, "Path of a dev file of the model's task, on which the model is scored "
                        "before and after the export: SQuAD's JSON, CoNLL for tags, JSON lines for multiple choice; "
                        "for texts and sentence vectors a file with the columns of --task_name or --task_config. "
                        "Default: nothing is scored.")
    define_float("max_score_drop", None, "Largest part of the score that an export of --score_data may lose: 0.005 "
                 "allows half a per cent. If one loses more, nothing is written. Default: any.", 0.0)
    flags.DEFINE_string("task_name", None, "Name of the GLUE task of --score_data, such as sst-2.")
    flags.DEFINE_string("task_config", None, "Path of a JSON file that describes a task of your own, instead of "
                        "--task_name (docs/fine_tuning.md shows one).")


def scorer_from_flags(model: ResolvedModel, head: str) -> Scorer | None:
    """The function that scores a model on --score_data; None if the flag is not set.

    Args:
      model: the result of `resolve_model`, which has the vocabulary.
      head: the name of the model's head.

    Raises:
      ValueError: another flag of scores is set without --score_data, or see scores.scorer.
    """
    from albert_tf.tasks.classification.glue import find_task
    from albert_tf.tasks.classification.task_config import load_task_config
    from albert_tf.tasks.scores import scorer

    if not FLAGS.score_data:
        for name in ("max_score_drop", "task_name", "task_config"):
            if FLAGS[name].value is not None:
                raise ValueError(f"--{name} needs --score_data, the file on which the export is scored")
        return None
    if FLAGS.task_name and FLAGS.task_config:
        raise ValueError("set either --task_name or --task_config")
    task = load_task_config(FLAGS.task_config) if FLAGS.task_config else None
    return scorer(head, FLAGS.score_data, model.vocabulary.tokenizer(model.config),
                  find_task(FLAGS.task_name) if FLAGS.task_name else task, vector_precision())


def from_flags(options_class: type[AnyOptions], **values) -> AnyOptions:
    """Makes an options dataclass from the flags that have the names of its fields.

    Args:
      options_class: the dataclass.
      values: values of the fields that are not flags, or that differ from the flags.
    """
    names = {field.name for field in dataclasses.fields(options_class)} - set(values)  # type: ignore[arg-type]
    return options_class(**values, **{name: FLAGS[name].value for name in names if name in FLAGS})


def command_line() -> str:
    """The command line that started this command."""
    return f"{usage.program(sys.argv[0])} {shlex.join(sys.argv[1:])}".rstrip()


def trainer_options(**values) -> TrainerOptions:
    """TrainerOptions from the flags. The arguments are those of from_flags."""
    return from_flags(TrainerOptions, loss_scaling=FLAGS.precision == "mixed_float16", parts=cpu_parts(), **values)


def run_options(**values) -> RunOptions:
    """RunOptions from the flags. The arguments are those of from_flags."""
    check_directory(FLAGS.output_dir)
    steps = values["num_train_steps"] if "num_train_steps" in values else FLAGS.num_train_steps
    return from_flags(RunOptions, **values, save_checkpoints_steps=saving_interval(steps))


def saving_interval(num_train_steps: int) -> int:
    """--save_checkpoints_steps; if only the script's default sets it, at most a fifth of the run.

    The fifth is rounded down to two digits, for steps that are easy to read and that a TPU's loop divides well.
    """
    flag = FLAGS["save_checkpoints_steps"]
    if flag.present or [flag.default] != _DEFAULT_INTERVAL:
        return flag.value
    fifth = max(1, num_train_steps // _EVALUATIONS)
    return min(flag.value, fifth - fifth % 10 ** max(0, len(str(fifth)) - 2))


def set_up() -> tf.distribute.Strategy:
    """Sets seed and precision, and returns the distribution strategy. Call it before anything is built.

    Raises:
      ValueError: see create_strategy; or a batch size that is used is not a multiple of the number of replicas.
    """
    if "cpu_parts" in FLAGS:
        _divide_threads()
    strategy = create_strategy(_strategy_name(),
                               TpuAddress(FLAGS.tpu_name, FLAGS.tpu_zone, FLAGS.gcp_project, FLAGS.master))
    _check_batch_sizes(strategy.num_replicas_in_sync)
    if not devices.is_tpu(strategy):  # TensorFlow issue 58934: it fails on a TPU VM
        imports.start_xla()
    keras.utils.set_random_seed(FLAGS.random_seed)
    keras.mixed_precision.set_global_policy(FLAGS.precision)
    return strategy


def cpu_parts() -> int:
    """The number of parts of a batch that are computed at the same time: --cpu_parts, or its default."""
    if FLAGS.cpu_parts:
        return FLAGS.cpu_parts
    return 1 if FLAGS.jit_compile or _strategy_name() != "one_device" else trainer.parts_of_cpu()


def _strategy_name() -> str:
    return resolve_strategy("tpu" if FLAGS.use_tpu else FLAGS.distribution_strategy)


def _divide_threads() -> None:
    """Divides the cores among the parts of a batch, if all batches of this run have that many parts."""
    count = cpu_parts()
    if all(FLAGS[name].value % (count * micro_batches) == 0 for name, micro_batches in _used_batch_sizes().items()):
        trainer.divide_threads(count)


def _check_batch_sizes(replicas: int) -> None:
    for name, micro_batches in _used_batch_sizes().items():
        if FLAGS[name].value % (replicas * micro_batches):
            accumulation = f" times {micro_batches} --gradient_accumulation_steps" if micro_batches > 1 else ""
            raise ValueError(f"--{name} must be a multiple of {count_of(replicas, 'replica')}{accumulation}. "
                             f"Received: {FLAGS[name].value}")


def _used_batch_sizes() -> dict[str, int]:
    """The names of the batch sizes that this run uses, each with its number of micro-batches."""
    return {f"{purpose}_batch_size": FLAGS.gradient_accumulation_steps if purpose == "train" else 1
            for purpose in ("train", "eval", "predict") if f"do_{purpose}" in FLAGS and FLAGS[f"do_{purpose}"].value}


def checkpoint_in(directory: str) -> str:
    """The path of --checkpoint_name, or the directory itself if the flag is not set and its default does not exist."""
    path = os.path.join(directory, FLAGS.checkpoint_name)
    is_set = not FLAGS["checkpoint_name"].using_default_value
    return path if is_set or not is_url(directory) and tf.io.gfile.exists(f"{path}.index") else directory


def init_path() -> str | None:
    """The path of the initial weights, as an argument of load_checkpoint; None for random weights.

    Raises:
      ValueError: both flags of the initial weights are set.
    """
    if FLAGS.init_checkpoint and FLAGS.albert_hub_module_handle:
        raise ValueError("--init_checkpoint and --albert_hub_module_handle exclude each other: set one of them")
    return FLAGS.init_checkpoint or FLAGS.albert_hub_module_handle


def resolve_model(*heads: str) -> ResolvedModel:
    """The model that the flags select. A command calls this once, before it reads other files or writes any.

    Args:
      *heads: the names of the heads that a training script can use (see ResolvedModel).

    Raises:
      ValueError: see ResolvedModel and init_path.
    """
    trains = "do_train" in FLAGS
    dropout = {name: FLAGS[name].value for name in ("hidden_dropout_prob", "attention_probs_dropout_prob")
               if name in FLAGS and FLAGS[name].value is not None}
    has_vocabulary = "spm_model_file" in FLAGS
    request = ModelRequest(
        init_path(), FLAGS.albert_hub_module_handle, FLAGS.albert_config_file,
        "unshare_layers" in FLAGS and FLAGS.unshare_layers, dropout,
        vocabulary_from_flags() if has_vocabulary else VocabularyFiles(),
        FLAGS.output_dir if trains else None, FLAGS.do_train if trains else None,
        tuple(FLAGS.ensemble_checkpoints) if "ensemble_checkpoints" in FLAGS else ())
    return ResolvedModel(request, heads)


def vocabulary_from_flags() -> VocabularyFiles:
    """What the flags of the vocabulary set, for VocabularyFiles.replaced_by; empty if none is set."""
    return VocabularyFiles(FLAGS.spm_model_file, FLAGS.vocab_file, FLAGS.do_lower_case, FLAGS.keep_accents)


def sentence_pooling(model: ResolvedModel, default: str = "mean") -> SentencePooling:
    """The pooling, normalization and length of --pooling, --normalize and --max_seq_length.

    If a flag is not set or not defined, the value is the one stored with the weights, the run in --output_dir or the
    ensemble.

    Args:
      model: the result of `resolve_model`.
      default: the pooling if none is stored.
    """
    source = model.stored
    stored = source.settings.sentence_pooling if source else None
    pooling = pooling_from_flags(stored or SentencePooling(default))
    return model.setting("sentence_pooling", pooling, "pooling, --normalize or --max_seq_length") or pooling


def pooling_from_flags(stored: SentencePooling) -> SentencePooling:
    """`stored` with the values of --pooling, --normalize and --max_seq_length if these flags are set."""
    names = (field.name for field in dataclasses.fields(SentencePooling))
    values = {name: FLAGS[name].value for name in names if name in FLAGS}
    return dataclasses.replace(stored, **{name: value for name, value in values.items() if value is not None})


def vector_precision() -> VectorPrecision:
    """The precision of --vector_precision and --vector_ranges.

    Raises:
      ValueError: the ranges are missing, cannot be read, or belong to another precision.
    """
    name, ranges = FLAGS.vector_precision, FLAGS.vector_ranges
    if name == "int8" and not ranges:
        raise ValueError("--vector_precision=int8 needs --vector_ranges, the file NAME.ranges.npy that "
                         "extract_embeddings --vector_precision=int8 writes beside its vectors")
    if ranges and name != "int8":
        raise ValueError(f"--vector_ranges is for --vector_precision=int8. Received: --vector_precision={name}")
    return VectorPrecision(name, read_ranges(ranges) if ranges else None)


def vector_arguments() -> dict[str, Any]:
    """The arguments of a sentence encoder that the flags of define_vector_flags set."""
    stored = vector_precision()
    truncated = {} if FLAGS.truncate_dim is None else dict(truncate_dim=FLAGS.truncate_dim)
    return dict(truncated, vector_precision=stored.name, vector_ranges=stored.ranges)


def pooling_arguments(selected: ResolvedModel, model: str) -> dict[str, Any]:
    """The arguments of a sentence encoder, from the flags of define_pooling_flags and define_vector_flags.

    Args:
      selected: the result of `resolve_model`.
      model: the kind of model (see from_pretrained). Only the sentence encoder has such arguments.

    Raises:
      ValueError: a flag of pooling is set for another model.
    """
    if model == "sentence_encoder":
        pooling = dataclasses.asdict(sentence_pooling(selected))
        return {**pooling, **vector_arguments()} if "vector_precision" in FLAGS else pooling
    for name in ("pooling", "normalize", "truncate_dim", "vector_precision"):
        if name in FLAGS and FLAGS[name].value not in (None, "float32"):
            raise ValueError(f"--{name} is for --model=sentence_encoder. Received: --model={model}")
    return {}


def default_length(model: ResolvedModel, largest: int) -> int:
    """The default of --max_seq_length in a fine-tuning script. It can be called before set_up.

    It is the length that the run in --output_dir was trained with. If nothing is trained and there is no run, it is
    that of the weights that predict. If these have no length, it is `largest`, or max_position_embeddings if that is
    smaller. A config that cannot be read is not an error here but in ResolvedModel.config, which is used after
    set_up has checked the flags.
    """
    stored = model.settings.max_seq_length
    if stored:
        return stored
    try:
        source = None if FLAGS.albert_config_file else model.stored
        if source and source.module:  # its config has no limit, and would run its graph
            return largest
        return min(largest, model.config.max_position_embeddings)
    except ValueError:
        return largest


def check_length(max_seq_length: int | None, config: AlbertConfig) -> None:
    """Raises ValueError if --max_seq_length is set and larger than max_position_embeddings."""
    if max_seq_length and max_seq_length > config.max_position_embeddings:
        raise ValueError(f"--max_seq_length={max_seq_length} is more than the config's max_position_embeddings, "
                         f"{config.max_position_embeddings}: set it to that number or less")


def _is_set(value: str | None) -> bool:
    if not value:
        raise flags.ValidationError("it is required" if value is None else "it must not be empty")
    return True


def _define_integers(name: str, default: tuple[int, ...], help: str, limits: bounds.Bounds) -> None:
    flags.DEFINE(_IntegersParser(limits), name, default, help, serializer=flags.ListSerializer(","))


class _FiniteFloatParser(flags.FloatParser):
    def convert(self, argument):
        try:
            value = super().convert(argument)
        except OverflowError:  # a whole number of more than 308 digits
            value = math.inf
        if not math.isfinite(value) or "_" in str(argument):
            raise ValueError("expected a finite number")
        return value


class _IntegersParser(flags.ArgumentParser):
    syntactic_help = "a comma-separated list of whole numbers"

    def __init__(self, limits: bounds.Bounds):
        super().__init__()
        self._limits = limits

    def parse(self, argument):
        parts = argument.split(",") if isinstance(argument, str) else list(argument)
        parts = [str(part).strip() for part in parts if str(part).strip()]
        if not all(part.isdecimal() and self._limits.lower <= int(part) <= self._limits.upper for part in parts):
            raise ValueError(f"it is not {self.syntactic_help} from {self._limits.lower:,} to {self._limits.upper:,}")
        return tuple(map(int, parts))

    def flag_type(self):
        return "list of whole numbers"


class _DecimalParser(flags.IntegerParser):
    def convert(self, argument):
        if isinstance(argument, str) and not argument.lstrip("+-").isdecimal():
            raise ValueError(f"invalid literal for int(): {argument}")
        return super().convert(argument)

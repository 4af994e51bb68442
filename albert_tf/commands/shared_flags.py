"""The flags that commands share, and what their values make: models and their vocabularies, texts, exports.

In the package, flags are read only here, in flag_fields.py, finetuning_flags.py, vector_flags.py and scored_exports.py,
in one function of each command, and where the command line itself is handled (app.py, usage.py).
flag_fields.py says how a command declares flags of its own.
"""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Iterable

import tensorflow as tf
from absl import flags

from albert_tf.commands import flag_fields as fields
from albert_tf.commands.flag_fields import define_float, define_integer, group, string
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import fingerprint
from albert_tf.export.outputs import SERVED_PRECISIONS
from albert_tf.training.checkpoints import BEST
from albert_tf.utils import bounds
from albert_tf.utils.files import is_remote
from albert_tf.weights.heads import HEAD_NAMES
from albert_tf.weights.resolved_model import ModelRequest, ResolvedModel
from albert_tf.weights.stored_model import is_url
from albert_tf.weights.vocabulary_files import VocabularyFiles

if TYPE_CHECKING:
    from albert_tf.modeling.pretrainer import AlbertPretrainer
    from albert_tf.text.tokenization import FullTokenizer

FLAGS = flags.FLAGS
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
PRECISION_HELP = "Data type of the model's computations. Its variables are always float32."
flags.disclaim_key_flags()  # a flag belongs to the command that calls these functions
# The flags of define_source_flags, for the manifests of what is computed with a model.
MODEL_FLAGS = ("init_checkpoint", "albert_hub_module_handle", "albert_config_file", "spm_model_file", "vocab_file",
               "do_lower_case", "keep_accents")


def text_column(content: str) -> Any:
    """A field of options whose flag is the name of the column with the texts of a table.

    Args:
      content: what a row of the table is: "text", "document".
    """
    return string(None, f"Name of the column with the texts, if the input is a table: Parquet, JSON lines, CSV or TSV "
                        f"with a header. Each row is a {content}. Default: the input is text.")


def origin(input_files: Iterable[str]) -> dict[str, Any]:
    """Entries of made_from: the flags that are set, as text, and the digests of local input files."""
    return dict(flags={name: str(flag.value) for name in FLAGS if (flag := FLAGS[name]).present},
                digests={path: fingerprint(path) for path in input_files if not is_remote(path)})


def define_text_column_flag(content: str = "text") -> None:
    """Defines --text_column; see text_column."""
    text_column(content).metadata["define"]("text_column", None)


@group("Model")
def define_source_flags() -> None:
    """Defines the flags that select a model: its config, its weights and its vocabulary."""
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
    define_vocabulary_flags()


@group("Model")
def define_model_flags() -> None:
    """Defines the flags of a model to train: those of define_source_flags, dropout and sharing."""
    define_source_flags()
    define_float("hidden_dropout_prob", None, "Dropout rate, from 0 to 1, of the embeddings and of each layer's "
                 "outputs in training. Default: the config's.")
    define_float("attention_probs_dropout_prob", None, "Dropout rate, from 0 to 1, of the attention probabilities in "
                 "training. Default: the config's.")
    flags.DEFINE_bool("unshare_layers", False, "Whether to give each layer its own copy of the weights that layers "
                      "share. The outputs are the same at the start; training then changes each copy on its own.")


@group("Model")
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


@group("Model")
def define_head_flag(done: str) -> None:
    """Defines --model for ResolvedModel.head.

    Args:
      done: what the command does with the head, as a participle: "exported".
    """
    flags.DEFINE_enum("model", None, HEAD_NAMES, f"The kind of model, which decides which head is {done}; encoder: "
                      "none. Default: as stored with the weights, or inferred from the names of the variables.")


@group("Model")
def define_checkpoint_name_flag() -> None:
    """Defines the release's flag of a checkpoint in --albert_directory."""
    flags.DEFINE_string("checkpoint_name", BEST, "Name of the checkpoint in --albert_directory. If the default does "
                        "not exist, it is the latest or the only checkpoint.")


def define_num_layers_flag() -> None:
    """Defines the flag of a model that is cut after one of its first layers."""
    define_integer("num_layers", None, "Number of layers, from the first on, that a trained model is cut to. The model "
                   "must have exit heads (--exit_heads of run_classifier, run_tagging and run_race). Default: all.",
                   *bounds.LAYERS)


@group("Devices")
def define_precision_flag() -> None:
    """Defines the flag of the data type of computations."""
    flags.DEFINE_enum("precision", "float32", PRECISIONS, PRECISION_HELP)


@dataclasses.dataclass(frozen=True)
class ExportFlags:
    """The flags of a SavedModel to export."""

    GROUP = "Export"

    export_dir: str | None = fields.string(
        None, "Directory of a SavedModel to export, which accepts texts (of run_tagging also words), ids, or "
        "serialized tf.Examples. Default: nothing is exported.")
    export_precision: str | None = fields.choice(
        None, SERVED_PRECISIONS, "Data type of the exported model's computations. Default: the data type in which this "
        "command computes.", needs="export_dir")


def checkpoint_in(directory: str) -> str:
    """The path of --checkpoint_name, or the directory itself if the flag is not set and its default does not exist."""
    path = os.path.join(directory, FLAGS.checkpoint_name)
    is_set = not FLAGS["checkpoint_name"].using_default_value
    return path if is_set or not is_url(directory) and tf.io.gfile.exists(f"{path}.index") else directory


def init_path() -> str | None:
    """The path of the initial weights; None for random weights.

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
        tuple(FLAGS.ensemble_checkpoints) if "ensemble_checkpoints" in FLAGS else (),
        FLAGS.num_layers if "num_layers" in FLAGS else None)
    return ResolvedModel(request, heads)


def masked_lm_from_flags() -> tuple[AlbertPretrainer, FullTokenizer]:
    """The pretrainer that the flags select, for its masked-LM head, and its tokenizer.

    Raises:
      ValueError: see resolve_model and ResolvedModel.pretrained_masked_lm.
    """
    selected = resolve_model()
    model = selected.pretrained_masked_lm()
    return model, selected.vocabulary.tokenizer(model.config)


def vocabulary_from_flags() -> VocabularyFiles:
    """What the flags of the vocabulary set, for VocabularyFiles.replaced_by; empty if none is set."""
    return VocabularyFiles(FLAGS.spm_model_file, FLAGS.vocab_file, FLAGS.do_lower_case, FLAGS.keep_accents)


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

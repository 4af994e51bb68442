"""The flags that commands share, and what their values make: models, vocabularies, texts, vectors of texts, exports.

In the package, flags are read only in flag_fields.py, which says how a command declares flags, in finetuning_flags.py,
in one function of a command, and where the command line itself is handled (app.py, usage.py).
"""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Iterable

from albert_tf.commands import flag_fields as fields
from albert_tf.data.feature_table import fingerprint
from albert_tf.modeling.vectors import POOLINGS, VECTOR_PRECISIONS, VectorPrecision, read_ranges
from albert_tf.tasks.classification.data import find_task
from albert_tf.tasks.classification.task_config import load_task_config
from albert_tf.training.options import BEST
from albert_tf.utils import bounds
from albert_tf.utils.files import is_remote
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.weights.heads import HEAD_NAMES
from albert_tf.weights.settings import POOLING, Settings, VocabularyFiles

if TYPE_CHECKING:
    from albert_tf.modeling.pretrainer import AlbertPretrainer
    from albert_tf.tasks.scores import Scorer
    from albert_tf.text.tokenization import FullTokenizer
    from albert_tf.weights.resolved_model import ResolvedModel

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
SERVED_PRECISIONS = PRECISIONS[:2]
_VECTORS = "sentence_encoder"  # the head whose outputs are vectors of texts
# The flags of SourceFlags, for the manifests of what is computed with a model.
MODEL_FLAGS = ("init_checkpoint", "albert_hub_module_handle", "albert_config_file", "spm_model_file", "vocab_file",
               "do_lower_case", "keep_accents")


def text_column(content: str, needs: str | None = None) -> Any:
    """A field of options whose flag is the name of the column with the texts of a table.

    Args:
      content: what a row of the table is: "text", "document".
    """
    return fields.string(
        None, "Name of the column with the texts, if the input is a table: Parquet, JSON lines, CSV or TSV with a "
        f"header. Each row is a {content}. Default: the input is text.", needs)


def origin(input_files: Iterable[str]) -> dict[str, Any]:
    """Entries of made_from: the flags that are set, as text, and the digests of local input files."""
    return dict(flags=fields.present(),
                digests={path: fingerprint(path) for path in input_files if not is_remote(path)})


@dataclasses.dataclass(frozen=True)
class VocabularyFlags:
    """The flags of the vocabulary, its casing and its accents."""

    GROUP = "Model"

    spm_model_file: str | None = fields.string(
        None, "Path of the SentencePiece model. Default: the one that comes with the weights, if there are any.")
    vocab_file: str | None = fields.string(
        None, "Path of the WordPiece vocabulary, for models without a SentencePiece model: it is ignored if "
        "--spm_model_file is set. Default: the one that comes with the weights, if there are any.")
    do_lower_case: bool | None = fields.boolean(
        None, "Whether to lower-case text. Default: as stored with the weights or the vocabulary, or true if nothing "
        "is stored.")
    keep_accents: bool | None = fields.boolean(
        None, "Whether to keep accents, which the release removes. Default: as stored with the weights or the "
        "vocabulary, or false if nothing is stored.")

    @property
    def user_vocabulary(self) -> VocabularyFiles:
        """What the flags set, for VocabularyFiles.replaced_by; empty if none is set."""
        return VocabularyFiles(self.spm_model_file, self.vocab_file, self.do_lower_case, self.keep_accents)


@dataclasses.dataclass(frozen=True)
class SourceFlags(VocabularyFlags):
    """The flags that select a model: its config, its weights and its vocabulary."""

    GROUP = "Model"

    albert_config_file: str | None = fields.string(
        None, "Path of the model's albert_config.json, or the name of a published size (albert_base_v2). Default: the "
        "config of the weights.")
    init_checkpoint: str | None = fields.string(
        None, "Initial weights: a released directory or its .tar.gz (a path or a URL), a checkpoint, a run's directory "
        "(of several runs the best), a Hugging Face folder, a preset of keras-hub, "
        "hf://org/name[@revision][/subfolder] on the Hugging Face Hub, a TF-Hub module, or "
        "albert_tiny_en, which comes with the package.")
    albert_hub_module_handle: str | None = fields.string(
        None, "Path or URL of a TF-Hub module with the initial weights, instead of --init_checkpoint.")

    @property
    def init_path(self) -> str | None:
        """The path of the initial weights; None for random weights."""
        if self.init_checkpoint and self.albert_hub_module_handle:
            raise ValueError("--init_checkpoint and --albert_hub_module_handle exclude each other: set one of them")
        return self.init_checkpoint or self.albert_hub_module_handle

    def resolve_model(self, *heads: str, **request: Any) -> ResolvedModel:
        """The model that the flags select. A command calls this once, before it reads other files or writes any."""
        from albert_tf.weights.resolved_model import ModelRequest, ResolvedModel

        return ResolvedModel(ModelRequest(self.init_path, self.albert_config_file, vocabulary=self.user_vocabulary,
                                          **request), heads)

    def masked_lm(self) -> tuple[AlbertPretrainer, FullTokenizer]:
        """The pretrainer that the flags select, for its masked-LM head, and its tokenizer."""
        selected = self.resolve_model()
        model = selected.pretrained_masked_lm()
        return model, selected.vocabulary.tokenizer(model.config)


@dataclasses.dataclass(frozen=True)
class ModelFlags(SourceFlags):
    """The flags of a model to train: its source, dropout and sharing."""

    GROUP = "Model"

    hidden_dropout_prob: float | None = fields.number(
        None, "Dropout rate, from 0 to 1, of the embeddings and of each layer's outputs in training. Default: the "
        "config's.")
    attention_probs_dropout_prob: float | None = fields.number(
        None, "Dropout rate, from 0 to 1, of the attention probabilities in training. Default: the config's.")
    unshare_layers: bool = fields.boolean(
        False, "Whether to give each layer its own copy of the weights that layers share. The outputs are the same at "
        "the start; training then changes each copy on its own.")

    def resolve_model(self, *heads: str, **request: Any) -> ResolvedModel:
        """As in SourceFlags, with dropout and sharing."""
        dropout = dict(hidden_dropout_prob=self.hidden_dropout_prob,
                       attention_probs_dropout_prob=self.attention_probs_dropout_prob)
        return super().resolve_model(*heads, unshare_layers=self.unshare_layers, dropout={
            name: value for name, value in dropout.items() if value is not None}, **request)


@dataclasses.dataclass(frozen=True)
class HeadFlags:
    """The flag of a head (see ResolvedModel.head)."""

    GROUP = "Model"

    model: str | None = fields.choice(
        None, HEAD_NAMES, "The kind of model, which decides which head it has; encoder: none. Default: as stored with "
        "the weights, or inferred from the names of the variables.")


@dataclasses.dataclass(frozen=True)
class ReleasedCheckpointFlags:
    """The release's flag of a checkpoint in --albert_directory."""

    GROUP = "Model"

    checkpoint_name: str | None = fields.string(
        None, f"Name of the checkpoint in --albert_directory. Default: {BEST}, or if it does not exist the latest or "
        "the only checkpoint.")

    def checkpoint_in(self, directory: str) -> str:
        """The path of the checkpoint, or the directory itself if the flag is not set and its default does not exist."""
        from albert_tf.weights.stored_model import is_url

        path = os.path.join(directory, self.checkpoint_name or BEST)
        is_set = self.checkpoint_name is not None
        return path if is_set or not is_url(directory) and tf.io.gfile.exists(f"{path}.index") else directory


@dataclasses.dataclass(frozen=True)
class SharingFlags:
    """The flags of a model that becomes smaller, or whose embeddings become wider."""

    embedding_size: int | None = fields.integer(
        None, "Another embedding size (E) for the written model, which then needs further training. A larger one: new "
        "columns are random, and what reads them starts at zero. A smaller one, for a BERT: a singular value "
        "decomposition of the word table.", bounds.Bounds(1, 2**16))
    share_layers: int | None = fields.integer(
        None, "Number of groups of layers that share their weights in the written model, which then needs further "
        "training: the means of the layers of a BERT or of an ALBERT without sharing. 1: all layers share.",
        bounds.LAYERS)


@dataclasses.dataclass(frozen=True)
class NumLayersFlags:
    """The flag of a model that is cut after one of its first layers."""

    GROUP = "Model"

    num_layers: int | None = fields.integer(
        None, "Number of layers, from the first on, that a trained model is cut to. Unless it was trained for that "
        "number (--distillation_depths), it may need further training. Default: all.", bounds.LAYERS)


@dataclasses.dataclass(frozen=True)
class PrecisionFlags:
    """The flag of the data type of computations."""

    GROUP = "Devices"

    precision: str = fields.choice("float32", PRECISIONS, "Data type of the model's computations. Its variables are "
                                   "always float32.")


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
        return min(largest, model.config.max_position_embeddings)
    except ValueError:
        return largest


@dataclasses.dataclass(frozen=True)
class SizeFlags:
    """The flag of the size of sentence vectors."""

    GROUP = "Model"

    truncate_dim: int | None = fields.integer(
        None, "Number of dimensions of sentence vectors; the others are left out before vectors are normalized. "
        "Default: as stored with the weights, or all if nothing is stored.", bounds.WIDTH)


@dataclasses.dataclass(frozen=True)
class VectorPrecisionFlags(SizeFlags):
    """The flags of the size and the precision of sentence vectors."""

    GROUP = "Model"

    vector_precision: str = fields.choice(
        "float32", VECTOR_PRECISIONS, "Precision of stored and exported sentence vectors. int8: a byte for each "
        "dimension, which counts steps of 1/255 of its range. binary: a bit for each dimension, which is 1 if it is "
        "positive.")
    vector_ranges: str | None = fields.string(
        None, "Path of an .npy file with the smallest and the largest value of each dimension, float32 [2, "
        "dimensions], for --vector_precision=int8. extract_embeddings writes it.")

    def stored_precision(self) -> VectorPrecision:
        """The precision that the flags select."""
        name, ranges = self.vector_precision, self.vector_ranges
        if name == "int8" and not ranges:
            raise ValueError("--vector_precision=int8 needs --vector_ranges, the file NAME.ranges.npy that "
                             "extract_embeddings --vector_precision=int8 writes beside its vectors")
        if ranges and name != "int8":
            raise ValueError(f"--vector_ranges is for --vector_precision=int8. Received: --vector_precision={name}")
        return VectorPrecision(name, read_ranges(ranges) if ranges else None)

    def vector_arguments(self) -> dict[str, Any]:
        """The arguments of a sentence encoder that these flags set."""
        stored = self.stored_precision()
        truncated = {} if self.truncate_dim is None else dict(truncate_dim=self.truncate_dim)
        return dict(truncated, vector_precision=stored.name, vector_ranges=stored.ranges)


@dataclasses.dataclass(frozen=True)
class PoolingFlags(SizeFlags):
    """The flags of pooling, which makes the vector of a text from the vectors of its tokens."""

    GROUP = "Model"

    pooling: str | None = fields.choice(
        None, POOLINGS, "The vector of a text: the mean or the maximum over its tokens, the vector of [CLS] (cls), or "
        "the pooled output (pooler). Default: the pooling that is stored with the weights. If none is stored: mean, "
        "for export_to_tfhub pooler.")


@dataclasses.dataclass(frozen=True)
class VectorFlags(PoolingFlags):
    """The flags of pooling and normalization."""

    GROUP = "Model"

    normalize: bool | None = fields.boolean(
        None, "Whether to scale the vectors of texts to length 1. Default: as stored with the weights, or false if "
        "nothing is stored.")


@dataclasses.dataclass(frozen=True)
class PromptFlags:
    """The flag of the prompt of a sentence encoder."""

    GROUP = "Model"

    prompt_name: str | None = fields.string(
        None, "Name of the prompt that is put before each text, one of those that are stored with a sentence encoder; "
        '"": none. Default: the default prompt of the model.')


@dataclasses.dataclass(frozen=True)
class TextFlags:
    """The flags of texts whose vectors are computed."""

    max_seq_length: int | None = fields.integer(
        None, "Largest number of tokens of a text; longer texts are truncated. Default: the number stored with the "
        "weights, or the model's max_position_embeddings if none is stored.", bounds.SEQ_LENGTH.at_least(3))
    batch_size: int = fields.integer(32, "Number of texts in a batch.", bounds.BATCH_SIZE)


def sentence_pooling(model: ResolvedModel, options: PoolingFlags) -> dict[str, Any]:
    """The arguments of a sentence encoder that the flags of pooling, prompt and --max_seq_length set.

    If a flag is not set, or no flag of the command, the value is the one stored with the weights, the run in
    --output_dir or the ensemble; without a stored pooling, it is the mean.
    """
    arguments = replaced_pooling(model.stored.settings if model.stored else Settings(), options)
    if model.settings.head != _VECTORS:
        return arguments
    return {name: model.reconciled(name, value, "prompt_name" if name == "default_prompt_name" else name)
            for name, value in arguments.items()}


def replaced_pooling(stored: Settings, options: PoolingFlags, **defaults: Any) -> dict[str, Any]:
    """The arguments of sentence_pooling, from the flags, or else from settings of a sentence encoder, or defaults."""
    stored = stored if stored.head == _VECTORS else Settings(_VECTORS, defaults)
    requested = {name: getattr(options, name, None) for name in (*POOLING, "max_seq_length")}
    requested["default_prompt_name"] = getattr(options, "prompt_name", None)
    return {name: getattr(stored, name) if value is None else value for name, value in requested.items()}


def check_no_pooling(options: VectorFlags, message: str) -> None:
    """Raises ValueError if a flag of sentence vectors is set; its name takes the place of {} in the message."""
    for name in ("pooling", "normalize", "truncate_dim", "vector_precision"):
        if getattr(options, name, None) not in (None, "float32"):
            raise ValueError(message.format(name))


def pooling_arguments(selected: ResolvedModel, head: str, options: VectorFlags) -> dict[str, Any]:
    """The arguments of a sentence encoder, from the flags; none for another head."""
    if head != _VECTORS:
        check_no_pooling(options, f"--{{}} is for --model=sentence_encoder. Received: --model={head}")
        return {}
    precision = options.vector_arguments() if isinstance(options, VectorPrecisionFlags) else {}
    return {**sentence_pooling(selected, options), **precision}


@dataclasses.dataclass(frozen=True)
class ScoreFlags:
    """The flags of a dev file on which an export is scored."""

    GROUP = "Export"

    score_data: str | None = fields.string(
        None, "Path of a dev file of the model's task, on which the model is scored before and after the export: "
        "SQuAD's JSON, CoNLL for tags, JSON lines for multiple choice; for texts and sentence vectors a file with the "
        "columns of --task_name or --task_config. Default: nothing is scored.")
    max_score_drop: float | None = fields.number(
        None, "Largest part of the score that an export of --score_data may lose: 0.005 allows half a per cent. If one "
        "loses more, nothing is written. Default: any.", 0.0, needs="score_data")
    task_name: str | None = fields.string(
        None, "Name of the GLUE task of --score_data, such as sst-2.", needs="score_data")
    task_config: str | None = fields.string(
        None, "Path of a JSON file that describes a task of your own, instead of --task_name (docs/fine_tuning.md "
        "shows one).", needs="score_data")


@dataclasses.dataclass(frozen=True)
class ExportOptions(SourceFlags, HeadFlags, VectorFlags, VectorPrecisionFlags,
                    NumLayersFlags, ScoreFlags):
    """The flags of a command that exports files in several precisions."""

    def scorer(self, model: ResolvedModel, head: str) -> Scorer | None:
        """The function that scores a model with a head on --score_data; None if the flag is not set."""
        from albert_tf.tasks.scores import scorer

        if not self.score_data:
            return None
        if self.task_name and self.task_config:
            raise ValueError("set either --task_name or --task_config")
        task = load_task_config(self.task_config) if self.task_config else None
        return scorer(head, self.score_data, model.vocabulary.tokenizer(model.config),
                      find_task(self.task_name) if self.task_name else task, self.stored_precision())

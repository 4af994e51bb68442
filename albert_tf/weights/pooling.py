"""The options of vectors of texts: pooling, size, precision and prompt, and the arguments of a model that they make."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from albert_tf import options as fields
from albert_tf.modeling.vectors import POOLINGS, VECTOR_PRECISIONS, VectorPrecision, read_ranges
from albert_tf.options import Config
from albert_tf.utils import bounds
from albert_tf.weights.settings import POOLING, Settings

if TYPE_CHECKING:
    from albert_tf.weights.resolved_model import ResolvedModel

_VECTORS = "sentence_encoder"  # the head whose outputs are vectors of texts


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorSize(Config):
    """The size of vectors of texts."""

    GROUP: ClassVar[str | None] = "Model"

    truncate_dim: int | None = fields.integer(
        None, "Number of dimensions of sentence vectors; the others are left out before vectors are normalized. "
        "Default: as stored with the weights, or all if nothing is stored.", bounds.WIDTH)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredVectors(VectorSize):
    """The size and the precision of stored vectors of texts."""

    GROUP: ClassVar[str | None] = "Model"

    vector_precision: str = fields.choice(
        "float32", VECTOR_PRECISIONS, "Precision of stored and exported sentence vectors. int8: a byte for each "
        "dimension, which counts steps of 1/255 of its range. binary: a bit for each dimension, which is 1 if it is "
        "positive.")
    vector_ranges: str | None = fields.string(
        None, "Path of an .npy file with the smallest and the largest value of each dimension, float32 [2, "
        "dimensions], for --vector_precision=int8. extract_embeddings writes it.")

    def stored_precision(self) -> VectorPrecision:
        """The precision that is selected."""
        name, ranges = self.vector_precision, self.vector_ranges
        if name == "int8" and not ranges:
            raise ValueError("--vector_precision=int8 needs --vector_ranges, the file NAME.ranges.npy that "
                             "extract_embeddings --vector_precision=int8 writes beside its vectors")
        if ranges and name != "int8":
            raise ValueError(f"--vector_ranges is for --vector_precision=int8. Received: --vector_precision={name}")
        return VectorPrecision(name, read_ranges(ranges) if ranges else None)

    def vector_arguments(self) -> dict[str, Any]:
        """The arguments of a sentence encoder that are set."""
        stored = self.stored_precision()
        truncated = {} if self.truncate_dim is None else dict(truncate_dim=self.truncate_dim)
        return dict(truncated, vector_precision=stored.name, vector_ranges=stored.ranges)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pooling(VectorSize):
    """The pooling, which makes the vector of a text from the vectors of its tokens."""

    GROUP: ClassVar[str | None] = "Model"

    pooling: str | None = fields.choice(
        None, POOLINGS, "The vector of a text: the mean or the maximum over its tokens, the vector of [CLS] (cls), or "
        "the pooled output (pooler). Default: the pooling that is stored with the weights. If none is stored: mean, "
        "for export_to_tfhub pooler.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormalizedPooling(Pooling):
    """Pooling and normalization."""

    GROUP: ClassVar[str | None] = "Model"

    normalize: bool | None = fields.boolean(
        None, "Whether to scale the vectors of texts to length 1. Default: as stored with the weights, or false if "
        "nothing is stored.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prompt(Config):
    """The prompt of a sentence encoder."""

    GROUP: ClassVar[str | None] = "Model"

    prompt_name: str | None = fields.string(
        None, "Name of the prompt that is put before each text, one of those that are stored with a sentence encoder; "
        '"": none. Default: the default prompt of the model.')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Texts(Config):
    """Texts whose vectors are computed."""

    max_seq_length: int | None = fields.integer(
        None, "Largest number of tokens of a text; longer texts are truncated. Default: the number stored with the "
        "weights, or the model's max_position_embeddings if none is stored.", bounds.SEQ_LENGTH.at_least(3))
    batch_size: int = fields.integer(32, "Number of texts in a batch.", bounds.BATCH_SIZE)


def sentence_pooling(model: ResolvedModel, config: Pooling) -> dict[str, Any]:
    """The arguments of a sentence encoder that the options of pooling, prompt and max_seq_length set.

    If an option is not set, or the config does not have it, the value is the one stored with the weights, the run in
    --output_dir or the ensemble; without a stored pooling, it is the mean.
    """
    arguments = replaced_pooling(model.stored.settings if model.stored else Settings(), config)
    if model.settings.head != _VECTORS:
        return arguments
    return {name: model.effective_value(name, value, "prompt_name" if name == "default_prompt_name" else name)
            for name, value in arguments.items()}


def replaced_pooling(stored: Settings, config: Pooling, **defaults: Any) -> dict[str, Any]:
    """The arguments of sentence_pooling, from the options, or else from settings of a sentence encoder, or defaults."""
    stored = stored if stored.head == _VECTORS else Settings(_VECTORS, defaults)
    requested = {name: getattr(config, name, None) for name in (*POOLING, "max_seq_length")}
    requested["default_prompt_name"] = getattr(config, "prompt_name", None)
    return {name: getattr(stored, name) if value is None else value for name, value in requested.items()}


def check_no_pooling(config: Pooling, message: str) -> None:
    """Raises ValueError if an option of sentence vectors is set; its name takes the place of {} in the message."""
    for name in ("pooling", "normalize", "truncate_dim", "vector_precision"):
        if getattr(config, name, None) not in (None, "float32"):
            raise ValueError(message.format(name))


def pooling_arguments(selected: ResolvedModel, head: str, config: Pooling) -> dict[str, Any]:
    """The arguments of a sentence encoder, from the options; none for another head."""
    if head != _VECTORS:
        check_no_pooling(config, f"--{{}} is for --model=sentence_encoder. Received: --model={head}")
        return {}
    precision = config.vector_arguments() if isinstance(config, StoredVectors) else {}
    return {**sentence_pooling(selected, config), **precision}

"""The flags of sentence vectors: pooling, size and precision, and how many texts are computed at a time."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from albert_tf.commands import flag_fields as fields
from albert_tf.modeling.vectors import POOLINGS, VECTOR_PRECISIONS, VectorPrecision, read_ranges
from albert_tf.utils import bounds
from albert_tf.weights.settings import POOLING, Settings

if TYPE_CHECKING:
    from albert_tf.weights.resolved_model import ResolvedModel

_HEAD = "sentence_encoder"


@dataclasses.dataclass(frozen=True)
class SizeFlags:
    """The flag of the size of sentence vectors."""

    GROUP = "Model"

    truncate_dim: int | None = fields.integer(
        None, "Number of dimensions of sentence vectors; the others are left out before vectors are normalized. "
        "Default: as stored with the weights, or all if nothing is stored.", bounds.WIDTH)


@dataclasses.dataclass(frozen=True)
class PrecisionFlags(SizeFlags):
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
class TextFlags:
    """The flags of texts whose vectors are computed."""

    max_seq_length: int | None = fields.integer(
        None, "Largest number of tokens of a text; longer texts are truncated. Default: the number stored with the "
        "weights, or the model's max_position_embeddings if none is stored.", bounds.SEQ_LENGTH.at_least(3))
    batch_size: int = fields.integer(32, "Number of texts in a batch.", bounds.BATCH_SIZE)


def sentence_pooling(model: ResolvedModel, options: PoolingFlags) -> dict[str, Any]:
    """The arguments of a sentence encoder that --pooling, --normalize, --truncate_dim and --max_seq_length set.

    If a flag is not set, or no flag of the command, the value is the one stored with the weights, the run in
    --output_dir or the ensemble; without a stored pooling, it is the mean.
    """
    arguments = replaced_pooling(model.stored.settings if model.stored else Settings(), options)
    if model.settings.head != _HEAD:
        return arguments
    return {name: model.setting(name, value) for name, value in arguments.items()}


def replaced_pooling(stored: Settings, options: PoolingFlags, **defaults: Any) -> dict[str, Any]:
    """The arguments of sentence_pooling, from the flags, or else from settings of a sentence encoder, or defaults."""
    stored = stored if stored.head == _HEAD else Settings(_HEAD, defaults)
    requested = {name: getattr(options, name, None) for name in (*POOLING, "max_seq_length")}
    return {name: getattr(stored, name) if value is None else value for name, value in requested.items()}


def check_no_pooling(options: VectorFlags, message: str) -> None:
    """Raises ValueError if a flag of sentence vectors is set; its name takes the place of {} in the message."""
    for name in ("pooling", "normalize", "truncate_dim", "vector_precision"):
        if getattr(options, name, None) not in (None, "float32"):
            raise ValueError(message.format(name))


def pooling_arguments(selected: ResolvedModel, head: str, options: VectorFlags) -> dict[str, Any]:
    """The arguments of a sentence encoder, from the flags; none for another head."""
    if head != _HEAD:
        check_no_pooling(options, f"--{{}} is for --model=sentence_encoder. Received: --model={head}")
        return {}
    precision = options.vector_arguments() if isinstance(options, PrecisionFlags) else {}
    return {**sentence_pooling(selected, options), **precision}

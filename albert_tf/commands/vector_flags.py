"""The flags of sentence vectors: pooling, size and precision, and how many texts are computed at a time."""

from __future__ import annotations

from typing import Any

from absl import flags

from albert_tf.commands.flag_fields import define_integer, group
from albert_tf.modeling.pooling import POOLINGS
from albert_tf.modeling.vector_precision import VECTOR_PRECISIONS, VectorPrecision, read_ranges
from albert_tf.utils import bounds
from albert_tf.weights.resolved_model import ResolvedModel
from albert_tf.weights.settings import POOLING, Settings

FLAGS = flags.FLAGS
_HEAD = "sentence_encoder"
flags.disclaim_key_flags()  # a flag belongs to the command that calls these functions


@group("Model")
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


@group("Model")
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


def define_text_flags(texts: str) -> None:
    """Defines --max_seq_length and --batch_size of a command that computes vectors of `texts`, such as "lines"."""
    define_integer("max_seq_length", None, "Largest number of tokens of a text; longer texts are truncated. "
                   "Default: the number stored with the weights, or the model's max_position_embeddings if none is "
                   "stored.",
                   *bounds.SEQ_LENGTH.at_least(3))
    define_integer("batch_size", 32, f"Number of {texts} in a batch.", *bounds.BATCH_SIZE)


def sentence_pooling(model: ResolvedModel) -> dict[str, Any]:
    """The arguments of a sentence encoder that --pooling, --normalize, --truncate_dim and --max_seq_length set.

    If a flag is not set or not defined, the value is the one stored with the weights, the run in --output_dir or the
    ensemble; without a stored pooling, it is the mean.

    Args:
      model: the result of `resolve_model`.
    """
    arguments = pooling_from_flags(model.stored.settings if model.stored else Settings())
    if model.settings.head != _HEAD:
        return arguments
    return {name: model.setting(name, value) for name, value in arguments.items()}


def pooling_from_flags(stored: Settings, **defaults: Any) -> dict[str, Any]:
    """The arguments of sentence_pooling, from the flags, or else from settings of a sentence encoder, or defaults."""
    stored = stored if stored.head == _HEAD else Settings(_HEAD, defaults)
    requested = {name: FLAGS[name].value if name in FLAGS else None for name in (*POOLING, "max_seq_length")}
    return {name: getattr(stored, name) if value is None else value for name, value in requested.items()}


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
        pooling = sentence_pooling(selected)
        return {**pooling, **vector_arguments()} if "vector_precision" in FLAGS else pooling
    for name in ("pooling", "normalize", "truncate_dim", "vector_precision"):
        if name in FLAGS and FLAGS[name].value not in (None, "float32"):
            raise ValueError(f"--{name} is for --model=sentence_encoder. Received: --model={model}")
    return {}

"""The vectors of texts: options of their pooling, size and prompt, and the arguments of a sentence encoder they set.

These configs are made before TensorFlow is imported.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

from albert_tf.modeling.settings import SentenceEncoderSettings, Settings
from albert_tf.modeling.vectors import POOLINGS
from albert_tf.options import Config
from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf
from albert_tf.weights.settings import POOLING

if TYPE_CHECKING:
    from albert_tf.weights.choice import ChosenModel


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorSize(Config, group="Model"):
    """The size of vectors of texts."""

    truncate_dim: Annotated[
        int | None, bounds.WIDTH, "Number of dimensions of sentence vectors; the others are left out before vectors "
        "are normalized. Default: as stored with the weights, or all if nothing is stored."] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pooling(VectorSize, group="Model"):
    """The pooling, which makes the vector of a text from the vectors of its tokens, and normalization."""

    pooling: Annotated[
        str | None, OneOf(POOLINGS), "The vector of a text: the mean or the maximum over its tokens, the vector of "
        "[CLS] (cls), or the pooled output (pooler). Default: the pooling that is stored with the weights. If none is "
        "stored: mean, for export_to_tfhub pooler."] = None
    normalize: Annotated[
        bool | None, "Whether to scale the vectors of texts to length 1. Default: as stored with the weights, or false "
        "if nothing is stored."] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prompt(Config, group="Model"):
    """The prompt of a sentence encoder."""

    prompt_name: Annotated[
        str | None, "Name of the prompt that is put before each text, one of those that are stored with a sentence "
        "encoder; \"\": none. Default: the default prompt of the model."] = None


def sentence_pooling(model: ChosenModel, config: Pooling) -> dict[str, Any]:
    """The arguments of a sentence encoder that the options of pooling, prompt and max_seq_length set.

    If an option is not set, or the config does not have it, the value is the one stored with the weights, the run in
    --output_dir or the ensemble; without a stored pooling, it is the mean.
    """
    arguments = replaced_pooling(model.weights.settings if model.weights else Settings(), config)
    if model.settings.head != "sentence_encoder":
        return arguments
    return {name: model.effective_value(name, value, "prompt_name" if name == "default_prompt_name" else name)
            for name, value in arguments.items()}


def pooling_arguments(selected: ChosenModel, head: str, config: Pooling) -> dict[str, Any]:
    """The arguments of a sentence encoder, from the options; none for another head."""
    if head == "sentence_encoder":
        return sentence_pooling(selected, config)
    for name in ("pooling", "normalize", "truncate_dim"):
        if getattr(config, name) is not None:
            raise ValueError(f"--{name} is for --model=sentence_encoder. Received: --model={head}")
    return {}


def replaced_pooling(stored: Settings, config: Pooling, **defaults: Any) -> dict[str, Any]:
    """The arguments of sentence_pooling, from the options, or else from settings of a sentence encoder, or defaults."""
    if not isinstance(stored, SentenceEncoderSettings):
        stored = SentenceEncoderSettings(**defaults)
    requested = {name: getattr(config, name, None) for name in (*POOLING, "max_seq_length")}
    requested["default_prompt_name"] = getattr(config, "prompt_name", None)
    return {name: getattr(stored, name) if value is None else value for name, value in requested.items()}

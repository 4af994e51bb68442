"""Models for the server: from weights in any format, with signatures that depend on the head, or from a SavedModel."""

from __future__ import annotations

import functools
import itertools
import os
import re
import tempfile
from typing import Any, Callable, Iterable, Mapping

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.data.batching import bucket_lengths
from albert_tf.export.saved_model import OPTIONAL_INPUTS, exported_label_names, view_of
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.layer_states import layer_distances
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.token_classifier import AlbertTokenClassifier
from albert_tf.server.signatures import (
    SENTENCE_ORDER,
    Columns,
    InputSpec,
    OutputSpec,
    ServedModel,
    Signature,
    description_of,
    row_function,
)
from albert_tf.tasks.classification.export import export_classification
from albert_tf.tasks.masked_lm.export import export_mask_filling
from albert_tf.tasks.multiple_choice.export import export_multiple_choice
from albert_tf.tasks.sentence_vectors.export import export_sentence_encoder
from albert_tf.tasks.squad.answers import AnswerOptions
from albert_tf.tasks.squad.export import export_question_answering
from albert_tf.tasks.squad.text_answers import feature_options as squad_options
from albert_tf.tasks.tagging.export import export_tagging
from albert_tf.tasks.tagging.text_tags import feature_options as tagging_options
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.files import names_in
from albert_tf.weights.from_pretrained import build, warn_of_random_parts
from albert_tf.weights.heads import head_of, head_of_source
from albert_tf.weights.open_source import is_hub_module
from albert_tf.weights.source import Source

LAYER_DISTANCES = "layer_distances"


def model_of_source(
    name: str, source: Source, model: str | None = None, top_k: int = 5, vectors: Mapping[str, Any] | None = None,
) -> ServedModel:
    """A model with all signatures that its head allows.

    These are the signatures of the SavedModel that the head's script exports. In addition, a pre-trained model predicts
    whether two texts are in order, and every model has the distances between the inputs and outputs of its layers.

    Args:
      name: name of the model in URLs.
      source: the weights and their vocabulary.
      model: the kind of model (see from_pretrained); None: the one that is stored with the source, or that the
        names of its variables tell.
      top_k: number of pieces per mask.
      vectors: arguments of AlbertSentenceEncoder that replace those of a sentence encoder; None for none.

    Raises:
      ValueError: there is no vocabulary, the kind of model is unclear, or the weights cannot be read.
    """
    tokenizer = source.vocabulary.tokenizer()
    kind = model or head_of_source(source)
    built, report = build(source, kind, **(vectors or {} if kind == "sentence_encoder" else {}))
    warn_of_random_parts(kind, report, source.path)
    signatures: dict[str, Signature] = {}
    exports: dict[str, Callable] = dict(_EXPORTS, pretrainer=functools.partial(export_mask_filling, top_k=top_k))
    export = exports.get(head_of(built).name)
    if export is not None and not any(variable.startswith("cls/predictions/") for variable in report.not_restored):
        with tempfile.TemporaryDirectory() as folder:
            export(os.path.join(folder, "served"), built, tokenizer)
            signatures.update(_signatures(os.path.join(folder, "served")))
    encoder = getattr(built, "albert", built)
    if isinstance(built, AlbertPretrainer) and not any("seq_relationship" in name for name in report.not_restored):
        signatures[SENTENCE_ORDER] = _of_texts(
            ("text_a", "text_b"), tokenizer, built.config.max_position_embeddings, SENTENCE_ORDER,
            functools.partial(_sentence_order, built), dict(probabilities=2))
    if isinstance(encoder, AlbertModel):
        signatures[LAYER_DISTANCES] = _of_texts(("text",), tokenizer, built.config.max_position_embeddings,
                                                LAYER_DISTANCES, functools.partial(layer_distances, encoder),
                                                dict.fromkeys(("distances", "angles"), built.config.num_hidden_layers))
    return ServedModel(name, description_of(head_of(built).name, source.path, built.config), signatures)


def model_of_saved_model(name: str, path: str) -> ServedModel:
    """A SavedModel with its signatures. Its graph runs like any program of its author.

    Args:
      name: name of the model in URLs.
      path: path of the SavedModel, or of a folder of numbered versions, of which the latest is served.

    Raises:
      ValueError: there is no SavedModel at the path, or it has no signature.
    """
    version = latest_version(path)
    return ServedModel(name, f"SavedModel {version}", _signatures(version))


def latest_version(path: str) -> str:
    """The path of the SavedModel at a path, or of the latest in a folder of numbered versions (NAME/1, NAME/2)."""
    names = [] if is_hub_module(path) else [name.rstrip("/") for name in names_in(path)]
    versions = [name for name in names if name.isdecimal()]
    return os.path.join(path, max(versions, key=int)) if versions else path


def names_of(paths: Iterable[str]) -> list[str]:
    """A name for each path, without characters that URLs escape, and with a number if two names are equal.

    The name is the last part of the path, or in TensorFlow Serving's layout (NAME/1) the part before the version.
    """
    names: list[str] = []
    for path in paths:
        parent, last = os.path.split(path.rstrip("/"))
        if last.isdigit() and parent:
            last = os.path.basename(parent)
        base = re.sub(r"[^\w.-]+", "_", last) or "model"
        numbered = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
        names.append(next(name for name in numbered if name not in names))
    return names


def _export_classification(folder: str, model: AlbertClassifier, tokenizer: FullTokenizer) -> None:
    export_classification(folder, model, tokenizer, model.row_length, has_pairs=not model.single_texts,
                          is_regression=model.num_labels == 1, windows=model.long_texts.windows)


def _export_answers(version: str, folder: str, model: keras.Model, tokenizer: FullTokenizer) -> None:
    export_question_answering(folder, model, tokenizer, squad_options(model), AnswerOptions(version))


def _export_choices(folder: str, model: keras.Model, tokenizer: FullTokenizer) -> None:
    export_multiple_choice(folder, model, tokenizer, model.row_length, max_qa_length=model.max_qa_length or 128)


def _export_tagging(folder: str, model: AlbertTokenClassifier, tokenizer: FullTokenizer) -> None:
    if model.label_names is None:
        model.label_names = tuple(f"label {number}" for number in range(model.num_labels))
    export_tagging(folder, model, tokenizer, tagging_options(model))


def _export_sentences(folder: str, model: AlbertSentenceEncoder, tokenizer: FullTokenizer) -> None:
    export_sentence_encoder(folder, model, tokenizer, model.row_length)


# By the name of the head; that of a pretrainer also takes top_k. Other models have no signature of their own.
_EXPORTS: Mapping[str, Callable] = dict(
    classifier=_export_classification, multiple_choice=_export_choices, token_classifier=_export_tagging,
    sentence_encoder=_export_sentences, span=functools.partial(_export_answers, "1.1"),
    conditional_span=functools.partial(_export_answers, "2.0"))


def _sentence_order(model: AlbertPretrainer, inputs: dict) -> dict[str, tf.Tensor]:
    """Probabilities [batch, 2] that two texts are in order, and swapped (BERT: consecutive, and not consecutive)."""
    positions = tf.zeros([tf.shape(inputs["input_ids"])[0], 1], tf.int32)
    return dict(probabilities=tf.nn.softmax(model(dict(inputs, masked_lm_positions=positions))["sop_logits"]))


def _of_texts(
    names: tuple[str, ...], tokenizer: FullTokenizer, max_seq_length: int, view: str, outputs: Callable[[dict], dict],
    sizes: Mapping[str, int],
) -> Signature:
    """Makes a signature for one text or two from a function of the model's inputs, whose outputs are [batch, size]."""
    function = tf.function(outputs, autograph=False, reduce_retracing=True)

    def run(columns: Columns) -> dict[str, np.ndarray]:
        first, *others = ([text.decode("utf-8", "replace") for text in columns[name]] for name in names)
        inputs = tokenizer(first, others[0] if others else None, max_seq_length=max_seq_length)
        length = inputs["input_ids"].shape[1]
        padding = min(bucket for bucket in bucket_lengths(max_seq_length) if bucket >= length) - length  # few shapes
        return {name: value.numpy() for name, value in function(
            {name: tf.constant(np.pad(array, [(0, 0), (0, padding)])) for name, array in inputs.items()}).items()}

    return Signature({name: InputSpec("string", (None,)) for name in names}, run, view,
                     outputs={name: OutputSpec("float32", (None, size)) for name, size in sizes.items()})


def _signatures(path: str) -> dict[str, Signature]:
    import tensorflow_text  # noqa: F401  registers the ops of the tokenization

    try:
        loaded = tf.saved_model.load(path)
        signatures = dict(loaded.signatures)
    except (AttributeError, OSError, ValueError, tf.errors.OpError) as error:
        raise ValueError(_reason(path) or f"{path} cannot be loaded as a SavedModel: {error}") from error
    if not signatures:
        raise ValueError(f"{path} is a SavedModel without signatures")
    labels = exported_label_names(path)
    return {name: _signature(loaded, function, labels) for name, function in signatures.items()}


def _reason(path: str) -> str | None:
    """Why there is no SavedModel at a path, and what to do; None if there is one."""
    if is_hub_module(path):
        return None
    if not tf.io.gfile.exists(path):
        return f"{path} does not exist"
    inside = [name.rstrip("/") for name in names_in(path)]
    models = [os.path.join(path, name) for name in inside if is_hub_module(latest_version(os.path.join(path, name)))]
    if models:
        return f"{path} is not a SavedModel, but it contains some: choose {' or '.join(sorted(models))}"
    if any(name.endswith((".index", ".safetensors")) for name in inside):
        return f"{path} has weights and is not a SavedModel: set --init_checkpoint instead of --saved_model"
    return f"{path} is not a SavedModel: it has no saved_model.pb"


def _signature(loaded, function, labels: tuple[str, ...]) -> Signature:
    """A signature of a SavedModel. It keeps a reference to the loaded object, which owns the variables."""
    specs = dict(sorted(function.structured_input_signature[1].items()))  # TensorFlow 2.15 has them in any order
    view = view_of(specs, function.structured_outputs)

    def run(columns: Columns, loaded=loaded) -> dict[str, np.ndarray]:
        tensors = {name: tf.constant(column, specs[name].dtype) for name, column in columns.items()}
        try:
            return {name: value.numpy() for name, value in function(**tensors).items()}
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(error.message) from error

    inputs = {name: InputSpec(spec.dtype.name, tuple(spec.shape.as_list()), OPTIONAL_INPUTS.get(name))
              for name, spec in specs.items()}
    outputs = {name: OutputSpec(spec.dtype.name, None if spec.shape.rank is None else tuple(spec.shape.as_list()))
               for name, spec in sorted(function.structured_outputs.items())}
    return Signature(inputs, run, view, row_function(specs, view), labels, outputs)

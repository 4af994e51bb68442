"""Exports a classifier as a SavedModel that takes raw texts or pairs of texts."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.export.saved_model import TextSignature, best_label, export_model, sequence_features
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.text.graph.packing import pack_text_windows, pack_texts
from albert_tf.text.packing import WindowOptions
from albert_tf.text.tokenization import FullTokenizer


def export_classification(
    export_dir: str, model: AlbertClassifier, tokenizer: FullTokenizer, max_seq_length: int, has_pairs: bool,
    is_regression: bool = False, threshold: float | None = None, windows: WindowOptions = WindowOptions(),
) -> None:
    """Writes a SavedModel that labels texts (see export_model for the signatures).

    The inputs as raw text are `text_a` and, if has_pairs, `text_b`, string [batch]; "" means no second text. The
    outputs are probabilities, float32 [batch, labels], predictions [batch], the index of the most probable label, and,
    if the model has label names, labels, string [batch], its name, and label_names, string [batch, labels], the name of
    each probability. If a text can have several labels, predictions are int32 [batch, labels], 1 for those that are
    predicted, and labels are string [batch, labels], "" for the others. For regression and ranking, probabilities and
    predictions are the score. If a threshold is set, it is another output, float32 [batch]. With windows, raw text is
    split into windows, and a tf.Example has max_windows rows. The signature for token ids takes rows of a single
    window.
    """
    def outputs(model_outputs: dict) -> dict:
        logits = model_outputs["logits"]
        if model.activation_fn:  # of a model that ranks
            logits = model.score_of(logits)
        if is_regression:
            served = dict(probabilities=logits, predictions=logits[:, 0])
        else:
            served = _several_labels(model, logits) if model.multi_label else _one_label(model, logits)
            if model.label_names:
                served["label_names"] = tf.tile(tf.constant(model.label_names)[None], [tf.shape(logits)[0], 1])
        if threshold is not None:
            served["threshold"] = tf.fill(tf.shape(logits)[:1], threshold)  # [batch]
        return served

    def pack(graph_tokenizer, **texts) -> dict:
        if windows.max_windows > 1:
            return pack_text_windows(graph_tokenizer, max_seq_length, windows, **texts)
        return pack_texts(graph_tokenizer, max_seq_length, **texts)

    features = sequence_features(max_seq_length, windows.max_windows)
    text_inputs = dict(text_a=[None], text_b=[None]) if has_pairs else dict(text_a=[None])
    export_model(export_dir, model, tokenizer, features, outputs, TextSignature(text_inputs, pack),
                 label_names=None if is_regression else model.label_names)


def _one_label(model: AlbertClassifier, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    served = dict(best_label(logits), probabilities=model.probabilities(logits))
    if model.label_names:
        served["labels"] = tf.gather(tf.constant(model.label_names), served["predictions"])
    return served


def _several_labels(model: AlbertClassifier, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    probabilities = model.probabilities(logits)
    is_predicted = probabilities >= model.label_thresholds
    served = dict(probabilities=probabilities, predictions=tf.cast(is_predicted, tf.int32))
    if model.label_names:
        served["labels"] = tf.where(is_predicted, tf.constant(model.label_names)[None], "")
    return served

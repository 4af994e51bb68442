"""The SavedModel of a classifier: it labels raw texts, or pairs of them."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.data.graph_text_windows import pack_text_windows
from albert_tf.data.text_windows import WindowOptions
from albert_tf.interchange.serving import export_model, sequence_features
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.text.graph_packing import pack_texts
from albert_tf.text.tokenization import FullTokenizer


def export_classification(
    export_dir: str, model: AlbertClassifier, tokenizer: FullTokenizer, max_seq_length: int, has_pairs: bool,
    is_regression: bool = False, threshold: float | None = None, windows: WindowOptions = WindowOptions(),
) -> None:
    """Writes a SavedModel that labels texts; see export_model for its signatures.

    Raw text is `text_a` and, where has_pairs, `text_b`, string [batch]; a text_b of "" is none. The outputs are
    probabilities, float32 [batch, labels], and predictions [batch], the number of the label; of a regression both are
    the score. Where a threshold is set, it is served beside them, float32 [batch]. With windows, raw text is read in
    windows, tf.Examples hold max_windows rows each, and ids are of one row.

    Args:
      export_dir: where it goes.
      model: the classifier.
      tokenizer: of its vocabulary.
      max_seq_length: tokens of a row.
      has_pairs: whether there are two texts.
      is_regression: whether the logit is a score.
      threshold: a number that is served beside the predictions.
      windows: how longer texts are read.

    Raises:
      ValueError: there is something at export_dir that is not an earlier export.
    """
    def outputs(found: dict) -> dict:
        logits = found["logits"]
        if is_regression:
            served = dict(probabilities=logits, predictions=logits[:, 0])
        else:
            served = dict(probabilities=tf.nn.softmax(logits), predictions=tf.argmax(logits, -1, output_type=tf.int32))
        if threshold is not None:
            served["threshold"] = tf.fill(tf.shape(logits)[:1], threshold)  # [batch]
        return served

    def pack(graph_tokenizer, **texts) -> dict:
        if windows.max_windows > 1:
            return pack_text_windows(graph_tokenizer, max_seq_length, windows, **texts)
        return pack_texts(graph_tokenizer, max_seq_length, **texts)

    features = sequence_features(max_seq_length, windows.max_windows)
    text_inputs = dict(text_a=[None], text_b=[None]) if has_pairs else dict(text_a=[None])
    export_model(export_dir, model, tokenizer, features, outputs, text_inputs, pack)

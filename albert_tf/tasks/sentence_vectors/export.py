"""Exports a sentence encoder as a SavedModel that converts raw texts to vectors."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.export.saved_model import TextSignature, export_model, sequence_features
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.text.graph.packing import pack_texts
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.tokenization import FullTokenizer


def export_sentence_encoder(
    export_dir: str, model: AlbertSentenceEncoder, tokenizer: FullTokenizer, max_seq_length: int
) -> None:
    """Writes a SavedModel that converts texts to vectors (see export_model for the signatures).

    The input as raw text is `text`, string [batch]. The output is sentence_embedding, [batch, vector_size], with the
    model's pooling and normalization: float32, or int8 by the model's vector_precision.

    Longer texts are truncated.
    """
    def pack(graph_tokenizer: GraphTokenizer, text: tf.Tensor) -> dict:
        return pack_texts(graph_tokenizer, max_seq_length, text)

    export_model(export_dir, model, tokenizer, sequence_features(max_seq_length), model.exported_outputs,
                 TextSignature(dict(text=[None]), pack))

"""The SavedModel of a sentence encoder, from raw text to vectors."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.interchange.serving import export_model, sequence_features
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.text.graph_packing import pack_texts
from albert_tf.text.graph_tokenization import GraphTokenizer
from albert_tf.text.tokenization import FullTokenizer


def export_sentence_encoder(
    export_dir: str, model: AlbertSentenceEncoder, tokenizer: FullTokenizer, max_seq_length: int
) -> None:
    """Writes a SavedModel with the signatures of export_model, which give sentence_embedding, float32 [batch, H].

    The raw text is `text`, string [batch]. Pooling and normalization are the model's.

    Args:
      export_dir: where it goes.
      model: the encoder with its pooling.
      tokenizer: of its vocabulary.
      max_seq_length: tokens that a text is cut to.

    Raises:
      ValueError: there is something at export_dir that is not an earlier export.
    """
    def pack(graph_tokenizer: GraphTokenizer, text: tf.Tensor) -> dict:
        return pack_texts(graph_tokenizer, max_seq_length, text)

    export_model(export_dir, model, tokenizer, sequence_features(max_seq_length), model.head_outputs,
                 dict(text=[None]), pack)

"""Exports a pre-trained model as a SavedModel that fills the masks of raw text."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.export.saved_model import export_model, sequence_features
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.tasks.masked_lm.graph import GraphMasks
from albert_tf.text.tokenization import FullTokenizer


def export_mask_filling(
    export_dir: str, model: AlbertPretrainer, tokenizer: FullTokenizer, top_k: int = 5,
    max_seq_length: int | None = None, max_predictions_per_seq: int = 20,
) -> None:
    """Writes a SavedModel that fills each [MASK] (see export_model for the signatures).

    The input as raw text is `text`, string [batch]. The outputs are pieces, string, and probabilities, float32 [batch,
    masks, top_k] each, best first. For texts with fewer masks than others they are padded with "" and 0. A text with
    more tokens than max_position_embeddings is truncated.

    Args:
      export_dir: folder of the SavedModel.
      model: a model with the masked-LM head.
      tokenizer: the model's tokenizer.
      top_k: number of pieces per mask; all pieces if there are fewer.
      max_seq_length: number of tokens of the tf.Examples for the signature `examples`; None for
        max_position_embeddings.
      max_predictions_per_seq: number of masked_lm_positions of these tf.Examples.
    """
    longest = model.config.max_position_embeddings
    masks = GraphMasks(tokenizer, longest, top_k)
    positions = tf.io.FixedLenFeature([max_predictions_per_seq], tf.int64)
    export_model(export_dir, model, tokenizer,
                 features=dict(sequence_features(max_seq_length or longest), masked_lm_positions=positions),
                 outputs=masks.fillings, text_inputs=dict(text=[None]), pack=masks.pack, answer=masks.answer)

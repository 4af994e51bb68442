"""The SavedModel of a pre-trained model: it fills the masks of raw text."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.interchange.serving import export_model, sequence_features
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.tasks.graph_fill_mask import GraphMasks
from albert_tf.text.tokenization import FullTokenizer


def export_mask_filling(
    export_dir: str, model: AlbertPretrainer, tokenizer: FullTokenizer, top_k: int = 5,
    max_seq_length: int | None = None, max_predictions_per_seq: int = 20,
) -> None:
    """Writes a SavedModel that says what is behind each [MASK]; see export_model for its signatures.

    Raw text is `text`, string [batch]. The outputs are pieces, string, and probabilities, float32 [batch, masks,
    top_k], best first; a text with fewer masks than another one has pieces "" and probabilities 0 behind its own. A
    text with more tokens than the model has positions is cut.

    Args:
      export_dir: where it goes.
      model: with the masked-LM head.
      tokenizer: of its vocabulary.
      top_k: how many pieces to give for each mask.
      max_seq_length: of the records that the signature `examples` takes; by default the model's positions.
      max_predictions_per_seq: of these records.
    """
    longest = model.config.max_position_embeddings
    masks = GraphMasks(tokenizer, longest, top_k)
    positions = tf.io.FixedLenFeature([max_predictions_per_seq], tf.int64)
    export_model(export_dir, model, tokenizer,
                 features=dict(sequence_features(max_seq_length or longest), masked_lm_positions=positions),
                 outputs=masks.fillings, text_inputs=dict(text=[None]), pack=masks.pack, answer=masks.answer)

"""Exports a pre-trained model as a SavedModel that fills the masks of raw text."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.export.saved_model import TextSignature, export_model, sequence_features
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.tasks.masked_lm.fill_mask import MASK, inside_word
from albert_tf.text.graph.packing import numbers_in_rows, pack_ids
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.tokenization import FullTokenizer


def export_mask_filling(
    export_dir: str, model: AlbertPretrainer, tokenizer: FullTokenizer, top_k: int = 5,
    max_seq_length: int | None = None, max_predictions_per_seq: int = 20,
) -> None:
    """Writes a SavedModel that fills each [MASK] (see export_model for the signatures).

    The input as raw text is `text`, string [batch]. The outputs are pieces, string, and probabilities, float32 [batch,
    masks, top_k] each, best first. For texts with fewer masks than others they are padded with "" and 0. A text with
    more tokens than max_position_embeddings is truncated.

    tf.Examples for the signature `examples` have max_seq_length tokens (None: max_position_embeddings) and
    max_predictions_per_seq masked_lm_positions.
    """
    longest = model.config.max_position_embeddings
    masks = GraphMasks(tokenizer, longest, top_k)
    positions = tf.io.FixedLenFeature([max_predictions_per_seq], tf.int64)
    export_model(export_dir, model, tokenizer,
                 dict(sequence_features(max_seq_length or longest), masked_lm_positions=positions), masks.fillings,
                 TextSignature(dict(text=[None]), masks.pack, masks.answer))


# str.isspace as a regular expression.
_BEGINS_WITH_SPACE = r"(?s)[\t-\r\x1c-\x1f\x{85}\pZ].*"
_LEFT_OUT = -1


class GraphMasks(tf.Module):
    """Converts raw texts with [MASK] to the model's inputs, and its outputs to the top_k pieces of each mask."""

    def __init__(self, tokenizer: FullTokenizer, max_seq_length: int, top_k: int):
        super().__init__()
        self._max_seq_length, self._top_k = max_seq_length, top_k
        pieces = dict(zip(tokenizer.vocab.values(), tokenizer.vocab))
        self._pieces = tf.constant([pieces.get(i, "") for i in range(max(pieces) + 1)])
        inside = [inside_word(tokenizer, pieces.get(i, "")) for i in range(max(pieces) + 1)]
        # The id of each piece within a word; a piece that is only a word-start mark is left out there.
        self._inside_word = tf.constant([tokenizer.vocab[piece] if piece else _LEFT_OUT for piece in inside])

    def pack(self, tokenizer: GraphTokenizer, text: tf.Tensor) -> dict:
        """Packs texts, string [batch], as fill_mask.masked_ids does.

        Returns input_ids, input_mask, segment_ids, int32 [batch, seq]; masked_lm_positions, int32 [batch, masks], and
        is_mask, bool [batch, masks]. Both are padded with zeros for texts that have fewer masks.
        """
        parts = tf.strings.split(text, MASK)  # [batch, (parts)]
        is_after_mask = numbers_in_rows(parts) > 0
        ids = tokenizer.tokenize(parts.values)  # [parts, (pieces)]
        continues_word = is_after_mask & ~tf.strings.regex_full_match(parts.values, _BEGINS_WITH_SPACE)
        changes = tf.gather(continues_word, ids.value_rowids()) & (numbers_in_rows(ids) == 0)
        changed = tf.where(changes, tf.gather(self._inside_word, ids.values), ids.values)
        ids = tf.ragged.boolean_mask(ids.with_values(changed), ids.with_values(changed != _LEFT_OUT))
        masks = tf.RaggedTensor.from_row_lengths(tf.fill([tf.math.count_nonzero(is_after_mask)], tokenizer.mask_id),
                                                 tf.cast(is_after_mask, tf.int64))
        rows = parts.with_values(tf.concat([masks, ids], axis=1)).merge_dims(1, 2)  # [batch, (pieces)]
        packed = pack_ids(tokenizer, self._max_seq_length, rows)
        places = tf.where(packed["input_ids"] == tokenizer.mask_id)  # [masks, 2]: row and position
        positions = tf.RaggedTensor.from_value_rowids(
            tf.cast(places[:, 1], tf.int32), places[:, 0], nrows=parts.nrows())
        is_mask = tf.ones_like(positions, tf.bool)
        return dict(packed, masked_lm_positions=positions.to_tensor(0), is_mask=is_mask.to_tensor())

    def fillings(self, outputs: dict) -> dict:
        """The most likely pieces, string [batch, masks, top_k], and their probabilities, from the model's outputs."""
        probabilities = tf.nn.softmax(outputs["mlm_logits"])[..., : self._pieces.shape[0]]  # see fill_mask
        probabilities, ids = tf.math.top_k(probabilities, min(self._top_k, probabilities.shape[-1]))
        return dict(pieces=tf.gather(self._pieces, ids), probabilities=probabilities)

    def answer(self, texts: dict, inputs: dict, fillings: dict) -> dict:
        """The fillings of raw texts. For texts that have fewer masks, the padding is "" and probability 0."""
        is_mask = inputs["is_mask"][..., None]
        return dict(pieces=tf.where(is_mask, fillings["pieces"], ""),
                    probabilities=tf.where(is_mask, fillings["probabilities"], 0.0))

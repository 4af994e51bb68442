"""Packed rows (--pack_rows): the examples of a batch in fewer rows, each of several texts.

Examples are taken from the longest to the shortest, each into the first row in which it fits ("first-fit decreasing").
The number of rows is rounded up to one of at most 32 values, since each shape is compiled. Which examples a step has,
and the losses, do not change.
"""

from __future__ import annotations

from typing import Sequence

import tensorflow as tf

TEXTS = 4  # the largest number of texts in max_seq_length tokens of a row
ROW_STEPS = 32  # the largest number of different numbers of rows


def packed(batch: dict[str, tf.Tensor], length: int = 1, multiple: int = 1) -> dict[str, tf.Tensor]:
    """A batch with several examples in each row.

    Args:
      batch: the features of records, [batch, ...]. Padding follows the tokens of each example.
      length, multiple: see TrainingBatches.pack_rows.

    Returns:
      input_ids, input_mask, segment_ids [rows, length * seq]; masked_lm_positions (within the row), masked_lm_ids,
      masked_lm_weights [rows, length * predictions]; next_sentence_labels [rows, texts], for texts = length * TEXTS;
      text_starts [rows, texts + 1] (see AlbertModel).
    """
    is_token, is_masked = batch["input_mask"] > 0, batch["masked_lm_weights"] > 0
    is_text = tf.ones_like(batch["next_sentence_labels"], tf.bool)  # [batch, 1]
    masks = is_token, is_masked, is_text
    widths = [length * width for width in (is_token.shape[1], is_masked.shape[1], TEXTS)]
    sizes = tf.stack([tf.math.count_nonzero(mask, axis=1, dtype=tf.int32) for mask in masks], axis=1)  # [batch, 3]
    row_of, starts = _first_fit(sizes, widths)
    rows = tf.minimum(-(-(tf.reduce_max(row_of) + 1) // multiple) * multiple, tf.shape(sizes)[0])

    def moved(values: tf.Tensor, kind: int) -> tf.Tensor:
        """Values of the tokens, predictions or texts in the rows, 0 elsewhere."""
        mask = masks[kind]
        columns = starts[:, kind, None] + tf.cumsum(tf.cast(mask, tf.int32), axis=1, exclusive=True)
        cells = tf.stack([tf.broadcast_to(row_of[:, None], tf.shape(columns)), columns], axis=-1)
        return tf.scatter_nd(tf.boolean_mask(cells, mask), tf.boolean_mask(values, mask), [rows, widths[kind]])

    first_tokens = starts[:, :1]
    tokens, _, texts = tf.split(tf.math.unsorted_segment_sum(sizes, row_of, rows), 3, axis=1)  # [rows, 1] each
    text_starts = tf.where(tf.range(widths[2]) < texts, moved(first_tokens, 2), tokens)
    kinds = dict(input_ids=0, input_mask=0, segment_ids=0, masked_lm_positions=1, masked_lm_ids=1, masked_lm_weights=1,
                 next_sentence_labels=2)
    in_rows = dict(batch, masked_lm_positions=batch["masked_lm_positions"] + first_tokens)
    return dict({name: moved(in_rows[name], kind) for name, kind in kinds.items()},
                text_starts=tf.concat([text_starts, tokens], axis=1))


def _first_fit(sizes: tf.Tensor, limits: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
    """The row of each example, int32 [batch], and what its row has before it, int32 [batch, kinds], as sizes."""
    count = tf.shape(sizes)[0]
    order = tf.argsort(-sizes[:, 0], stable=True)

    def add(
        number: tf.Tensor, used: tf.Tensor, row_of: tf.TensorArray, starts: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray, tf.TensorArray]:
        example = order[number]
        fits = tf.reduce_all(used + sizes[example] <= limits, axis=1)
        row = tf.argmax(tf.cast(fits, tf.int32), output_type=tf.int32)
        return (number + 1, tf.tensor_scatter_nd_add(used, [[row]], sizes[example, None]),
                row_of.write(example, row), starts.write(example, used[row]))

    row_of, starts = (tf.TensorArray(tf.int32, count, element_shape=shape) for shape in ([], [len(limits)]))
    *_, row_of, starts = tf.while_loop(lambda number, *_: number < count, add,
                                       (0, tf.zeros_like(sizes), row_of, starts), parallel_iterations=1)
    return row_of.stack(), starts.stack()

"""Dynamic masking: draws new masks each time that a record is read, by the rules of examples.py, with TensorFlow ops.

A record's original masks are undone with masked_lm_ids; token_boundary tells which pieces start a word. The new masks
of an example depend only on the seed and on the example's number in the endless order of the data. So they differ from
epoch to epoch, and neither a restart nor the number of replicas changes them.
"""

from __future__ import annotations

from typing import Callable, Sequence

import tensorflow as tf
from absl import logging

from albert_tf.data.records import RecordFile, pretraining_features
from albert_tf.pretraining.examples import AS_ITSELF, AS_MASK, MaskingOptions
from albert_tf.utils.files import errors_at
from albert_tf.utils.manifests import manifest_of

# Uniform random numbers for each token: order of the words, sizes of n-grams, replacements, random pieces.
CHANCES = 4
_RECORDS_TO_FIND_MASK = 200  # from which the id of [MASK] is inferred
# The entries of a manifest that are options of the masks.
_OPTIONS = ("max_predictions_per_seq", "masked_lm_prob", "ngram", "favor_shorter_ngram", "whole_words")


def dynamic_masking(options: MaskingOptions, mask_id: int, vocab_size: int, seed: int) -> Callable[..., dict]:
    """Returns new_masks as a function of a batch and the numbers of its examples, int64 [rows]."""

    def mask(batch: dict, numbers: tf.Tensor) -> dict:
        rows, seq = batch["input_ids"].shape
        chance = tf.map_fn(lambda number: tf.random.stateless_uniform([CHANCES, seq], [seed, number]), numbers,
                           fn_output_signature=tf.TensorSpec([CHANCES, seq], tf.float32))
        chance = tf.ensure_shape(chance, [rows, CHANCES, seq])
        return new_masks(batch, chance, options, mask_id, vocab_size)

    return mask


def new_masks(batch: dict, chance: tf.Tensor, options: MaskingOptions, mask_id: int, vocab_size: int) -> dict:
    """Replaces the masks of a batch by new ones. Shapes are static if the batch's are, so XLA compiles this function.

    Args:
      batch: the features of a batch of records (pretraining_features; int32, weights float32).
      chance: uniform random numbers from 0 to 1, float32 [rows, CHANCES, seq].
      options: how tokens are chosen; `permutation` is ignored.
      mask_id, vocab_size: the id of [MASK], and the number of pieces from which random ones are drawn.

    Returns:
      The batch with new input_ids, masked_lm_positions, masked_lm_ids and masked_lm_weights, of the same shapes.
    """
    ids = original_ids(batch)  # [rows, seq]
    rows, seq = tf.shape(ids)[0], ids.shape[1]
    order, sizes, fates, pieces = tf.unstack(chance, axis=1)
    free = maskable(ids, batch["input_mask"])
    goals = _goals(batch["input_mask"], options)
    masked = _draw_tokens(free, _words(batch["token_boundary"], free, options), goals, order, sizes, options)

    predictions = batch["masked_lm_positions"].shape[1]
    outside = tf.fill([rows, predictions], seq)  # there may be fewer masked tokens than predictions
    positions = tf.sort(tf.concat([tf.where(masked, tf.range(seq), seq), outside], axis=1))[:, :predictions]
    used = positions < seq
    positions = tf.where(used, positions, 0)
    random_ids = tf.cast(pieces * vocab_size, tf.int32)
    kept = tf.where(fates < AS_MASK + AS_ITSELF, ids, random_ids)
    return dict(
        batch,
        input_ids=tf.where(masked, tf.where(fates < AS_MASK, mask_id, kept), ids),
        masked_lm_positions=positions,
        masked_lm_ids=tf.where(used, tf.gather(ids, positions, batch_dims=1), 0),
        masked_lm_weights=tf.cast(used, tf.float32),
    )


def original_ids(batch: dict) -> tf.Tensor:
    """input_ids [rows, seq] as they were before masking."""
    ids = batch["input_ids"]
    rows, seq = tf.shape(ids)[0], ids.shape[1]
    # The padding of the predictions is written to an extra column, which is cut off at the end.
    columns = tf.where(batch["masked_lm_weights"] > 0, batch["masked_lm_positions"], seq)  # [rows, predictions]
    row_of = tf.broadcast_to(tf.range(rows)[:, None], tf.shape(columns))
    wider = tf.concat([ids, tf.zeros([rows, 1], ids.dtype)], axis=1)
    return tf.tensor_scatter_nd_update(wider, tf.stack([row_of, columns], axis=-1), batch["masked_lm_ids"])[:, :seq]


def maskable(ids: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
    """Which tokens are neither special ones nor padding, bool [rows, seq], by the original ids."""
    sep_ids = tf.gather(ids, tf.reduce_sum(input_mask, axis=1, keepdims=True) - 1, batch_dims=1)  # [rows, 1]
    return (input_mask > 0) & (ids != sep_ids) & (tf.range(ids.shape[1]) > 0)  # the first one is [CLS]


def options_of_records(files: Sequence[RecordFile], max_predictions_per_seq: int) -> MaskingOptions:
    """The masking options in the manifests of records, which must not differ; the release's if no manifest has any."""
    with_options = [file for file in files if not file.made_from.keys().isdisjoint(_OPTIONS)]
    if not with_options:
        return MaskingOptions(max_predictions_per_seq)
    first = with_options[0]
    options = _options(first, max_predictions_per_seq)
    for file in with_options:
        if _options(file, max_predictions_per_seq) != options:
            raise ValueError(f"{first.path} and {file.path} have different masking options, but new masks are drawn "
                             "with the same options for all records: train on one of the two, or without "
                             "--dynamic_masking")
    if len(with_options) < len(files):
        other = next(file for file in files if file not in with_options)
        logging.warning("new masks: the options of %s are used for all records, also for those without options, such "
                        "as %s", first.path, other.path)
    return options


def _options(file: RecordFile, max_predictions_per_seq: int) -> MaskingOptions:
    values = {name: file.made_from[name] for name in _OPTIONS if name in file.made_from}
    with errors_at(manifest_of(file.path) or file.path):
        return MaskingOptions(**{"max_predictions_per_seq": max_predictions_per_seq, **values})


def find_mask_id(files: Sequence[RecordFile], max_seq_length: int, max_predictions_per_seq: int) -> int:
    """The id of [MASK]: the most frequent id at masked positions of the first records (80 % of them are [MASK])."""
    features = pretraining_features(max_seq_length, max_predictions_per_seq)
    records = tf.data.TFRecordDataset([file.path for file in files]).batch(_RECORDS_TO_FIND_MASK)
    batch = tf.io.parse_example(next(iter(records)), features)
    at_masked = tf.gather(batch["input_ids"], batch["masked_lm_positions"], batch_dims=1)
    at_masked = at_masked[batch["masked_lm_weights"] > 0]
    if not len(at_masked):
        raise ValueError(f"{files[0].path}: its first records have no masked tokens, so the id of [MASK] is unknown")
    return int(tf.argmax(tf.math.bincount(tf.cast(at_masked, tf.int32))))


def _goals(input_mask: tf.Tensor, options: MaskingOptions) -> tf.Tensor:
    """MaskingOptions.goal of each row's length, int32 [rows]; both round halves to even."""
    lengths = tf.cast(tf.reduce_sum(input_mask, axis=1), tf.float64)
    goals = tf.cast(tf.round(lengths * options.masked_lm_prob), tf.int32)
    return tf.minimum(tf.maximum(goals, 1), options.max_predictions_per_seq)


def _words(boundary: tf.Tensor, free: tf.Tensor, options: MaskingOptions) -> tf.Tensor:
    """The index of each token's word in its row, int32 [rows, seq]; undefined for special tokens and padding."""
    starts = free & (boundary > 0) if options.whole_words else free
    # The first maskable token always starts a word, whatever token_boundary says.
    starts |= free & (tf.cumsum(tf.cast(free, tf.int32), axis=1) == 1)
    return tf.maximum(tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1, 0)


def _draw_tokens(
    free: tf.Tensor, words: tf.Tensor, goals: tf.Tensor, order: tf.Tensor, sizes: tf.Tensor, options: MaskingOptions
) -> tf.Tensor:
    """Which tokens are masked, bool [rows, seq]: n-grams of words in random order, until the goal is reached.

    An n-gram is shortened if it would exceed the goal, and skipped if it overlaps one that was taken before.
    """
    seq = free.shape[1]
    num_words = tf.reduce_max(tf.where(free, words + 1, 0), axis=1)  # [rows]
    indices = tf.stack([tf.broadcast_to(tf.range(tf.shape(words)[0])[:, None], tf.shape(words)), words], axis=-1)
    lengths = tf.tensor_scatter_nd_add(tf.zeros_like(words), indices, tf.cast(free, tf.int32))  # tokens of each word
    before = tf.pad(tf.cumsum(lengths, axis=1), [[0, 0], [1, options.ngram]])  # tokens before each word
    index = tf.range(seq)
    order = tf.argsort(tf.where(index < num_words[:, None], order, 2.0), axis=1)
    bounds = tf.constant(options.ngram_bounds, tf.float32)
    sizes = 1 + tf.reduce_sum(tf.cast(sizes[..., None] >= bounds, tf.int32), axis=-1)
    grams = tf.range(1, options.ngram + 1)

    def visit(
        visited: tf.Tensor, taken: tf.Tensor, missing: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        first = order[:, visited][:, None]  # [rows, 1]
        last = first + grams  # [rows, ngram]: the end of an n-gram of 1, 2, ... words
        tokens = tf.gather(before, last, batch_dims=1) - tf.gather(before, first, batch_dims=1)
        fits = (grams <= sizes[:, visited][:, None]) & (last <= num_words[:, None]) & (tokens <= missing[:, None])
        size = tf.reduce_sum(tf.cast(fits, tf.int32), axis=1, keepdims=True)  # [rows, 1]
        span = (index >= first) & (index < first + size)  # [rows, seq] over words
        is_free = ~tf.reduce_any(taken & span, axis=1, keepdims=True) & (visited < num_words)[:, None]
        new = tf.reduce_max(tf.where(fits & is_free, tokens, 0), axis=1)
        return visited + 1, taken | (span & is_free), missing - new

    _, taken, _ = tf.while_loop(
        lambda visited, taken, missing: tf.reduce_any((missing > 0) & (visited < num_words)), visit,
        (0, tf.zeros_like(free), goals))
    return tf.gather(taken, words, batch_dims=1) & free

"""Pre-training on phonemes: reads records, draws masks and computes the losses (PL-BERT, arXiv 2301.08810).

Of the words of a row, 15 % are chosen. Of these, 80 % are replaced by masks, one for each phoneme, 10 % by random
phonemes of the row, and 10 % stay. The model predicts the phonemes of chosen words, and the ids of words: at each
phoneme and separator ("all", as PL-BERT), or once for each word, from the mean of its phonemes ("once").

    symbols   ð ə   k æ t   s æ t          word_index   0 0 . 1 1 1 . 2 2 2
    input     ð ə   M M M   s æ t          labels       phonemes: 4 to 6; words ("all"): the the [SEPARATOR] cat cat ...

Differences from PL-BERT: masks depend on the seed and the number of the example alone; losses are means over all
phonemes, or words, of a batch, where PL-BERT averages over each text first; no separator ends a row.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Sequence

import tensorflow as tf

from albert_tf.data.records import CountedFile
from albert_tf.modeling.pretrainer import AlbertPhonemePretrainer
from albert_tf.pretraining.objective import DistilledPretrainingObjective, PretrainingObjective, sums_of_rows
from albert_tf.pretraining.phonemes import SEPARATOR_WORD
from albert_tf.training.objective import Batch, Tensors

_CHOSEN, _AS_MASK, _RANDOM = 0.15, 0.8, 0.1


@dataclasses.dataclass(frozen=True)
class PhonemeFormat:
    """The format of records of phonemes: entries of their manifests."""

    max_seq_length: int
    max_words: int
    num_words: int
    words_sha256: str
    vocab_size: int
    separator_id: int
    mask_id: int
    symbols: str = ""


def format_of(files: Sequence[CountedFile], max_seq_length: int, vocab_size: int) -> PhonemeFormat:
    """The format of a set of records. Raises ValueError if they differ, or do not fit the model or the flags."""
    names = [field.name for field in dataclasses.fields(PhonemeFormat)]
    for file in files:
        if not file.made_from.keys() >= set(names):
            raise ValueError(f"{file.path} does not hold records of phonemes that this version has made, and other "
                             "records cannot be used together with them")
    values: list[dict[str, Any]] = [{name: file.made_from[name] for name in names} for file in files]
    max_words = max(of_file["max_words"] for of_file in values)
    phonemes, *others = [PhonemeFormat(**{**of_file, "max_words": max_words}) for of_file in values]
    for file, other in zip(files[1:], others):
        name = next((name for name in names if getattr(phonemes, name) != getattr(other, name)), None)
        if name:
            raise ValueError(f"{files[0].path} and {file.path} differ in {name}: make them together, or with the same "
                             "--word_vocab_file and --phoneme_table")
    if phonemes.max_seq_length != max_seq_length:
        raise ValueError(f"{files[0].path} was made with --max_seq_length={phonemes.max_seq_length}. "
                         f"Received: {max_seq_length}")
    if phonemes.vocab_size > vocab_size:
        raise ValueError(f"{files[0].path} has ids up to {phonemes.vocab_size - 1}, but the config's vocab_size is "
                         f"{vocab_size}")
    return phonemes


def check_symbols(path: str, stored: str | None, symbols: str) -> None:
    """Raises ValueError if an id has another symbol in the model at a path than in records; None: it does not tell."""
    for i, (one, other) in enumerate(zip(stored or "", symbols)):
        if one != other and "\0" not in (one, other):
            raise ValueError(f"{path} was trained with another table of phonemes than the records: id {i} is {one!r}, "
                             f"and {other!r} in the records. Make them again with the --phoneme_table of the model")


def parser(phonemes: PhonemeFormat, seed: int) -> Callable:
    """Returns a function that parses serialized records [rows] and draws masks, which depend on seed and numbers."""
    seq = phonemes.max_seq_length
    tokens = tf.io.FixedLenFeature([seq], tf.int64)
    features = dict(input_ids=tokens, input_mask=tokens, word_ids=tf.io.VarLenFeature(tf.int64))

    def parse(records: tf.Tensor, numbers: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = tf.io.parse_example(records, features)
        ids, mask = (tf.cast(batch[name], tf.int32) for name in ("input_ids", "input_mask"))
        words = tf.cast(tf.sparse.to_dense(batch["word_ids"]), tf.int32)
        words = tf.pad(words, [[0, 0], [0, phonemes.max_words - tf.shape(words)[1]]])
        chance = tf.map_fn(lambda number: tf.random.stateless_uniform([3, seq], [seed, number]), numbers,
                           fn_output_signature=tf.TensorSpec([3, seq], tf.float32))
        ids, mask, words, chance = (tf.ensure_shape(tensor, [records.shape[0], *shape]) for tensor, shape in (
            (ids, [seq]), (mask, [seq]), (words, [phonemes.max_words]), (chance, [3, seq])))
        return masked_batch(ids, mask, words, chance, phonemes)

    return parse


def masked_batch(
    ids: tf.Tensor, mask: tf.Tensor, word_ids: tf.Tensor, chance: tf.Tensor, phonemes: PhonemeFormat
) -> dict[str, tf.Tensor]:
    """A batch for PhonemeObjective.

    Args:
      ids, mask: int32 [rows, seq], the phonemes, and 1 for all but padding.
      word_ids: int32 [rows, words], with padding.
      chance: uniform random numbers, float32 [rows, 3, seq]: choice and fate of words, random phonemes.

    Returns:
      input_ids, input_mask, segment_ids (0), and masked_lm_positions (all), masked_lm_ids and masked_lm_weights: [rows,
      seq]; word_index, the number of each phoneme's word in its row, -1 for separators and padding: int32 [rows, seq];
      word_ids and word_weights, 0 for padding: [rows, words].
    """
    rows, seq = ids.shape
    is_separator = (ids == phonemes.separator_id) & (mask > 0)
    is_phoneme = (mask > 0) & ~is_separator
    word = tf.cumsum(tf.cast(is_separator, tf.int32), axis=1)  # [rows, seq]
    choice, fate, pick = tf.unstack(chance, axis=1)
    chosen = tf.gather(choice, word, batch_dims=1) < _CHOSEN
    fate = tf.gather(fate, word, batch_dims=1)
    chosen &= is_phoneme
    # Positions of phonemes first, so that a random one of them can be picked.
    order = tf.argsort(tf.cast(~is_phoneme, tf.int32), axis=1, stable=True)
    count = tf.reduce_sum(tf.cast(is_phoneme, tf.int32), axis=1, keepdims=True)
    picked = tf.gather(order, tf.cast(pick * tf.cast(count, tf.float32), tf.int32), batch_dims=1)
    replaced = tf.where(fate < _AS_MASK, phonemes.mask_id,
                        tf.where(fate < _AS_MASK + _RANDOM, tf.gather(ids, picked, batch_dims=1), ids))
    num_words = tf.reduce_sum(tf.cast(is_separator, tf.int32), axis=1, keepdims=True) + 1
    return dict(
        input_ids=tf.where(chosen, replaced, ids), input_mask=mask, segment_ids=tf.zeros_like(ids),
        masked_lm_positions=tf.zeros_like(ids) + tf.range(seq), masked_lm_ids=ids,
        masked_lm_weights=tf.cast(chosen, tf.float32), word_index=tf.where(is_phoneme, word, -1), word_ids=word_ids,
        word_weights=tf.cast(tf.range(word_ids.shape[1]) < num_words, tf.float32))


class PhonemeObjective(PretrainingObjective):
    """Losses of masked phonemes and of words. masked_batch makes the batches.

    word_predictions: "all" to predict a word at each of its phonemes and at separators, or "once" for each word.
    """

    def __init__(self, model: AlbertPhonemePretrainer, word_predictions: str = "all"):
        super().__init__(model, has_sentence_loss=False)
        self._once = word_predictions == "once"

    def loss_denominators(self, batch: Batch) -> Tensors:
        """The denominators of masked LM, and words: the number of predicted words."""
        weights = batch["word_weights" if self._once else "input_mask"]
        return dict(super().loss_denominators(batch), words=tf.reduce_sum(tf.cast(weights, tf.float32)))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the mean loss of masked phonemes plus the mean loss of words."""
        total, parts = super().loss(outputs, batch, denominators)
        words = self.model.summed_word_loss(*self._words(outputs, batch)) / denominators["words"]
        return total + words, dict(parts, word_loss=words)

    def predictions(self, outputs: Tensors, batch: Batch) -> Tensors:
        """The same as in PretrainingObjective, and sums of words."""
        vectors, labels, weights = self._words(outputs, batch)
        losses, hits = self.model.word_losses(vectors, labels)
        return dict(super().predictions(outputs, batch), **sums_of_rows("word", batch, hits, losses, weights))

    def _words(self, outputs: Tensors, batch: Batch) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The vectors that predict words, [predictions, H], the labels and the weights."""
        vectors, index = outputs["sequence_output"], batch["word_index"]
        if self._once:
            # [rows, words, seq]: the mean over the phonemes of each word.
            of_word = tf.one_hot(index, batch["word_ids"].shape[1], axis=1, dtype=vectors.dtype)
            sums = tf.cast(tf.matmul(of_word, vectors), tf.float32)
            counts = tf.reduce_sum(tf.cast(of_word, tf.float32), axis=2, keepdims=True)
            vectors, labels, weights = sums / tf.maximum(counts, 1.0), batch["word_ids"], batch["word_weights"]
        else:
            labels = tf.gather(batch["word_ids"], tf.maximum(index, 0), batch_dims=1)
            labels = tf.where(index < 0, SEPARATOR_WORD, labels)
            weights = tf.cast(batch["input_mask"], tf.float32)
        return tf.reshape(vectors, [-1, vectors.shape[-1]]), tf.reshape(labels, [-1]), tf.reshape(weights, [-1])


class DistilledPhonemeObjective(DistilledPretrainingObjective, PhonemeObjective):
    """Pre-training on phonemes with a teacher that has the same phonemes. Its logits of words are not used."""

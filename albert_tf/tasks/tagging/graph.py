"""Splits texts into words and packs words into windows with TensorFlow ops: tagging_features.py for SavedModels."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.tasks.tagging.features import TaggingFeatureOptions
from albert_tf.text.graph.packing import with_special_tokens
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.graph.windows import is_max_context, slices, windows_of
from albert_tf.utils.imports import tensorflow_text as tf_text

# RE2 syntax. A word is a run of letters, marks, digits and "_", or one other character that is not white space.
_BLANK = r"\s\x0b\x1c-\x1f\x{85}\p{Z}"  # the white space of Python; RE2's \s is only a part of it
_SPACE = f"[{_BLANK}]"
_SINGLE = rf"[^{_BLANK}\p{{L}}\p{{M}}\p{{N}}_]"


def split_into_words(texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Splits texts into words.

    Args:
      texts: string [texts], UTF-8.

    Returns:
      words, string [texts, (words)]; the start and end of each word in its text, int32 [texts, (words)] each, in
      characters as Python's str counts them: text[start:end] is the word.
    """
    words, starts, ends = tf_text.regex_split_with_offsets(texts, f"{_SPACE}|{_SINGLE}", _SINGLE)
    _, offsets = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="replace")
    # The bytes of all texts are numbered consecutively, so that one search finds the characters of all words.
    sizes = tf.cast(tf.strings.length(texts), tf.int64) + 1
    before = tf.cumsum(sizes, exclusive=True)
    characters = offsets.values + tf.gather(before, offsets.value_rowids())  # [characters of all texts]

    def in_characters(places: tf.RaggedTensor) -> tf.RaggedTensor:
        rows = places.value_rowids()
        numbers = tf.searchsorted(characters, places.values + tf.gather(before, rows), out_type=tf.int64)
        return places.with_values(tf.cast(numbers - tf.gather(offsets.row_starts(), rows), tf.int32))

    return words, in_characters(starts), in_characters(ends)


def pack_words(
    tokenizer: GraphTokenizer, options: TaggingFeatureOptions, words: tf.RaggedTensor
) -> dict[str, tf.Tensor]:
    """Packs the words of each text into windows. The windows of a text are consecutive; each text has at least one.

    Args:
      tokenizer: the model's tokenizer.
      options: length and stride of the windows.
      words: string [texts, (words)].

    Returns:
      input_ids, input_mask, segment_ids: int32 [windows, seq], padded to the longest window.
      word: int64 [windows, seq], the index among the words of all texts of the word whose tag a token predicts, or -1.
    """
    of_words = tokenizer.tokenize(words.values)  # [words of all texts, (pieces)]
    unknown = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.math.count_nonzero(of_words.row_lengths() == 0)], tokenizer.unk_id),
        tf.cast(of_words.row_lengths() == 0, tf.int64), validate=False)
    of_words = tf.concat([of_words, unknown], axis=1)
    pieces = tf.RaggedTensor.from_row_splits(
        of_words.values, tf.gather(of_words.row_splits, words.row_splits), validate=False)  # [texts, (pieces)]
    num_pieces = tf.size(pieces.values, tf.int64)
    word = of_words.value_rowids()  # [pieces of all texts]
    counts = tf.range(num_pieces) == tf.gather(of_words.row_starts(), word)
    counts = counts | options.label_all_pieces

    window_length = tf.fill(tf.shape(pieces.row_lengths()), tf.constant(options.window_length, tf.int64))
    windows = windows_of(pieces.row_lengths(), window_length, options.stride)
    begin = tf.gather(pieces.row_starts(), windows.text) + windows.first  # among the pieces of all texts
    none = tf.zeros_like(begin)
    ids, segments = with_special_tokens(tokenizer, slices(pieces.values, begin, windows.length),
                                        tf.RaggedTensor.from_row_lengths(tf.zeros([0], tf.int32), none), has_b=none)

    input_ids = ids.to_tensor(tokenizer.pad_id)  # [windows, seq]
    length = windows.length[:, None]
    place = tf.range(tf.shape(input_ids, tf.int64)[1])[None] - 1  # in the window
    in_window = (place >= 0) & (place < length)
    piece = tf.where(in_window, begin[:, None] + place, num_pieces)
    word = tf.gather(tf.pad(tf.where(counts, word, -1), [[0, 1]], constant_values=-1), piece)
    return dict(input_ids=input_ids, input_mask=tf.ones_like(ids).to_tensor(0), segment_ids=segments.to_tensor(0),
                word=tf.where(is_max_context(place, length, in_window, piece, num_pieces), word, -1))

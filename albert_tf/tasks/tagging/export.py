"""Exports a model that was fine-tuned to tag words as a SavedModel that takes raw text or words."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.export.saved_model import BatchedModel, TextSignature, export_model, sequence_features
from albert_tf.modeling.classifier import AlbertTokenClassifier
from albert_tf.tasks.tagging.features import TaggingFeatureOptions
from albert_tf.text.graph.packing import is_max_context, slices, windows_of, with_special_tokens
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.imports import tensorflow_text as tf_text

WORDS = "words"
_BATCH = 16  # windows


def export_tagging(
    export_dir: str, model: AlbertTokenClassifier, tokenizer: FullTokenizer, options: TaggingFeatureOptions
) -> None:
    """Writes a SavedModel that tags words.

    Its signatures, besides ids and examples (see export_model)::

      serving_default   Input: text, string [batch], which is split into words: runs of letters, digits and "_", and
                        single other characters. Outputs: words, tags, scores, and the start and end of each word in
                        its text, which count characters as Python's str does: text[start:end] is the word.
      words             Input: words, string [batch, words], padded with "". Outputs: tags and scores.

    Words, tags and scores are [batch, words], padded with "" and 0; start and end are padded with -1. A score is the
    probability of the tag. A text can have any length: it is divided into windows. For ids the output is probabilities
    [batch, seq, labels].
    """
    def pack(graph_tokenizer: GraphTokenizer, words: tf.Tensor) -> dict:
        rows = tf.RaggedTensor.from_tensor(words, padding="")
        return dict(pack_words(graph_tokenizer, options, rows), words=rows)

    def pack_text(graph_tokenizer: GraphTokenizer, text: tf.Tensor) -> dict:
        words, starts, ends = split_into_words(text)
        return dict(pack_words(graph_tokenizer, options, words), words=words, start=starts, end=ends)

    def answer(texts: dict, inputs: dict, outputs: dict) -> dict:
        tags, scores = _best_tags(inputs, outputs["probabilities"], model.label_names)
        return dict(tags=tags.to_tensor(""), scores=scores.to_tensor(0.0))

    def answer_text(texts: dict, inputs: dict, outputs: dict) -> dict:
        offsets = {name: inputs[name].to_tensor(-1) for name in ("start", "end")}
        return dict(answer(texts, inputs, outputs), words=inputs["words"].to_tensor(""), **offsets)

    export_model(export_dir, BatchedModel(model, {"logits": tf.float32}, _BATCH), tokenizer,
                 sequence_features(options.max_seq_length),
                 lambda outputs: dict(probabilities=tf.nn.softmax(outputs["logits"])),
                 TextSignature(dict(text=[None]), pack_text, answer_text),
                 {WORDS: TextSignature(dict(words=[None, None]), pack, answer)}, model.label_names)


def _best_tags(inputs: dict, probabilities: tf.Tensor, label_names) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """The most probable tag of each word, and its probability (the mean over the word's pieces): [batch, (words)]."""
    words, counts = inputs["words"], inputs["word"] >= 0
    word_probabilities = tf.math.unsorted_segment_mean(tf.boolean_mask(probabilities, counts),
                                                       tf.boolean_mask(inputs["word"], counts),
                                                       tf.size(words.values, tf.int64))
    tags = tf.gather(tf.constant(label_names), tf.argmax(word_probabilities, axis=1))
    return words.with_values(tags), words.with_values(tf.reduce_max(word_probabilities, axis=1))


# RE2 syntax. A word is a run of letters, marks, digits and "_", or one other character that is not white space.
_BLANK = r"\s\x0b\x1c-\x1f\x{85}\p{Z}"  # the white space of Python; RE2's \s is only a part of it
_SPACE = f"[{_BLANK}]"
_SINGLE = rf"[^{_BLANK}\p{{L}}\p{{M}}\p{{N}}_]"


def split_into_words(texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Splits texts, string [texts], into words [texts, (words)]. Returns words, starts and ends.

    Start and end of a word are int32, in characters as Python's str counts them: text[start:end] is the word.
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

    Words are string [texts, (words)].

    Returns:
      input_ids, input_mask, segment_ids: int32 [windows, seq], padded to the longest window.
      text: int64 [windows], the index of the text of a window.
      word: int64 [windows, seq], the index among the words of all texts of the word whose tag a token predicts, or -1.
    """
    word_pieces = tokenizer.tokenize(words.values)  # [words of all texts, (pieces)]
    unknown = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.math.count_nonzero(word_pieces.row_lengths() == 0)], tokenizer.unk_id),
        tf.cast(word_pieces.row_lengths() == 0, tf.int64), validate=False)
    word_pieces = tf.concat([word_pieces, unknown], axis=1)
    pieces = tf.RaggedTensor.from_row_splits(
        word_pieces.values, tf.gather(word_pieces.row_splits, words.row_splits), validate=False)  # [texts, (pieces)]
    num_pieces = tf.size(pieces.values, tf.int64)
    word = word_pieces.value_rowids()  # [pieces of all texts]
    counts = tf.range(num_pieces) == tf.gather(word_pieces.row_starts(), word)
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
                text=windows.text, word=tf.where(is_max_context(place, length, in_window, piece, num_pieces), word, -1))

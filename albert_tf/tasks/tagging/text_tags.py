"""Tags words of raw text with a fine-tuned model, Keras or exported, in Python and in exported models."""

from __future__ import annotations

import itertools
import unicodedata
from typing import NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.export.saved_model import BatchedModel, TextSignature, export_model, sequence_features
from albert_tf.modeling.classifier import AlbertTokenClassifier
from albert_tf.modeling.settings import PredictingModel, TokenClassifierSettings
from albert_tf.tasks.tagging.features import SPECIAL_TOKENS, TaggingFeatureOptions, convert_sentences_to_features
from albert_tf.tasks.tagging.reading import Sentence
from albert_tf.text.graph.packing import is_max_context, slices, windows_of, with_special_tokens
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.packing import padded_rows, padding_values
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.imports import tensorflow_text as tf_text
from albert_tf.weights.heads import checked_settings

WORDS = "words"  # a signature of exports
_BATCH = 16  # windows


class Word(NamedTuple):
    """A word of a text, at text[start:end]."""

    word: str
    start: int
    end: int


def split_words(text: str) -> list[Word]:
    """The words of a text: runs of letters, marks, digits and "_", and other single characters but white space."""
    words, position = [], 0
    for kind, run in itertools.groupby(text, _kind):
        length = sum(1 for _ in run)
        if kind == "word":
            words.append(Word(text[position : position + length], position, position + length))
        elif kind == "single":
            words += [Word(text[i], i, i + 1) for i in range(position, position + length)]
        position += length
    return words


def _kind(character: str) -> str:
    if character.isspace():
        return "space"
    return "word" if character == "_" or unicodedata.category(character)[0] in "LMN" else "single"


def tag_words(
    model: PredictingModel, tokenizer: FullTokenizer, sentences: Sequence[Sequence[str]]
) -> list[np.ndarray]:
    """The probabilities of the tags of each word, float32 [words, labels] for each sentence."""
    checked_settings(model, tokenizer, TokenClassifierSettings)
    options, counts = feature_options(model), [len(words) for words in sentences]
    rows = list(convert_sentences_to_features(
        [Sentence(tuple(words), None, ()) for words in sentences], (), tokenizer, options))
    probabilities: list[np.ndarray] = [np.zeros([0, model.num_labels], np.float32)]
    for first in range(0, len(rows), _BATCH):
        batch = rows[first : first + _BATCH]
        inputs = {name: padded_rows([row[name] for row in batch], fill)
                  for name, fill in padding_values(tokenizer.pad_id).items()}
        outputs = model(inputs)
        logits = tf.cast(outputs["logits"], tf.float32)
        probabilities += [row_probabilities[np.flatnonzero(row["first_pieces"])]
                          for row, row_probabilities in zip(batch, tf.nn.softmax(logits).numpy())]
    return np.split(np.concatenate(probabilities), np.cumsum(counts)[:-1])


def feature_options(model: PredictingModel) -> TaggingFeatureOptions:
    """How a model reads words: by its arguments, or else in rows of at most 512 tokens."""
    settings = model.settings
    length = min(settings.max_seq_length or 512, model.config.max_position_embeddings)
    return TaggingFeatureOptions(length, min(settings.doc_stride or 0, length - SPECIAL_TOKENS))


def tag_names(model: PredictingModel) -> Sequence[str]:
    """The names of a model's tags, which are numbered if it has none."""
    return model.settings.label_names or [f"label {number}" for number in range(model.num_labels)]


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
    label_names = model.settings.label_names
    if label_names is None:
        raise ValueError("the tags have no names: give label_names to the model, or store them with its weights")

    def pack(graph_tokenizer: GraphTokenizer, words: tf.Tensor) -> dict:
        rows = tf.RaggedTensor.from_tensor(words, padding="")
        return dict(pack_words(graph_tokenizer, options, rows), words=rows)

    def pack_text(graph_tokenizer: GraphTokenizer, text: tf.Tensor) -> dict:
        words, starts, ends = split_into_words(text)
        return dict(pack_words(graph_tokenizer, options, words), words=words, start=starts, end=ends)

    def answer(texts: dict, inputs: dict, outputs: dict) -> dict:
        tags, scores = _best_tags(inputs, outputs["probabilities"], label_names)
        return dict(tags=tags.to_tensor(""), scores=scores.to_tensor(0.0))

    def answer_text(texts: dict, inputs: dict, outputs: dict) -> dict:
        offsets = {name: inputs[name].to_tensor(-1) for name in ("start", "end")}
        return dict(answer(texts, inputs, outputs), words=inputs["words"].to_tensor(""), **offsets)

    export_model(export_dir, BatchedModel(model, {"logits": tf.float32}, _BATCH), tokenizer,
                 sequence_features(options.max_seq_length),
                 lambda outputs: dict(probabilities=tf.nn.softmax(outputs["logits"])),
                 TextSignature(dict(text=[None]), pack_text, answer_text),
                 {WORDS: TextSignature(dict(words=[None, None]), pack, answer)}, label_names)


def _best_tags(inputs: dict, probabilities: tf.Tensor, label_names: Sequence[str]
               ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """The most probable tag of each word, and its probability: [batch, (words)]."""
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
    """Splits texts, string [texts], into words [texts, (words)], with their starts and ends as str counts them."""
    words, starts, ends = tf_text.regex_split_with_offsets(texts, f"{_SPACE}|{_SINGLE}", _SINGLE)
    _, offsets = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="replace")
    # The bytes of all texts are numbered consecutively, so that one search finds the characters of all words.
    sizes = tf.cast(tf.strings.length(texts), tf.int64) + 1
    before = tf.cumsum(sizes, exclusive=True)
    characters = offsets.values + tf.gather(before, offsets.value_rowids())  # [characters of all texts]

    def in_characters(positions: tf.RaggedTensor) -> tf.RaggedTensor:
        rows = positions.value_rowids()
        numbers = tf.searchsorted(characters, positions.values + tf.gather(before, rows), out_type=tf.int64)
        return positions.with_values(tf.cast(numbers - tf.gather(offsets.row_starts(), rows), tf.int32))

    return words, in_characters(starts), in_characters(ends)


def pack_words(
    tokenizer: GraphTokenizer, options: TaggingFeatureOptions, words: tf.RaggedTensor
) -> dict[str, tf.Tensor]:
    """Packs the words of each text into windows. The windows of a text are consecutive; each text has at least one.

    Words are string [texts, (words)].

    Returns:
      input_ids, input_mask, segment_ids: int32 [windows, seq], padded to the longest window.
      text: int64 [windows], the index of the text of a window.
      word: int64 [windows, seq], the word whose tag a token predicts, as an index into the words of all texts, or -1.
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
    is_first = tf.range(num_pieces) == tf.gather(word_pieces.row_starts(), word)

    window_length = tf.fill(tf.shape(pieces.row_lengths()), tf.constant(options.window_length, tf.int64))
    windows = windows_of(pieces.row_lengths(), window_length, options.stride)
    begin = tf.gather(pieces.row_starts(), windows.text) + windows.first  # among the pieces of all texts
    none = tf.zeros_like(begin)
    ids, segments = with_special_tokens(tokenizer, slices(pieces.values, begin, windows.length),
                                        tf.RaggedTensor.from_row_lengths(tf.zeros([0], tf.int32), none), has_b=none)

    input_ids = ids.to_tensor(tokenizer.pad_id)  # [windows, seq]
    length = windows.length[:, None]
    position = tf.range(tf.shape(input_ids, tf.int64)[1])[None] - 1  # in the window
    in_window = (position >= 0) & (position < length)
    piece = tf.where(in_window, begin[:, None] + position, num_pieces)
    word = tf.gather(tf.pad(tf.where(is_first, word, -1), [[0, 1]], constant_values=-1), piece)
    has_context = is_max_context(position, length, in_window, piece, num_pieces)
    return dict(input_ids=input_ids, input_mask=tf.ones_like(ids).to_tensor(0), segment_ids=segments.to_tensor(0),
                text=windows.text, word=tf.where(has_context, word, -1))

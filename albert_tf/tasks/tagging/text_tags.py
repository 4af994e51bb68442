"""Tags words of raw text with a fine-tuned model, Keras or exported."""

from __future__ import annotations

import itertools
import unicodedata
from typing import NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.modeling.arguments import PredictingModel
from albert_tf.tasks.tagging.features import SPECIAL_TOKENS, TaggingFeatureOptions, convert_sentences_to_features
from albert_tf.tasks.tagging.metrics import mean_of_pieces
from albert_tf.tasks.tagging.reading import Sentence
from albert_tf.text.packing import padded_rows, padding_values
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.weights.heads import check_reads_texts

_BATCH = 16  # windows


class Word(NamedTuple):
    """A word of a text, at text[start:end]."""

    word: str
    start: int
    end: int


def split_words(text: str) -> list[Word]:
    """The words of a text: runs of letters, marks, digits and "_", and other single characters but white space."""
    words, place = [], 0
    for kind, run in itertools.groupby(text, _kind):
        length = sum(1 for _ in run)
        if kind == "word":
            words.append(Word(text[place : place + length], place, place + length))
        elif kind == "single":
            words += [Word(text[i], i, i + 1) for i in range(place, place + length)]
        place += length
    return words


def _kind(character: str) -> str:
    if character.isspace():
        return "space"
    return "word" if character == "_" or unicodedata.category(character)[0] in "LMN" else "single"


def tag_words(
    model: PredictingModel, tokenizer: FullTokenizer, sentences: Sequence[Sequence[str]]
) -> list[np.ndarray]:
    """The probabilities of the tags of each word, float32 [words, labels] for each sentence."""
    check_reads_texts(model, tokenizer, "token_classifier")
    options, counts = feature_options(model), [len(words) for words in sentences]
    rows = list(convert_sentences_to_features(
        [Sentence(tuple(words), None, ()) for words in sentences], (), tokenizer, options))
    marks: list[np.ndarray] = [np.zeros(0, np.int32)]
    probabilities: list[np.ndarray] = [np.zeros([0, model.num_labels], np.float32)]
    for first in range(0, len(rows), _BATCH):
        batch = rows[first : first + _BATCH]
        inputs = {name: padded_rows([row[name] for row in batch], fill)
                  for name, fill in padding_values(tokenizer.pad_id).items()}
        outputs = model(inputs)
        logits = tf.cast(outputs["logits"], tf.float32)
        for row, row_probabilities in zip(batch, tf.nn.softmax(logits).numpy()):
            pieces = np.array(row["word_pieces"])
            places = np.flatnonzero(pieces)
            marks.append(pieces[places])
            probabilities.append(row_probabilities[places])
    of_words = mean_of_pieces(np.concatenate(marks), np.concatenate(probabilities))
    return np.split(of_words, np.cumsum(counts)[:-1])


def feature_options(model: PredictingModel) -> TaggingFeatureOptions:
    """How a model reads words: by its arguments, or else in rows of at most 512 tokens."""
    length = min(model.max_seq_length or 512, model.config.max_position_embeddings)
    return TaggingFeatureOptions(length, min(model.doc_stride or 0, length - SPECIAL_TOKENS), model.label_all_pieces)

"""Features of tagged sentences: alignment, windows, records, and the same features from TensorFlow ops."""

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY

from albert_tf.data.feature_table import FeatureCache
from albert_tf.modeling.classifier import AlbertTokenClassifier
from albert_tf.tasks.tagging.features import TaggingFeatureOptions, convert_sentences_to_features, feature_table
from albert_tf.tasks.tagging.reading import Sentence, read_tagged_text
from albert_tf.tasks.tagging.text_tags import feature_options, pack_words, split_into_words
from albert_tf.text.graph.tokenization import GraphTokenizer

WORDS = ("Ada", "sold", "a", "remarkable", "kettle", "\u0301", "in", "Paris", ".")
SENTENCE = Sentence(WORDS, tuple("ABABABABA"), tuple(range(1, 10)))
NAMES = ("A", "B")


def features(tokenizer, sentences, **options):
    return list(convert_sentences_to_features(sentences, NAMES, tokenizer, TaggingFeatureOptions(**options)))


@pytest.mark.parametrize("tokenizer", ["sentence_pieces", "word_pieces"])
def test_the_first_piece_of_each_word_has_its_tag(request, tokenizer):
    tokenizer = request.getfixturevalue(tokenizer)
    row, = features(tokenizer, [SENTENCE], max_seq_length=64)
    pieces = [tokenizer.encode(word) or [tokenizer.unk_id] for word in WORDS]
    assert row["input_ids"] == [tokenizer.cls_id, *sum(pieces, []), tokenizer.sep_id]
    marks = [1 if i == 0 else 0 for word in pieces for i in range(len(word))]
    tags = [1 + "AB".index(tag) if i == 0 else 0 for word, tag in zip(pieces, SENTENCE.tags) for i in range(len(word))]
    assert row["first_pieces"] == [0, *marks, 0] and row["tag_ids"] == [0, *tags, 0] and row["sentence"] == 0
    assert sum(row["first_pieces"]) == len(WORDS) and set(row["input_mask"]) == {1} and set(row["segment_ids"]) == {0}


@pytest.mark.parametrize("max_seq_length, doc_stride", [(8, 0), (8, 1), (12, 5), (16, 14), (3, 0)])
def test_windows_lose_and_repeat_nothing(sentence_pieces, max_seq_length, doc_stride):
    whole, = features(sentence_pieces, [SENTENCE], max_seq_length=64)
    rows = features(sentence_pieces, [SENTENCE], max_seq_length=max_seq_length, doc_stride=doc_stride)
    assert len(rows) > 1 and max(len(row["input_ids"]) for row in rows) == max_seq_length
    counted = [[(piece, mark, tag) for piece, mark, tag in zip(row["input_ids"], row["first_pieces"], row["tag_ids"])
                if mark] for row in rows]
    expected = [(piece, mark, tag) for piece, mark, tag in
                zip(whole["input_ids"], whole["first_pieces"], whole["tag_ids"]) if mark]
    assert sum(counted, []) == expected


@pytest.mark.parametrize("max_seq_length, doc_stride", [(64, 0), (9, 0), (9, 2)])
def test_the_graph_packs_the_same_rows(sentence_pieces, max_seq_length, doc_stride):
    options = TaggingFeatureOptions(max_seq_length, doc_stride)
    sentences = [SENTENCE, Sentence(("No",), ("A",), (1,)), SENTENCE._replace(words=WORDS[::-1])]
    rows = list(convert_sentences_to_features(sentences, NAMES, sentence_pieces, options))
    words = tf.ragged.constant([each.words for each in sentences])
    packed = {name: value.numpy() for name, value in
              pack_words(GraphTokenizer(sentence_pieces), options, words).items()}
    number = -1
    for i, row in enumerate(rows):
        length = len(row["input_ids"])
        for name in ("input_ids", "input_mask", "segment_ids"):
            np.testing.assert_array_equal(packed[name][i, :length], row[name])
            assert not packed[name][i, length:].any()
        for mark, word in zip(row["first_pieces"], packed["word"][i]):
            number += mark == 1
            assert word == (number if mark else -1)
    assert len(packed["word"]) == len(rows) and number + 1 == 19


def test_a_text_is_split_into_words_whose_offsets_cut_them_out():
    texts = ["Ada's café costs $5.20!  é日本 x_y\u00a0z", "", " \U0001f600 end", "a\x0bb\x1cc\x85d\u2028e\x0cf"]
    words, starts, ends = (each.to_list() for each in split_into_words(tf.constant(texts)))
    assert [[word.decode() for word in row] for row in words] == [
        ["Ada", "'", "s", "café", "costs", "$", "5", ".", "20", "!", "é日本", "x_y", "z"], [], ["\U0001f600", "end"],
        [*"abcdef"]]
    for text, row, *offsets in zip(texts, words, starts, ends):
        assert [text[start:end] for start, end in zip(*offsets)] == [word.decode() for word in row]


def test_more_tags_than_a_byte_counts_come_back(sentence_pieces, tmp_path):
    names = [f"T{number:03}" for number in range(300)]
    (tmp_path / "a.tsv").write_text("".join(f"a\t{name}\n" for name in names))
    text = read_tagged_text(str(tmp_path / "a.tsv"))
    cache = FeatureCache(sentence_pieces, str(tmp_path))
    table = feature_table(cache, text, "train", names, TaggingFeatureOptions(512))
    tags = tf.reshape(table.batch(tf.range(len(table), dtype=tf.int64), 512)["tag_ids"], [-1]).numpy()
    assert tags[tags > 0].tolist() == list(range(1, 301))


@pytest.mark.parametrize("options, message", [
    (dict(max_seq_length=2), "max_seq_length must be a whole number from 3"),
    (dict(max_seq_length=8, doc_stride=7), "doc_stride must be from 0 to 6, the pieces of a window. Received: 7")])
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        TaggingFeatureOptions(**options)


@pytest.mark.parametrize("length, doc_stride, expected", [(12, None, 0), (12, 3, 3), (12, 90, 10), (None, None, 0)])
def test_a_tagger_reads_texts_by_its_stride_as_far_as_it_fits_in_rows(length, doc_stride, expected):
    model = AlbertTokenClassifier(TINY.replace(max_position_embeddings=600), 2, max_seq_length=length,
                                  doc_stride=doc_stride)
    assert feature_options(model) == TaggingFeatureOptions(length or 512, expected)

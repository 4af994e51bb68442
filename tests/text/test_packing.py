"""Windows of long texts, and rows of pieces, in Python and as TensorFlow operations."""

import numpy as np
import pytest
import tensorflow as tf
from tiny import graph_of

from albert_tf.text.graph.packing import pack_ids, pack_text_windows, pack_texts
from albert_tf.text.packing import PairPacker, WindowOptions, WindowPacker, concatenated, windows

NAMES = ("input_ids", "input_mask", "segment_ids")


def packed(tokenizer, length, options, ids_a, ids_b=(), pad=False):
    """The rows of an example that are not empty."""
    features = WindowPacker(PairPacker(tokenizer, length, pad), options).pack(ids_a, ids_b)
    assert all(len(features[name]) == options.max_windows for name in NAMES)
    return [row for row in features["input_ids"] if row]


def test_a_long_text_is_read_in_windows_of_the_stride(sentence_pieces):
    cls, sep = sentence_pieces.cls_id, sentence_pieces.sep_id
    assert packed(sentence_pieces, 6, WindowOptions(8, 3), range(10, 19)) == [
        [cls, 10, 11, 12, 13, sep], [cls, 13, 14, 15, 16, sep], [cls, 16, 17, 18, sep]]
    half = packed(sentence_pieces, 6, WindowOptions(8), range(10, 19))
    assert [row[1] for row in half] == [10, 12, 14, 16] and half[-1] == [cls, 16, 17, 18, sep]
    assert packed(sentence_pieces, 6, WindowOptions(8, 100), range(10, 19))[1] == [cls, 14, 15, 16, 17, sep]


def test_the_longer_text_of_a_pair_is_split_and_each_window_has_the_whole_shorter_one(sentence_pieces):
    cls, sep = sentence_pieces.cls_id, sentence_pieces.sep_id
    a, b, c, d, e, f, g, h, i = range(10, 19)
    assert packed(sentence_pieces, 10, WindowOptions(8, 2), [a, b, c], [d, e, f, g, h, i]) == [
        [cls, a, b, c, sep, d, e, f, g, sep], [cls, a, b, c, sep, f, g, h, i, sep]]
    assert packed(sentence_pieces, 10, WindowOptions(8, 2), [d, e, f, g, h, i], [a, b, c]) == [
        [cls, d, e, f, g, sep, a, b, c, sep], [cls, f, g, h, i, sep, a, b, c, sep]]
    both_long = packed(sentence_pieces, 7, WindowOptions(8), [a, b, c, d], [e, f, g, h])
    assert both_long[0] == [cls, a, b, sep, e, f, sep] and both_long[-1] == [cls, a, b, sep, g, h, sep]


@pytest.mark.parametrize("lengths", [(0, 0), (3, 0), (0, 5), (2, 3), (7, 0), (9, 9), (3, 30), (30, 4), (30, 31)])
@pytest.mark.parametrize("max_seq_length", [5, 6, 10])
def test_the_first_window_is_the_truncated_row(sentence_pieces, lengths, max_seq_length):
    ids_a, ids_b = range(10, 10 + lengths[0]), range(50, 50 + lengths[1])
    packer = PairPacker(sentence_pieces, max_seq_length)
    expected = packer.pack(ids_a, ids_b)
    assert WindowPacker(packer, WindowOptions()).pack(ids_a, ids_b) == expected
    rows = WindowPacker(packer, WindowOptions(50)).pack(ids_a, ids_b)
    assert {name: values[0] for name, values in rows.items()} == expected
    assert set(max((ids_b, ids_a), key=len)) <= {token for row in rows["input_ids"] for token in row}


def test_windows_beyond_the_most_are_left_out_and_counted_and_rows_too_short_for_a_pair_are_refused(sentence_pieces):
    with pytest.raises(ValueError, match="max_seq_length .* 5 .* 4"):
        WindowPacker(PairPacker(sentence_pieces, 4), WindowOptions(2))
    packer = WindowPacker(PairPacker(sentence_pieces, 6), WindowOptions(2, 4))
    assert [row[1] for row in packer.pack(range(10, 18))["input_ids"]] == [10, 14] and packer.num_truncated == 0
    assert [row[1] for row in packer.pack(range(10, 19))["input_ids"]] == [10, 14] and packer.num_truncated == 1


@pytest.mark.both_stacks
@pytest.mark.parametrize("max_seq_length, options", [
    (12, WindowOptions(50)), (12, WindowOptions(3, 2)),
    pytest.param(16, WindowOptions(4, 100), marks=pytest.mark.long),
    pytest.param(5, WindowOptions(50), marks=pytest.mark.long)])
def test_the_graph_packs_the_same_windows(sentence_pieces, max_seq_length, options):
    pairs = [("the name", "of the file"), ("", ""), ("the name of the file is known", ""), ("a " * 30, "b c d e"),
             ("", "the name of the file"), ("of the", "nobody had filled the kettle and it stood there " * 2),
             ("a b c d e f g h i j k l", "m n o p q r s t u v w x"), ("of " * 9, "of " * 9)]
    rows = [WindowPacker(PairPacker(sentence_pieces, max_seq_length), options)
            .pack(sentence_pieces.encode(a), sentence_pieces.encode(b)) for a, b in pairs]
    graph = tf.function(pack_text_windows, autograph=False)
    firsts, seconds = (tf.constant(texts) for texts in zip(*pairs))
    check_packed(graph(graph_of(sentence_pieces), max_seq_length, options, firsts, seconds), rows)
    alone = [WindowPacker(PairPacker(sentence_pieces, max_seq_length), options).pack(sentence_pieces.encode(a))
             for a, _ in pairs]
    check_packed(graph(graph_of(sentence_pieces), max_seq_length, options, firsts), alone)


def check_packed(inputs, rows):
    for name in NAMES:
        expected, found = np.array([row[name] for row in rows]), inputs[name].numpy()
        _, windows, length = found.shape
        np.testing.assert_array_equal(found, expected[:, :windows, :length])
        assert not expected[:, windows:].any() and not expected[:, :, length:].any()


def test_windows_cover_the_paragraph_and_each_piece_is_at_home_in_one():
    found = windows(100, 40, 16)
    assert [(window.first, window.length) for window in found] == [(0, 40), (16, 40), (32, 40), (48, 40), (64, 36)]
    homes = np.zeros(100, int)
    for window in found:
        homes[window.first : window.first + window.length] += window.is_max_context
    assert (homes == 1).all()


def test_a_stride_longer_than_the_window_leaves_nothing_out():
    assert [(window.first, window.length) for window in windows(25, 10, 50)] == [(0, 10), (10, 10), (20, 5)]
    assert windows(0, 10, 5) == ()


@pytest.mark.parametrize("max_seq_length", [4, 5, 11])
def test_every_pair_of_lengths_is_cut_as_pair_packer_does(sentence_pieces, max_seq_length):
    lengths = [(a, b) for a in range(11) for b in range(11)]
    ids = [[list(range(10, 10 + length)) for length in column] for column in zip(*lengths)]
    packed = pack_ids(graph_of(sentence_pieces), max_seq_length, *(tf.ragged.constant(rows, tf.int32) for rows in ids),
                      padded_length=max_seq_length)
    packer = PairPacker(sentence_pieces, max_seq_length)
    for number, (ids_a, ids_b) in enumerate(zip(*ids)):
        expected = packer.pack(ids_a, ids_b)
        assert {name: rows[number].numpy().tolist() for name, rows in packed.items()} == expected


def test_texts_are_padded_to_the_longest_of_the_batch(sentence_pieces):
    texts = ["the name of the file", "", "the"]
    packed = pack_texts(graph_of(sentence_pieces), 8, texts)
    longest = min(8, 2 + len(sentence_pieces.encode(texts[0])))
    assert packed["input_ids"].shape == [3, longest]
    rows = [PairPacker(sentence_pieces, 8).pack(sentence_pieces.encode(text)) for text in texts]
    for name, found in packed.items():
        np.testing.assert_array_equal(found, [row[name][:longest] for row in rows])


def test_batches_of_arrays_and_tensors_are_joined_by_name():
    empty = dict(logits=np.zeros([0, 2], np.float32))
    joined = concatenated([empty, dict(logits=tf.constant([[1.0, 2.0]]), layers=tf.constant([3])),
                           dict(logits=np.array([[3, 4], [5, 6]], np.float32), layers=np.array([1, 2], np.int32))])
    np.testing.assert_array_equal(joined["logits"], [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(joined["layers"], [3, 1, 2])
    assert {name: values.dtype for name, values in joined.items()} == dict(logits=np.float32, layers=np.int32)
    assert concatenated([empty])["logits"].shape == (0, 2) and concatenated([]) == {}

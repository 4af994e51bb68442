"""Windows of texts that are longer than a row: rows, and the same rows from TensorFlow ops."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.text.graph.packing import pack_text_windows
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.packing import PairPacker, WindowOptions, WindowPacker

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


def test_rows_that_are_too_short_for_a_pair_are_refused(sentence_pieces):
    with pytest.raises(ValueError, match="max_seq_length must be at least 5 for windows. Received: 4"):
        WindowPacker(PairPacker(sentence_pieces, 4), WindowOptions(2))


def test_windows_beyond_the_most_are_left_out_and_counted(sentence_pieces):
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
    check_packed(graph(GraphTokenizer(sentence_pieces), max_seq_length, options, firsts, seconds), rows)
    alone = [WindowPacker(PairPacker(sentence_pieces, max_seq_length), options).pack(sentence_pieces.encode(a))
             for a, _ in pairs]
    check_packed(graph(GraphTokenizer(sentence_pieces), max_seq_length, options, firsts), alone)


def check_packed(inputs, rows):
    for name in NAMES:
        expected, found = np.array([row[name] for row in rows]), inputs[name].numpy()
        _, windows, length = found.shape
        np.testing.assert_array_equal(found, expected[:, :windows, :length])
        assert not expected[:, windows:].any() and not expected[:, :, length:].any()

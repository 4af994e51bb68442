"""Packing in a graph: the rows of PairPacker."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.graph_packing import pack_ids, pack_texts, pack_texts_with_offsets
from albert_tf.data.pair_packing import PairPacker
from albert_tf.text.graph_tokenization import GraphTokenizer
from albert_tf.text.tokenization import FullTokenizer


@pytest.fixture(scope="module")
def tokenizer(golden):
    return FullTokenizer(spm_model_file=str(golden / "tiny_spm/tiny.model"))


@pytest.fixture(scope="module")
def graph_tokenizer(tokenizer):
    return GraphTokenizer(tokenizer)


def unpadded(packed):
    lengths = tf.reduce_sum(packed["input_mask"], axis=1).numpy()
    return {name: [row[:length].tolist() for row, length in zip(rows.numpy(), lengths)]
            for name, rows in packed.items()}


@pytest.mark.parametrize("max_seq_length", [4, 5, 6, 11, 12])
def test_every_pair_of_lengths_is_cut_as_pair_packer_does(tokenizer, graph_tokenizer, max_seq_length):
    lengths = [(a, b) for a in range(11) for b in range(11)]
    ids = [[list(range(10, 10 + length)) for length in column] for column in zip(*lengths)]
    packed = pack_ids(graph_tokenizer, max_seq_length, *(tf.ragged.constant(rows, tf.int32) for rows in ids),
                      padded_length=max_seq_length)
    packer = PairPacker(tokenizer, max_seq_length)
    for number, (ids_a, ids_b) in enumerate(zip(*ids)):
        expected = packer.pack(ids_a, ids_b)
        assert {name: rows[number].numpy().tolist() for name, rows in packed.items()} == expected


def test_texts_are_padded_to_the_longest_of_the_batch(tokenizer, graph_tokenizer):
    texts = ["the name of the file", "", "the"]
    packed = pack_texts(graph_tokenizer, 8, texts)
    longest = min(8, 2 + len(tokenizer.encode(texts[0])))
    assert packed["input_ids"].shape == [3, longest]
    rows = [PairPacker(tokenizer, 8).pack(tokenizer.encode(text)) for text in texts]
    for name, found in unpadded(packed).items():
        assert found == [row[name][: sum(row["input_mask"])] for row in rows]


def test_the_tokens_of_the_second_text_say_where_they_stand(tokenizer, graph_tokenizer):
    questions, contexts = ["the name", "of"], ["It is Über the File", "no"]
    packed = pack_texts_with_offsets(graph_tokenizer, 40, questions, contexts)
    packed = {name: rows.numpy() for name, rows in packed.items()}
    for row, (question, context) in enumerate(zip(questions, contexts)):
        first = 2 + len(tokenizer.encode(question))
        ids, starts, ends = (rows[0].numpy() for rows in graph_tokenizer.tokenize_with_offsets([context]))
        for name, expected in (("input_ids", ids), ("b_starts", starts), ("b_ends", ends)):
            np.testing.assert_array_equal(packed[name][row, first : first + len(ids)], expected)
        outside = np.ones(packed["input_ids"].shape[1], bool)
        outside[first : first + len(ids)] = False
        assert (packed["b_starts"][row, outside] == -1).all() and (packed["b_ends"][row, outside] == -1).all()


def test_offsets_of_what_was_cut_are_cut_too(graph_tokenizer):
    packed = pack_texts_with_offsets(graph_tokenizer, 6, ["the name of"], ["the name of the file"])
    whole = pack_texts_with_offsets(graph_tokenizer, 60, ["the name of"], ["the name of the file"])
    found, all_of_it = (rows["b_starts"].numpy()[0] for rows in (packed, whole))
    kept = found[found >= 0]
    assert 0 < len(kept) < (all_of_it >= 0).sum()
    np.testing.assert_array_equal(kept, all_of_it[all_of_it >= 0][: len(kept)])

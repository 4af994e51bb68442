"""Packing with TensorFlow ops makes the rows of PairPacker."""

import pytest
import tensorflow as tf

from albert_tf.text.graph.packing import pack_ids, pack_texts
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.packing import PairPacker
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

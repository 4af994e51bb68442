"""Filling masks in raw text."""

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_TEXT

from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.tasks.masked_lm import GraphMasks, fill_masks, masked_ids
from albert_tf.text.graph.tokenization import GraphTokenizer


@pytest.fixture(scope="module")
def tokenizer(sentence_pieces):
    return sentence_pieces


@pytest.fixture(scope="module")
def model():
    return AlbertPretrainer(TINY_TEXT.replace(max_position_embeddings=32))


def pieces_of(tokenizer, text):
    return tokenizer.convert_ids_to_tokens(masked_ids(tokenizer, text))


def test_a_mask_takes_the_place_of_a_word(tokenizer):
    whole = tokenizer.convert_ids_to_tokens(tokenizer.encode("the name of the file"))
    cut = whole.index("\u2581name")
    expected = ["[CLS]", *whole[:cut], "[MASK]", *whole[cut + 1:], "[SEP]"]
    assert pieces_of(tokenizer, "the [MASK] of the file") == expected


def test_text_directly_after_a_mask_does_not_start_a_word(tokenizer):
    assert pieces_of(tokenizer, "[MASK].") == ["[CLS]", "[MASK]", ".", "[SEP]"]
    assert pieces_of(tokenizer, "[MASK] [MASK]") == ["[CLS]", "[MASK]", "[MASK]", "[SEP]"]


def test_the_fillings_are_the_softmax_of_the_masked_lm_logits(tokenizer, model):
    text = "return the [MASK] of the [MASK]."
    ids = masked_ids(tokenizer, text)
    positions = [i for i, piece in enumerate(ids) if piece == tokenizer.mask_id]
    row = np.array([ids], np.int32)
    outputs = model(dict(input_ids=row, input_mask=row * 0 + 1, segment_ids=row * 0,
                         masked_lm_positions=np.array([positions], np.int32)))
    logits = outputs["mlm_logits"].numpy()[0].astype(np.float64)
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    fillings = fill_masks(model, tokenizer, text, top_k=3)
    assert len(fillings) == 2
    for found, expected in zip(fillings, probabilities):
        best = np.argsort(-expected)[:3]
        assert [filling.piece for filling in found] == tokenizer.convert_ids_to_tokens(best.tolist())
        np.testing.assert_allclose([filling.probability for filling in found], expected[best], rtol=1e-5)


def test_rows_of_the_model_without_a_piece_fill_nothing(tokenizer, model):
    larger = AlbertPretrainer(model.config.replace(vocab_size=tokenizer.vocab_size + 24))
    larger.masked_lm.output_bias.assign(tf.range(larger.config.vocab_size, dtype=tf.float32))  # the last rows are best
    text, last = "return the [MASK] of the [MASK].", tokenizer.convert_ids_to_tokens([tokenizer.vocab_size - 1])
    assert [mask[0].piece for mask in fill_masks(larger, tokenizer, text, top_k=1)] == 2 * last
    assert len(fill_masks(larger, tokenizer, text, top_k=10_000)[0]) == tokenizer.vocab_size
    masks, graph_tokenizer = GraphMasks(tokenizer, 32, top_k=10_000), GraphTokenizer(tokenizer)
    inputs = masks.pack(graph_tokenizer, tf.constant([text]))
    pieces = masks.fillings(larger(inputs))["pieces"].numpy()
    assert pieces.shape == (1, 2, tokenizer.vocab_size) and pieces[0, 0, 0].decode() == last[0]


@pytest.mark.parametrize("text, message", [
    ("nothing here", r"no \[MASK\], in capitals and square brackets, in the text: 'nothing here'"),
    (["a [MASK]"], "text must be a string: call fill_masks once for each text. Received: list"),
    ("word " * 40 + "[MASK]", "the model takes 32")], ids=["no mask", "a list", "a long text"])
def test_what_cannot_be_filled_is_refused(tokenizer, model, text, message):
    with pytest.raises(ValueError, match=message):
        fill_masks(model, tokenizer, text)

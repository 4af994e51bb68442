"""Vectors of texts do not depend on the other texts of a batch."""

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.tasks.sentence_vectors.vectors import embed, token_ids, vectors_function
from albert_tf.text.tokenization import FullTokenizer

TEXTS = ["the name of the file", "", "a " * 40, "of", "the"]


@pytest.fixture(scope="module")
def tokenizer(golden):
    return FullTokenizer(spm_model_file=str(golden / "tiny_spm/tiny.model"))


@pytest.fixture(scope="module")
def model(tokenizer):
    return AlbertSentenceEncoder(AlbertConfig(
        vocab_size=tokenizer.vocab_size, embedding_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=16), pooling="pooler")


def test_a_row_is_the_text_between_its_special_tokens_cut_to_the_model(tokenizer):
    rows = token_ids(tokenizer, TEXTS, 16)
    assert rows[0].tolist() == [tokenizer.cls_id, *tokenizer.encode(TEXTS[0]), tokenizer.sep_id]
    assert rows[1].tolist() == [tokenizer.cls_id, tokenizer.sep_id]
    assert len(rows[2]) == 16 and rows[2][-1] == tokenizer.sep_id


@pytest.mark.parametrize("batch_size", [1, 2, 10])
def test_each_text_has_the_vectors_that_it_has_alone(tokenizer, model, batch_size):
    rows = token_ids(tokenizer, TEXTS, 16)
    found = {vectors.text: vectors for vectors in embed(vectors_function(model), rows, batch_size)}
    assert sorted(found) == [0, 1, 2, 3, 4]
    for text, row in enumerate(rows):
        ids = row[None]
        alone = model(dict(input_ids=ids, input_mask=np.ones_like(ids), segment_ids=np.zeros_like(ids)))
        np.testing.assert_allclose(found[text].pooled, alone["pooled_output"][0], atol=1e-5)
        np.testing.assert_allclose(found[text].tokens, alone["sequence_output"][0], atol=1e-5)

"""A corpus on disk returns the documents that were written to it, whole or in parts."""

import numpy as np
import pytest

from albert_tf.pretraining.corpus import Part, batch_of, open_corpus, write_corpus


def batch(*lengths):
    """Ids from 0 on for sentences of the given lengths; -1 ends a document."""
    ids = np.arange(sum(length for length in lengths if length > 0), dtype=np.int32)
    return batch_of(ids, np.array(lengths, np.int64))


@pytest.fixture
def corpus(tmp_path):
    """Documents of 2, 1 and 5 sentences. The last continues in a second batch, and blank lines are everywhere."""
    batches = [batch(-1, 3, 2, -1, -1, 4, -1, 1, 1), batch(1, 1, 1, -1), batch(-1)]
    return write_corpus(batches, str(tmp_path), "the file")


def test_documents_end_at_blank_lines_also_across_batches_and_can_be_read_twice(corpus, tmp_path):
    assert (len(corpus), corpus.num_sentences, corpus.num_tokens) == (3, 8, 14)
    for opened in (corpus, open_corpus(str(tmp_path))):
        for part, *expected in ((Part(0, 0, 2), [0, 1, 2, 3, 4], [0, 3, 5]), (Part(2, 4, 7), [10, 0, 1], [0, 1, 2, 3])):
            ids, ends = opened.sentences(part)
            assert [ids.tolist(), ends] == expected


def test_random_sentences_are_of_another_document_and_of_the_requested_number(corpus):
    rng = np.random.default_rng(1)
    of_the_others = [corpus.random_sentences(rng, 0, 2).tolist() for _ in range(300)]
    # The second document whole, or two sentences of the third, or its last one.
    assert {tuple(ids) for ids in of_the_others} == {(5, 6, 7, 8), (9, 10), (10, 0), (0, 1), (1, 2), (2,)}
    assert 0.4 < np.mean([ids[0] == 5 for ids in of_the_others]) < 0.6


def test_no_token_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="there is no text in the file"):
        write_corpus([batch(-1), batch(-1, -1)], str(tmp_path), "the file")

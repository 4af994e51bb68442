"""The demo's own parts: its corpus, its bar, and what it does with a text of the user's."""

import numpy as np
import pytest

from albert_tf.data.records import record_writer
from albert_tf.data.tf_example import serialize
from demo import baselines, python_docs
from demo.__main__ import write_corpus


def test_the_documentation_of_python_is_a_corpus_of_prose_in_a_fixed_order():
    documents = list(python_docs.documents())
    assert documents == list(python_docs.documents())
    assert sum(map(len, documents)) > 10_000
    assert all(len(document) > 1 for document in documents)
    assert not any("\n" in sentence or ">>>" in sentence for document in documents for sentence in document)


def test_prose_is_told_from_code_and_grammar():
    text = """Take the first of them. Return it to the caller.

    >>> first([1, 2, 3])
    1

    name ::= (letter) (letter | digit)*

    x = 1; y = 2; z = (x, y)
    """
    assert python_docs._sentences(text) == ["Take the first of them.", "Return it to the caller."]


def test_a_corpus_is_split_by_document(tmp_path):
    corpus = tmp_path / "mine.txt"
    corpus.write_text("\n\n".join(f"Document {i}.\nIts end {i}." for i in range(21)))
    train, dev = tmp_path / "train.txt", tmp_path / "dev.txt"
    write_corpus(str(corpus), str(train), str(dev))
    assert dev.read_text() == "Document 0.\nIts end 0.\n\nDocument 10.\nIts end 10.\n\nDocument 20.\nIts end 20.\n"
    assert train.read_text().count("Document") == 18


def test_a_corpus_of_one_document_is_refused(tmp_path):
    corpus = tmp_path / "mine.txt"
    corpus.write_text("Only this.\nAnd that.\n")
    with pytest.raises(ValueError, match="mine.txt: at least two documents"):
        write_corpus(str(corpus), str(tmp_path / "train.txt"), str(tmp_path / "dev.txt"))


def example(masked_lm_ids, next_sentence_label):
    tokens, padding = np.zeros(16, np.int32), [0] * (4 - len(masked_lm_ids))
    return serialize(
        input_ids=tokens, input_mask=tokens, segment_ids=tokens, token_boundary=tokens,
        masked_lm_positions=np.zeros(4, np.int32), masked_lm_ids=np.array(masked_lm_ids + padding),
        masked_lm_weights=np.array([1.0] * len(masked_lm_ids) + padding, np.float32),
        next_sentence_labels=np.array([next_sentence_label]))


def test_guessing_is_the_share_of_the_most_frequent(tmp_path):
    path = str(tmp_path / "x.tfrecord")
    with record_writer(path, {}) as writer:
        for order, masked in ((1, [7, 7]), (1, [7, 8]), (0, [9])):
            writer.write(example(masked, order))
    assert baselines.baselines(path, 16, 4) == {"masked_lm_accuracy": 3 / 5, "sentence_order_accuracy": 2 / 3}

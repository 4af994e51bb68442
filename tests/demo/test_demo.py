"""The demo: its corpus, its baselines, and a corpus of the user."""

import pathlib

import numpy as np
import pytest

from albert_tf.data.records import record_writer, serialize
from albert_tf.tasks.classification.data import read_examples
from albert_tf.tasks.classification.table_format import read_table_format
from demo import __main__ as demo, baselines, python_docs, word_order_task
from demo.__main__ import masked_sentences, models_folder, split_corpus, write_corpus


@pytest.mark.long
def test_the_documentation_of_python_is_a_corpus_of_prose_in_a_fixed_order():
    documents = list(python_docs.documents())
    assert documents == list(python_docs.documents())
    assert sum(map(len, documents)) > 10_000
    assert all(len(document) > 1 for document in documents)
    assert not any("\n" in sentence or ">>>" in sentence for document in documents for sentence in document)


def test_prose_is_distinguished_from_code_and_grammar():
    code = "    >>> f([1])\n    1\n\n    name ::= (letter) digit\n\n    x = 1; y = (x, 2)\n"
    sentences = ["Take the first of them.", "Return it to the caller."]
    assert python_docs._sentences(" ".join(sentences) + f"\n\n{code}") == sentences


def test_a_corpus_is_split_by_document(tmp_path):
    corpus = tmp_path / "mine.txt"
    corpus.write_text("\n\n".join(f"Document {i}.\nIts end {i}." for i in range(21)))
    train, dev = map(pathlib.Path, write_corpus(*split_corpus(str(corpus)), str(tmp_path)))
    assert dev.read_text() == "Document 0.\nIts end 0.\n\nDocument 10.\nIts end 10.\n\nDocument 20.\nIts end 20.\n"
    assert train.read_text().count("Document") == 18


def test_a_corpus_of_one_document_or_none_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("Only this.\nAnd that.\n")
    for name in ("mine.txt", "none.txt"):
        with pytest.raises((ValueError, OSError), match=name):
            split_corpus(str(tmp_path / name))


def test_questions_are_sentences_of_the_corpus_with_a_masked_word():
    documents = [["No.", "The harbour was empty, and empty again.", "word " * 40],
                 ["It is a (small) kettle.", "A b c d."]]
    assert masked_sentences(documents, 2) == ("The [MASK] was empty, and empty again.", "It is a (small) [MASK].")
    assert masked_sentences([["No."]]) == demo.NOVEL_SENTENCES[:1]


def test_every_second_sentence_has_two_neighbouring_words_swapped():
    sentences = [" ".join(f"w{i}x{j}" for j in range(5 + i % 22)) for i in range(200)]
    kept = {" ".join(sorted(sentence.split())): sentence for sentence in sentences if 6 <= len(sentence.split()) <= 25}
    rows = word_order_task.examples(sentences + sentences)
    assert len(rows) == len(kept)
    assert sum(label == "swapped" for label, _ in rows) == len(rows) // 2
    for label, sentence in rows:
        original = kept[" ".join(sorted(sentence.split()))].split()
        changed = [i for i, (a, b) in enumerate(zip(original, sentence.split())) if a != b]
        assert changed == ([] if label == "original" else [changed[0], changed[0] + 1])


def test_the_task_of_swapped_words_is_one_that_the_classifier_reads(tmp_path):
    (tmp_path / "text.txt").write_text("Return the name of the open file.\nDo not call it from a second thread.\n" * 2)
    text = str(tmp_path / "text.txt")
    task = read_table_format(word_order_task.write_task(text, text, str(tmp_path / "task")))
    rows = list(read_examples(task, str(tmp_path / "task"), "dev"))
    assert {row.label for row in rows} == set(task.labels) and len(rows) == 2


def test_guessing_is_the_share_of_the_most_frequent(tmp_path):
    def record(order, masked):
        tokens, padding = np.zeros(16, np.int32), [0] * (4 - len(masked))
        return serialize(
            **dict.fromkeys(("input_ids", "input_mask", "segment_ids", "token_boundary"), tokens),
            masked_lm_positions=tokens[:4], masked_lm_ids=np.array(masked + padding),
            masked_lm_weights=np.array([1.0] * len(masked) + padding, np.float32), next_sentence_labels=[order])

    path = str(tmp_path / "x.tfrecord")
    with record_writer(path, {}) as writer:
        for order, masked in ((1, [7, 7]), (1, [7, 8]), (0, [9])):
            writer.write(record(order, masked))
    assert baselines.baselines(path, 16, 4) == {"masked_lm_accuracy": 3 / 5, "sentence_order_accuracy": 2 / 3}


def test_each_corpus_has_models_of_its_own(tmp_path):
    """A finished run is not repeated, so in the same folder it would have the results of the earlier corpus."""
    folders = []
    for content in ("one", "two", "one"):
        (tmp_path / "train.txt").write_text(content)
        folders.append(models_folder("out", str(tmp_path / "train.txt")))
    assert folders[0] == folders[2] != folders[1]

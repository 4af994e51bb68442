"""The demo: its corpus, its baselines, and a corpus of the user."""

import pathlib

import pytest

from demo import python_docs
from demo.__main__ import models_folder, split_corpus, write_corpus


@pytest.mark.long
def test_the_documentation_of_python_is_a_corpus_of_prose_in_a_fixed_order():
    documents = list(python_docs.documents())
    assert documents == list(python_docs.documents())
    assert sum(map(len, documents)) > 10_000
    assert all(len(document) > 1 for document in documents)
    assert not any("\n" in sentence or ">>>" in sentence for document in documents for sentence in document)


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


def test_each_corpus_has_models_of_its_own(tmp_path):
    """A finished run is not repeated, so in the same folder it would have the results of the earlier corpus."""
    folders = []
    for content in ("one", "two", "one"):
        (tmp_path / "train.txt").write_text(content)
        folders.append(models_folder("out", str(tmp_path / "train.txt")))
    assert folders[0] == folders[2] != folders[1]

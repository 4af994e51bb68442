"""The demo: its corpus, its baselines, and a corpus of the user."""

import pathlib

import pytest

from demo import page, python_docs
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


def test_the_page_has_fillings_scores_and_answers_as_text(tmp_path):
    (tmp_path / "models/classifier").mkdir(parents=True)
    (tmp_path / "models/classifier/dev_predictions.csv").write_text(
        "index,text_a,prediction\n0,a <b> c,swapped\n", "utf-8")
    scores = dict(masked_lm_accuracy=(0.25, 0.3125, 0.05))
    path = page.write(str(tmp_path), {"before": "The <mask>\n    door 0.6"}, scores, (0.75, 0.5),
                      str(tmp_path / "models/run"), str(tmp_path / "models/classifier"))
    text = pathlib.Path(path).read_text("utf-8")
    for expected in ("The &lt;mask&gt;", "0.312", "0.750", "a &lt;b&gt; c</td><td>swapped",
                     'src="models/run/eval_history.svg"'):
        assert expected in text

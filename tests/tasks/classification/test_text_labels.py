"""Labels of raw texts."""

import numpy as np
import pytest

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.tasks.classification.answers import classify_texts
from albert_tf.text.tokenization import FullTokenizer

NAMES = ("bad", "fair", "good")


@pytest.fixture(scope="module")
def tokenizer(golden):
    return FullTokenizer(spm_model_file=str(golden / "tiny_spm/tiny.model"))


@pytest.fixture(scope="module")
def config(tokenizer):
    return AlbertConfig(vocab_size=tokenizer.vocab_size, embedding_size=8, hidden_size=16, num_hidden_layers=2,
                        num_attention_heads=2, intermediate_size=32, max_position_embeddings=16, initializer_range=0.5)


def expected(model, tokenizer, *texts):
    """The probabilities of a single row, in the order of the labels."""
    logits = model(tokenizer(*texts, max_seq_length=16))["logits"].numpy()[0].astype(np.float64)
    return np.exp(logits) / np.exp(logits).sum()


def test_labels_are_the_softmax_of_the_logits_and_the_most_probable_is_first(tokenizer, config):
    model = AlbertClassifier(config, 3, label_names=NAMES)
    texts = [f"line {number} of the file" for number in range(35)]  # more than a batch
    found = classify_texts(model, tokenizer, texts)
    assert len(found) == 35
    for text, labels in zip(texts, found):
        probabilities = expected(model, tokenizer, text)
        order = np.argsort(-probabilities)
        assert [label.name for label in labels] == [NAMES[i] for i in order]
        np.testing.assert_allclose([label.probability for label in labels], probabilities[order], rtol=1e-4)


def test_pairs_are_packed_together_and_labels_without_names_are_numbered(tokenizer, config):
    model = AlbertClassifier(config, 2)
    (labels,) = classify_texts(model, tokenizer, ["the name"], ["of the file"])
    assert dict(labels) == pytest.approx(dict(zip("01", expected(model, tokenizer, "the name", "of the file"))), 1e-4)


def test_a_text_longer_than_the_model_is_truncated(tokenizer, config):
    model = AlbertClassifier(config, 2)
    (labels,) = classify_texts(model, tokenizer, ["the file " * 30])
    assert dict(labels) == pytest.approx(dict(zip("01", expected(model, tokenizer, "the file " * 30))), 1e-4)


def test_a_model_of_single_texts_refuses_a_second_one(tokenizer, config, tmp_path):
    albert_tf.save_pretrained(AlbertClassifier(config, 2, single_texts=True), str(tmp_path), tokenizer)
    model = albert_tf.from_pretrained(str(tmp_path), model="classifier")
    texts = ["the name", "of the file"]
    with pytest.raises(ValueError, match="was trained on single texts and cannot read a second one: leave out text_pa"):
        classify_texts(model, tokenizer, texts, ["", "a line"])
    assert classify_texts(model, tokenizer, texts, ["", ""]) == classify_texts(model, tokenizer, texts)


def test_no_texts_have_no_labels(tokenizer, config):
    assert albert_tf.classify_texts(AlbertClassifier(config, 2), tokenizer, []) == []


@pytest.mark.parametrize("make, texts, pairs, message", [
    (AlbertPretrainer, ["a"], None, 'model="classifier".*Received: AlbertPretrainer'),
    (lambda config: AlbertClassifier(config, 1), ["a"], None, "for regression"),
    (lambda config: AlbertClassifier(config, 2), "a text", None, "texts must be a list of strings, not a string"),
    (lambda config: AlbertClassifier(config, 2), ["a"], "a text", "text_pairs must be a list of strings"),
    (lambda config: AlbertClassifier(config, 2), ["a"] * 35 + [float("nan")], None, r"texts\[35\]=nan"),
    (lambda config: AlbertClassifier(config, 2), ["a", "b"], ["c"], "2 texts and 1 text_pairs"),
])
def test_wrong_arguments_are_refused(tokenizer, config, make, texts, pairs, message):
    with pytest.raises(ValueError, match=message):
        classify_texts(make(config), tokenizer, texts, pairs)

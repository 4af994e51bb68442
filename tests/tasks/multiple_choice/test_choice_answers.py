"""Choices for questions, in Python and in a graph."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tasks.multiple_choice.answers import evaluate, pack_choices, write_predictions
from albert_tf.tasks.multiple_choice.data import MultipleChoiceExample, convert_examples_to_features, read_examples
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.tokenization import FullTokenizer

EXAMPLES = [
    MultipleChoiceExample("middle1.txt", "p", "q1", ("a", "b", "c"), 0, "middle"),
    MultipleChoiceExample("high1.txt", "p", "q2", ("a", "b"), 1, "high"),
    MultipleChoiceExample("high1.txt", "p", "q3", ("a", "b", "c"), 2, "high"),
]
PROBABILITIES = np.array([[0.5, 0.25, 0.25], [0.75, 0.25, 0.0], [0.0, 0.5, 0.5]])


def test_levels_are_scored_apart_and_together():
    results = evaluate(EXAMPLES, PROBABILITIES)
    loss = -np.log([0.5, 0.25, 0.5]).mean()
    assert results == dict(eval_accuracy=1 / 3, middle_accuracy=1.0, high_accuracy=0.0, eval_loss=results["loss"],
                           loss=results["loss"])
    np.testing.assert_allclose(results["loss"], loss)


def test_a_model_that_diverged_is_reported():
    with pytest.raises(ValueError, match="NaN or infinite: training has diverged"):
        evaluate(EXAMPLES, np.full([3, 3], np.nan))


def test_predictions_are_letters_of_choices_that_there_are(tmp_path):
    write_predictions(str(tmp_path), EXAMPLES, PROBABILITIES)
    lines = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert lines[1] == dict(id="high1.txt", question="q2", prediction="A", probabilities=[0.75, 0.25])
    assert [line["prediction"] for line in lines] == ["A", "A", "B"]


ODD = [
    MultipleChoiceExample("blank", "It rained.", "_ is it _ or __?", ("a b", "Ü", " c ", "4,50")),
    MultipleChoiceExample("no blank", "It rained.", "Why? ", ("because", "A", "ΣΑΣ", "x")),
    MultipleChoiceExample("full width", "İt rained…", "the story＿", ("on a bus", "ﬁn", "b", "c")),
    MultipleChoiceExample("missing", "It rained.", "It _.", ("rained", "snowed")),
    MultipleChoiceExample("no passage", "", "It _.", ("rained", "snowed", "hailed")),
    MultipleChoiceExample("long", "word " * 90, "why " * 30, ("because " * 30, "b", "c", "d")),
    MultipleChoiceExample("no question", "It rained.", "", ("a", "b", "c", "d")),
    MultipleChoiceExample("nothing but the blank", "It rained.", "_", ("a", "b", "c", "d")),
]


@pytest.fixture(scope="module", params=["SentencePiece", "WordPiece"])
def tokenizer(request, golden, tmp_path_factory):
    if request.param == "SentencePiece":
        return FullTokenizer(spm_model_file=str(golden / "tiny_spm" / "tiny.model"))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "it", "rained", "_", "?", "why", "b", "##b", "a", "is"]
    path = tmp_path_factory.mktemp("words") / "vocab.txt"
    path.write_text("\n".join(words))
    return FullTokenizer(vocab_file=str(path))


@pytest.mark.long
@pytest.mark.parametrize("max_seq_length, max_qa_length", [(64, 24), (16, 5), (16, 128)])
def test_rows_are_those_of_the_conversion(golden, tokenizer, max_seq_length, max_qa_length):
    examples = [*read_examples(str(golden / "race"), "train"), *ODD]
    packed = tf.function(pack_choices, autograph=False)(
        GraphTokenizer(tokenizer), max_seq_length, max_qa_length,
        tf.constant([example.context for example in examples]), tf.constant([example.question for example in examples]),
        tf.constant([[*example.options, *[""] * (4 - len(example.options))] for example in examples]))
    features = list(convert_examples_to_features(examples, tokenizer, max_seq_length, max_qa_length, num_choices=4))
    longest = packed["input_ids"].shape[2]
    for name, rows in packed.items():
        expected = np.array([each[name] for each in features])
        assert not expected[:, :, longest:].any(), name
        for example, row, wanted in zip(examples, rows.numpy(), expected[:, :, :longest]):
            np.testing.assert_array_equal(row, wanted, err_msg=f"{example.example_id} {name}")

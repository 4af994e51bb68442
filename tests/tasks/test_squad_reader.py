"""SquadReader answers questions about a text, one at a time."""

from typing import Any, NamedTuple

import pytest
import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.data.squad import SquadExample, convert_examples_to_features
from albert_tf.data.squad.features import FeatureOptions
from albert_tf.modeling.conditional_span import AlbertConditionalSpan
from albert_tf.modeling.span import AlbertSpan
from albert_tf.tasks.squad import ConditionalSpanTask, SpanTask
from albert_tf.tasks.squad_answers import Answer, AnswerOptions, Candidate, answer_question
from albert_tf.tasks.squad_reader import SquadReader, describe
from albert_tf.text.tokenization import FullTokenizer

TEXT = "Ada built the clock in 1,908 days.  Zoë Brånström ate ½ of it… and the frogs sang. " * 30


class Parts(NamedTuple):
    """The arguments of SquadReader."""

    task: Any
    tokenizer: FullTokenizer
    features: FeatureOptions
    options: AnswerOptions


@pytest.fixture(params=["1.1", "2.0"])
def parts(request, golden):
    tokenizer = FullTokenizer(spm_model_file=str(golden / "tiny_spm/tiny.model"))
    keras.utils.set_random_seed(1)
    config = AlbertConfig(vocab_size=tokenizer.vocab_size, embedding_size=8, hidden_size=16, num_hidden_layers=1,
                          num_attention_heads=2, intermediate_size=16, max_position_embeddings=40)
    is_v1 = request.param == "1.1"
    task = SpanTask(AlbertSpan(config)) if is_v1 else ConditionalSpanTask(AlbertConditionalSpan(config))
    return Parts(task, tokenizer, FeatureOptions(40, 12, 10, is_training=False), AnswerOptions(request.param))


@pytest.fixture
def reader(parts):
    return SquadReader(*parts)


def test_the_answers_about_a_long_text_are_those_from_its_features_one_by_one(parts):
    """The text has more windows than a batch of the reader."""
    question, text = "Who built it?", " ".join(f"Ada built clock {i} in {37 * i} days." for i in range(60))
    windows = list(convert_examples_to_features(
        [SquadExample("question", question, text)], parts.tokenizer, max_seq_length=40, doc_stride=12,
        max_query_length=10, is_training=False))
    assert len(windows) > 16
    results = []
    for window in windows:
        inputs = {name: tf.constant([getattr(window, name)], tf.int32)
                  for name in ("input_ids", "input_mask", "segment_ids", "p_mask")}
        predictions = parts.task.predictions(parts.task.model(inputs, training=False))
        results.append({name: values.numpy()[0] for name, values in predictions.items()})
    expected = answer_question("question", text, windows, [results], parts.options)
    answer = SquadReader(*parts).ask(question, text)
    assert len(expected.n_best) == 20
    assert [(one.text, one.first, one.last) for one in answer.n_best] == [
        (one.text, one.first, one.last) for one in expected.n_best]
    assert [one.score for one in answer.n_best] == pytest.approx([one.score for one in expected.n_best], abs=1e-5)
    assert answer.null_score == pytest.approx(expected.null_score, abs=1e-5)


@pytest.mark.parametrize("text", [TEXT, "Ada."])
def test_answers_have_the_offsets_of_their_text(reader, text):
    answer = reader.ask("Who built it?", text)
    for candidate in answer.n_best:
        assert candidate.text == text[candidate.first : candidate.last + 1].strip()


@pytest.mark.parametrize("question, text, missing", [(" ", "text", "question"), ("Who?", "\n", "text")])
def test_an_empty_question_or_text_is_refused(reader, question, text, missing):
    with pytest.raises(ValueError, match=f"the {missing} is empty"):
        reader.ask(question, text)


def test_a_text_without_pieces_has_no_answer(reader):
    (candidate,) = reader.ask("Who built it?", "\u0301\u0300").n_best
    assert candidate.text in ("", "empty") and candidate.first == -1


def test_answers_are_shown_with_probability_and_place():
    answer = Answer("q", [Candidate("Ada", 1.0, 1.0, 0, 2), Candidate("clo\nck", 0.0, 1.0, 14, 19)], null_score=0.0)
    assert describe(answer).splitlines() == [
        " 73.1%        0-2        Ada", " 26.9%       14-19       clo ck", "no answer: 50.0% (score 0.00)"]

"""QuestionAnswerer answers questions about a text, one at a time."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.span import AlbertConditionalSpan, AlbertSpan
from albert_tf.tasks.squad import SquadExample, convert_examples_to_features
from albert_tf.tasks.squad.answers import (
    Answer,
    AnswerOptions,
    Candidate,
    QuestionAnswerer,
    answer_question,
    candidates,
    describe,
    feature_options,
)
from albert_tf.tasks.squad.features import FeatureOptions
from albert_tf.text.tokenization import FullTokenizer

TEXT = "Ada built the clock in 1,908 days.  Zoë Brånström ate ½ of it… and the frogs sang. " * 30


class Parts(NamedTuple):
    """The arguments of QuestionAnswerer."""

    model: Any
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
    model = AlbertSpan(config) if is_v1 else AlbertConditionalSpan(config)
    return Parts(model, tokenizer, FeatureOptions(40, 12, 10, is_training=False), AnswerOptions(request.param))


@pytest.fixture
def answerer(parts):
    return QuestionAnswerer(*parts)


def test_the_answers_about_a_long_text_are_those_from_its_features_one_by_one(parts):
    """The text has more windows than a batch of the answerer."""
    question, text = "Who built it?", " ".join(f"Ada built clock {i} in {37 * i} days." for i in range(60))
    windows = list(convert_examples_to_features(
        [SquadExample("question", question, text)], parts.tokenizer, max_seq_length=40, doc_stride=12,
        max_query_length=10, is_training=False))
    assert len(windows) > 16
    results = []
    for window in windows:
        inputs = {name: tf.constant([getattr(window, name)], tf.int32)
                  for name in ("input_ids", "input_mask", "segment_ids", "p_mask")}
        predictions = candidates(parts.model(inputs, training=False), parts.options)
        results.append({name: values.numpy()[0] for name, values in predictions.items()})
    expected = answer_question("question", text, windows, [results], parts.options)
    answer = QuestionAnswerer(*parts).ask(question, text)
    assert len(expected.n_best) == 20
    assert [(one.text, one.first, one.last) for one in answer.n_best] == [
        (one.text, one.first, one.last) for one in expected.n_best]
    assert [one.score for one in answer.n_best] == pytest.approx([one.score for one in expected.n_best], abs=1e-5)
    assert answer.null_score == pytest.approx(expected.null_score, abs=1e-5)


class FirstOccurrence:
    """A model whose best answer is the first occurrence of some pieces in a row."""

    def __init__(self, pieces):
        self._pieces = pieces

    def __call__(self, batch):
        rows, size = batch["input_ids"].tolist(), len(self._pieces)
        starts = np.array([next(i for i in range(len(row)) if row[i : i + size] == self._pieces) for row in rows])
        return {f"{name}_logits": tf.one_hot(places, len(rows[0])) for name, places in (
            ("start", starts), ("end", starts + size - 1))}


@pytest.mark.parametrize("answer", ["½", "Zoë Brånström", "1,908 days.  Zoë"])
def test_answers_have_the_offsets_of_their_text(sentence_pieces, answer):
    text = TEXT[: len(TEXT) // 30] * 2
    windows = FeatureOptions(300, 100, 10, is_training=False)
    model = FirstOccurrence(list(sentence_pieces.encode(answer)))
    best = QuestionAnswerer(model, sentence_pieces, windows, AnswerOptions("1.1")).ask("?", text).n_best[0]
    place = text.index(answer)
    assert (best.text, best.first, best.last) == (answer, place, place + len(answer) - 1)


@pytest.mark.parametrize("question, text, missing", [(" ", "text", "question"), ("Who?", "\n", "text")])
def test_an_empty_question_or_text_is_refused(answerer, question, text, missing):
    with pytest.raises(ValueError, match=f"the {missing} is empty"):
        answerer.ask(question, text)


def test_a_text_without_pieces_has_no_answer(answerer):
    (candidate,) = answerer.ask("Who built it?", "\u0301\u0300").n_best
    assert candidate.text in ("", "empty") and candidate.first == -1


def test_a_short_text_is_padded_to_the_width_of_the_beam(sentence_pieces):
    config = AlbertConfig(vocab_size=sentence_pieces.vocab_size, embedding_size=8, hidden_size=16, num_hidden_layers=1,
                          num_attention_heads=2, intermediate_size=16, max_position_embeddings=128)
    model = AlbertConditionalSpan(config, start_n_top=70)
    features = FeatureOptions(128, 12, 10, is_training=False)
    answerer = QuestionAnswerer(model, sentence_pieces, features, AnswerOptions("2.0"))
    candidates = answerer.ask("Who?", "Ada.").n_best
    assert candidates and all(candidate.text in "Ada." for candidate in candidates)


def test_answers_are_shown_with_the_offsets_of_exported_models():
    text = "Ada built the clo\nck."
    candidates = [Candidate("Ada", 1.0, 1.0, 0, 2), Candidate("clo\nck", 0.0, 1.0, 14, 19), Candidate("", -9, 0)]
    assert [text[0:3], text[14:20]] == ["Ada", "clo\nck"]
    assert describe(Answer("q", candidates, null_score=0.0)).splitlines() == [
        "share  start  end  answer",
        "73.1%      0    3  Ada",
        "26.9%     14   20  clo ck",
        " 0.0%      -    -",
        "no answer: 50.0% (score 0.00)"]


def test_large_offsets_do_not_move_the_other_columns():
    candidates = [Candidate("a", 1.0, 1.0, 12345678, 123456789), Candidate("b", 1.0, 1.0, 0, 0)]
    assert describe(Answer("q", candidates, None)).splitlines()[1:] == [
        "50.0%  12345678  123456790  a", "50.0%         0          1  b"]


@pytest.mark.parametrize("length, arguments, expected", [
    (384, {}, (128, 64)),
    (384, dict(doc_stride=200, max_query_length=40), (200, 40)),
    (64, dict(doc_stride=128, max_query_length=40), (21, 40)),  # all pieces of a window
    (64, dict(doc_stride=128, max_query_length=64), (29, 32)),  # and half of the row for the question
])
def test_a_model_reads_texts_by_its_arguments_as_far_as_they_fit_in_rows(length, arguments, expected):
    config = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                          intermediate_size=16, max_position_embeddings=384)
    options = feature_options(AlbertSpan(config, max_seq_length=length, **arguments))
    assert (options.doc_stride, options.max_query_length) == expected and options.max_seq_length == length

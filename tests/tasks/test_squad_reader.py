"""SquadReader answers questions about a text, one at a time."""

import pytest

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.data.squad.features import FeatureOptions
from albert_tf.modeling.conditional_span import AlbertConditionalSpan
from albert_tf.modeling.span import AlbertSpan
from albert_tf.tasks.squad import ConditionalSpanTask, SpanTask
from albert_tf.tasks.squad_answers import Answer, AnswerOptions, Candidate
from albert_tf.tasks.squad_reader import SquadReader, describe
from albert_tf.text.tokenization import FullTokenizer

TEXT = "Ada built the clock in 1,908 days.  Zoë Brånström ate ½ of it… and the frogs sang. " * 30


@pytest.fixture(params=["1.1", "2.0"])
def reader(request, golden):
    tokenizer = FullTokenizer(spm_model_file=str(golden / "tiny_spm/tiny.model"))
    keras.utils.set_random_seed(1)
    config = AlbertConfig(vocab_size=tokenizer.vocab_size, embedding_size=8, hidden_size=16, num_hidden_layers=1,
                          num_attention_heads=2, intermediate_size=16, max_position_embeddings=40)
    is_v1 = request.param == "1.1"
    task = SpanTask(AlbertSpan(config)) if is_v1 else ConditionalSpanTask(AlbertConditionalSpan(config))
    return SquadReader(task, tokenizer, FeatureOptions(40, 12, 10, is_training=False), AnswerOptions(request.param))


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

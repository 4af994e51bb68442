"""Scores of models on dev files: models with known outputs have the scores that were counted by hand."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_TEXT

import albert_tf
from albert_tf.export.conversion import save
from albert_tf.tasks.config import Scoring
from albert_tf.tasks.scores import scorer
from albert_tf.weights.choice import choose
from albert_tf.weights.source import Source
from albert_tf.weights.vocabulary import VocabularyFiles


@pytest.fixture
def score_of(sentence_pieces, tmp_path):
    """A function from a model, a file and outputs as a function of inputs to the score of these outputs."""
    def score(model, path, run, **task):
        save(model, str(tmp_path / "model"), "ours", VocabularyFiles.from_tokenizer(sentence_pieces))
        chosen = choose(Source(init_checkpoint=str(tmp_path / "model")))
        return scorer(chosen, model, Scoring(score_data=str(path), **task))(
            lambda batch: run({name: np.asarray(values) for name, values in batch.items()}))

    return score


def lengths(inputs):
    return inputs["input_mask"].sum(axis=-1)


def write(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_the_score_of_a_classifier_is_the_tasks_first_metric(score_of, tmp_path):
    path = write(tmp_path / "dev.tsv", ["sentence\tlabel", "of\t0", "the name of the file\t1", "a\t1", "the\t0"])

    def run(inputs):  # longer texts are labelled 1
        return dict(logits=np.stack([np.full(len(inputs["input_ids"]), 6.0), lengths(inputs)], 1).astype(np.float32))

    model = albert_tf.AlbertClassifier(TINY_TEXT, 2)
    assert score_of(model, path, run, task_name="sst-2") == ("eval_accuracy", 0.75)
    tf.io.gfile.copy(path, "ram://score_data.tsv", overwrite=True)
    assert score_of(model, "ram://score_data.tsv", run, task_name="sst-2") == ("eval_accuracy", 0.75)


def sts_b(path):
    header = "\t".join("index genre filename year old_index source1 source2 sentence1 sentence2 score".split())
    rows = [("of", "of", 5), ("of", "the name of the file", 1), ("a", "the name", 3)]
    return write(path, [header, *("\t".join([str(i), *"abcdef", first, second, str(score)])
                                  for i, (first, second, score) in enumerate(rows))])


def test_the_score_of_a_sentence_encoder_is_spearmans_correlation_of_cosines(score_of, tmp_path):
    def run(inputs):  # the angle between two vectors grows with the difference of their lengths
        assert inputs["input_ids"].ndim == 2
        angles = lengths(inputs) / 20
        return dict(sentence_embedding=np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32))

    model = albert_tf.AlbertSentenceEncoder(TINY_TEXT)
    assert score_of(model, sts_b(tmp_path / "dev.tsv"), run) == ("spearman", pytest.approx(1.0))
    with pytest.raises(ValueError, match="--task_name=sst-2 has no scores of two texts: leave it out"):
        score_of(model, "dev.tsv", run, task_name="sst-2")


def squad(path, questions):
    qas = [dict(id=str(number), question="which?", answers=answers) for number, answers in enumerate(questions)]
    paragraph = dict(context="the name of the file", qas=qas)
    path.write_text(json.dumps(dict(version="1.1", data=[dict(title="x", paragraphs=[paragraph])])))
    return path


def test_the_score_of_a_span_model_is_f1_in_per_cent(score_of, sentence_pieces, tmp_path):
    def run(inputs):  # the first and the second piece of the context
        first = inputs["segment_ids"].argmax(axis=1)
        scores = np.zeros([2, *inputs["input_ids"].shape], np.float32)
        rows = np.arange(len(first))
        scores[0, rows, first] = scores[1, rows, first + 1] = 9
        return dict(start_logits=scores[0], end_logits=scores[1])

    # "the name" is right, and shares one of two words with "name of"; "the" is an article, which does not count.
    assert sentence_pieces.tokenize("the name of the file")[:2] == ["▁the", "▁name"]
    model = albert_tf.AlbertSpan(TINY_TEXT, max_query_length=16)
    path = squad(tmp_path / "dev.json", [[dict(text=text, answer_start=start)]
                                         for text, start in (("the name", 0), ("name of", 4))])
    assert score_of(model, path, run) == ("f1", pytest.approx(100 * (1 + 2 / 3) / 2))
    with pytest.raises(ValueError, match="dev.json has no answers to score with"):
        score_of(model, squad(tmp_path / "dev.json", [[]]), run)


def test_the_score_of_a_tagger_is_f1_of_entities(score_of, tmp_path):
    path = write(tmp_path / "dev.conll", ["the B-X", "name O", "", "of O", "the B-X"])

    def run(inputs):  # each token is an entity
        return dict(logits=np.tile(np.array([0, 1], np.float32), [*inputs["input_ids"].shape, 1]))

    model = albert_tf.AlbertTokenClassifier(TINY_TEXT, 2, label_names=("O", "B-X"))
    assert score_of(model, path, run) == ("f1", pytest.approx(2 * 2 / (2 + 4)))
    with pytest.raises(ValueError, match="the tags are unknown: no label names are stored with the weights"):
        score_of(albert_tf.AlbertTokenClassifier(TINY_TEXT, 2), path, run)


def test_the_score_of_multiple_choice_is_the_accuracy_over_the_options_of_each_question(score_of, tmp_path):
    rows = [dict(question="which", options=["a", "the name of the file"], answer="B"),
            dict(question="which", options=["the name of the file", "of", "the"], answer="B")]

    def run(inputs):  # the longest option
        return dict(logits=np.where(lengths(inputs) > 3, lengths(inputs), -1e9).astype(np.float32))

    model = albert_tf.AlbertMultipleChoice(TINY_TEXT, num_choices=3)
    assert score_of(model, write(tmp_path / "mine.jsonl", map(json.dumps, rows)), run) == ("eval_accuracy", 0.5)
    two = albert_tf.AlbertMultipleChoice(TINY_TEXT, num_choices=2)
    with pytest.raises(ValueError, match="the model has 2 labels, and the task of --score_data=.*mine.jsonl has 3"):
        score_of(two, tmp_path / "mine.jsonl", run)


def test_a_head_without_a_task_has_no_score(score_of):
    with pytest.raises(ValueError, match="a model with the head pretrainer has no score: --score_data is for classif"):
        score_of(albert_tf.AlbertPretrainer(TINY_TEXT), "dev.tsv", None)


@pytest.mark.parametrize("name, value", [("task_name", "sst-2"), ("task_config", "own.json")])
@pytest.mark.parametrize("model_class, settings", [
    (albert_tf.AlbertSpan, {}), (albert_tf.AlbertConditionalSpan, {}), (albert_tf.AlbertMultipleChoice, {}),
    (albert_tf.AlbertTokenClassifier, dict(num_labels=2, label_names=("O", "B-X")))])
def test_flags_of_tables_are_refused_for_heads_without_tables(score_of, model_class, settings, name, value):
    model = model_class(TINY_TEXT, **settings)
    with pytest.raises(ValueError, match=f"^--{name}={value} has no effect on a model with the head "
                                         f"{model.settings.head}: leave it out$"):
        score_of(model, "dev.jsonl", None, **{name: value})

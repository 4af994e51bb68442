"""Scores of models on dev files: models with known outputs have the scores that were counted by hand."""

import json

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.tasks.classification.data import find_task
from albert_tf.tasks.scores import Score, scorer
from albert_tf.weights.heads import settings_class

CONFIG = AlbertConfig(vocab_size=2000, max_position_embeddings=48)


class Known:
    """A model whose outputs are computed from its inputs by a function of the test."""

    config, row_length = CONFIG, 48

    def __init__(self, head, run, num_labels=1, **settings):
        self.run, self.num_labels, self.settings = run, num_labels, settings_class(head)(**settings)

    def __call__(self, inputs, training=False):
        return self.run({name: np.asarray(values) for name, values in inputs.items()})


def lengths(inputs):
    return inputs["input_mask"].sum(axis=-1)


def write(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_the_score_of_a_classifier_is_the_tasks_first_metric(sentence_pieces, tmp_path):
    path = write(tmp_path / "dev.tsv", ["sentence\tlabel", "of\t0", "the name of the file\t1", "a\t1", "the\t0"])

    def run(inputs):  # longer texts are labelled 1
        return dict(logits=np.stack([np.full(len(inputs["input_ids"]), 6.0), lengths(inputs)], 1).astype(np.float32))

    score = scorer("classifier", path, sentence_pieces, find_task("sst-2"))
    assert score(Known("classifier", run, num_labels=2)) == Score("eval_accuracy", 0.75)
    with pytest.raises(ValueError, match="the model has 3 labels and sst-2 has 2: set the task that the model was"):
        score(Known("classifier", run, num_labels=3))


def sts_b(path):
    header = "\t".join("index genre filename year old_index source1 source2 sentence1 sentence2 score".split())
    rows = [("of", "of", 5), ("of", "the name of the file", 1), ("a", "the name", 3)]
    return write(path, [header, *("\t".join([str(i), *"abcdef", first, second, str(score)])
                                  for i, (first, second, score) in enumerate(rows))])


def test_the_score_of_a_sentence_encoder_is_spearmans_correlation_of_cosines(sentence_pieces, tmp_path):
    def run(inputs):  # the angle between two vectors grows with the difference of their lengths
        angles = lengths(inputs) / 20
        return dict(sentence_embedding=np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32))

    score = scorer("sentence_encoder", sts_b(tmp_path / "dev.tsv"), sentence_pieces, find_task("sts-b"))
    assert score(Known("sentence_encoder", run)) == Score("spearman", pytest.approx(1.0))
    path = write(tmp_path / "sst.tsv", ["sentence\tlabel", "of\t0"])
    with pytest.raises(ValueError, match="the task sst-2 must be a regression of two texts, as sts-b is"):
        scorer("sentence_encoder", path, sentence_pieces, find_task("sst-2"))


def test_the_score_of_a_span_model_is_f1_in_per_cent(sentence_pieces, tmp_path):
    questions = [dict(id=str(number), question="which?", answers=[dict(text=text, answer_start=start)])
                 for number, (text, start) in enumerate([("the name", 0), ("name of", 4)])]
    paragraph = dict(context="the name of the file", qas=questions)
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(dict(version="1.1", data=[dict(title="x", paragraphs=[paragraph])])))

    def run(inputs):  # the first and the second piece of the context
        first = inputs["segment_ids"].argmax(axis=1)
        scores = np.zeros([2, *inputs["input_ids"].shape], np.float32)
        rows = np.arange(len(first))
        scores[0, rows, first] = scores[1, rows, first + 1] = 9
        return dict(start_logits=scores[0], end_logits=scores[1])

    score = scorer("span", str(path), sentence_pieces)(Known("span", run))
    # "the name" is right, and shares one of two words with "name of"; "the" is an article, which does not count.
    pieces = sentence_pieces.tokenize("the name of the file")
    assert pieces[:2] == ["▁the", "▁name"]
    assert score == Score("f1", pytest.approx(100 * (1 + 2 / 3) / 2))
    paragraph["qas"] = [dict(id="1", question="which?", answers=[])]
    path.write_text(json.dumps(dict(data=[dict(title="x", paragraphs=[paragraph])])))
    with pytest.raises(ValueError, match="dev.json has no answers, so that predictions cannot be scored"):
        scorer("span", str(path), sentence_pieces)


def test_the_score_of_a_tagger_is_f1_of_entities(sentence_pieces, tmp_path):
    path = write(tmp_path / "dev.conll", ["the B-X", "name O", "", "of O", "the B-X"])

    def run(inputs):  # each token is an entity
        return dict(logits=np.tile(np.array([0, 1], np.float32), [*inputs["input_ids"].shape, 1]))

    model = Known("token_classifier", run, num_labels=2, label_names=("O", "B-X"))
    assert scorer("token_classifier", path, sentence_pieces)(model) == Score("f1", pytest.approx(2 * 2 / (2 + 4)))
    model.settings = model.settings.replaced(label_names=None)
    with pytest.raises(ValueError, match="the model has no names of its tags, so that they cannot be compared"):
        scorer("token_classifier", path, sentence_pieces)(model)
    with pytest.raises(ValueError, match="test.conll has no tags: each line must have a word and its tag"):
        scorer("token_classifier", write(tmp_path / "test.conll", ["the", "name"]), sentence_pieces)


def test_the_score_of_multiple_choice_is_the_accuracy_over_the_options_of_each_question(sentence_pieces, tmp_path):
    rows = [dict(question="which", options=["a", "the name of the file"], answer="B"),
            dict(question="which", options=["the name of the file", "of", "the"], answer="B")]
    path = write(tmp_path / "dev.jsonl", map(json.dumps, rows))

    def run(inputs):  # the longest option
        return dict(logits=np.where(lengths(inputs) > 0, lengths(inputs), -1e9).astype(np.float32))

    score = scorer("multiple_choice", path, sentence_pieces)
    assert score(Known("multiple_choice", run, num_choices=4)) == Score("eval_accuracy", 0.5)
    with pytest.raises(ValueError, match="has a question with 3 options, and the model chooses one of 2"):
        score(Known("multiple_choice", run, num_choices=2))
    unlabelled = write(tmp_path / "test.jsonl", [json.dumps({key: rows[0][key] for key in ("question", "options")})])
    with pytest.raises(ValueError, match="test.jsonl: question 1 has no answer"):
        scorer("multiple_choice", unlabelled, sentence_pieces)


@pytest.mark.parametrize("head", ["encoder", "pretrainer"])
def test_a_head_without_a_task_has_no_score(sentence_pieces, head):
    with pytest.raises(ValueError, match=f"a model with the head {head} has no score: --score_data is for classifier"):
        scorer(head, "dev.tsv", sentence_pieces)

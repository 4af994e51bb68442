"""Ranking: trec_eval's measures, the loss, scores of raw texts, and the task config."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY

from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.tasks.classification.answers import RelevanceScorer
from albert_tf.tasks.classification.data import read_examples
from albert_tf.tasks.classification.metrics import evaluate_ranking
from albert_tf.tasks.classification.table_format import read_table_format
from albert_tf.tasks.classification.task import RankingObjective


def test_measures_are_those_of_trec_eval(golden):
    numbers = json.loads((golden / "ranking/numbers.json").read_text())
    queries, labels, scores = zip(*numbers["rows"])
    found = evaluate_ranking(queries, np.array(labels), np.array(scores)[:, None])
    assert {name: found[name] for name in ("mrr@10", "ndcg@10")} == pytest.approx(
        {name: numbers[name] for name in ("mrr@10", "ndcg@10")}, abs=1e-9)
    of_label = np.where(labels, scores, 1 - np.array(scores))
    losses = -np.log(np.maximum(of_label, np.finfo(np.float32).tiny))
    assert found["eval_loss"] == pytest.approx(losses.mean(), rel=1e-6)


def test_equal_scores_gain_nothing_from_the_order_of_the_rows():
    found = evaluate_ranking(["a"] * 4, np.array([1, 0, 0, 0]), np.full([4, 1], 0.5))
    assert found["mrr@10"] == 0.25 and found["ndcg@10"] == pytest.approx(1 / np.log2(5))


def test_a_dev_set_without_relevant_passages_is_refused():
    with pytest.raises(ValueError, match="no query has a passage with the label 1"):
        evaluate_ranking(["a"], np.array([0]), np.array([[0.5]]))
    with pytest.raises(ValueError, match="NaN or infinite"):
        evaluate_ranking(["a"], np.array([1]), np.array([[np.nan]]))


def test_the_loss_is_the_binary_cross_entropy_of_pytorch(golden):
    numbers = json.loads((golden / "sentence_transformers/numbers.json").read_text())["losses"]
    logits = tf.constant(np.array(numbers["vectors"], np.float32)[:, 0, :1])
    labels = tf.cast(tf.constant(numbers["labels"]) > 0.5, tf.float32)
    task = RankingObjective(types.SimpleNamespace())
    batch = dict(input_ids=np.zeros([5, 3]), label_ids=labels)
    found = task.loss(dict(logits=logits), batch, task.loss_denominators(batch))[0]
    assert float(found) == pytest.approx(numbers["relevance"], rel=1e-6)
    np.testing.assert_allclose(task.predictions(dict(logits=logits))["probabilities"], 1 / (1 + np.exp(-logits)),
                               rtol=1e-5)


def test_a_model_with_several_labels_or_of_single_texts_does_not_rank(sentence_pieces):
    with pytest.raises(ValueError, match="has one logit for a query and a passage. This one has 3 labels"):
        RelevanceScorer(AlbertClassifier(TINY, 3), sentence_pieces)
    with pytest.raises(ValueError, match="reads a query and a passage. This one was trained on single texts"):
        RelevanceScorer(AlbertClassifier(TINY, 1, single_texts=True), sentence_pieces)
    with pytest.raises(ValueError, match="activation_fn must be one of sigmoid, identity. Received: 'tanh'"):
        AlbertClassifier(TINY, 1, activation_fn="tanh")


CONFIG = dict(name="passages", files=dict(train="train.tsv"), ranking=True,
              columns=dict(text_a="query", text_b="passage", label="relevant"))


@pytest.fixture
def write(tmp_path):
    def write(**changes):
        path = tmp_path / "task.json"
        path.write_text(json.dumps({**CONFIG, **changes}))
        return str(path)

    return write


def test_a_config_describes_a_ranking(write, tmp_path):
    task = read_table_format(write())
    assert task.is_ranking and task.num_labels == 1 and task.metrics == ("mrr@10",)
    (tmp_path / "train.tsv").write_text("query\tpassage\trelevant\na\tb\t1\na\tc\t0\n")
    assert [example.label for example in read_examples(task, str(tmp_path), "train")] == [1, 0]
    (tmp_path / "train.tsv").write_text("query\tpassage\trelevant\na\tb\t2\n")
    with pytest.raises(ValueError, match="train.tsv line 2: '2' is neither 1, for a relevant passage, nor 0"):
        read_examples(task, str(tmp_path), "train")


@pytest.mark.parametrize("changes, message", [
    (dict(labels=["a", "b"]), 'a ranking has no "labels": its labels are 0 and 1'),
    (dict(regression=False), 'a ranking has no "regression"'),
    (dict(multi_label=True), 'a ranking has no "multi_label"'),
    (dict(class_weights="balanced"), "class_weights are for labels"),
    (dict(metrics=["f1"]), "metrics of a ranking must be some of mrr@10, ndcg@10. Received: .*f1"),
    (dict(ranking="yes"), "ranking must be true or false. Received: 'yes'"),
    (dict(columns=dict(text_a=0, label=1)), "missing field in columns: 'text_b'")])
def test_a_wrong_config_is_named(write, changes, message):
    with pytest.raises(ValueError, match=message):
        read_table_format(write(**changes))

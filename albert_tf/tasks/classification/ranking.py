"""Ranking: one score for a query and a passage. Loss, MRR@10 and nDCG@10, and the scores of raw texts.

A row's first text is the query, the second one the passage; the label is 1 if the passage is relevant for the query,
else 0. The rows with the same query are its ranking.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.configured_model import encoder_input_specs
from albert_tf.tasks.classification.metrics import mean_binary_cross_entropy
from albert_tf.tasks.classification.task import ClassificationTask, LabelLoss
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training.evaluation import check_finite_outputs
from albert_tf.training.task import Batch, Tensors

_CUTOFF = 10


class RankingTask(ClassificationTask):
    """Cross entropy of the sigmoid of one logit. Batches have label_ids, float32 [batch], 0 or 1.

    It is the loss of sentence-transformers' BinaryCrossEntropyLoss.
    """

    def __init__(self, model: AlbertClassifier):
        super().__init__(model, label_loss=LabelLoss(multi_label=True))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the mean cross entropy."""
        return super().loss(outputs, dict(batch, label_ids=batch["label_ids"][:, None]), denominators)

    def predictions(self, outputs: Tensors) -> Tensors:
        """probabilities, float32 [batch, 1]: the sigmoid of the logit."""
        return dict(probabilities=tf.sigmoid(outputs["logits"]))


def evaluate_ranking(queries: Sequence[str], label_ids: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """mrr@10 and ndcg@10, means over the queries that have a relevant passage, and the mean cross entropy.

    mrr@10 is that of MS MARCO's evaluation: 1 / rank of the first relevant passage, 0 if it is not among the first ten.
    ndcg@10 is that of trec_eval for relevance 0 or 1: the sum of 1 / log2(rank + 1) of the relevant passages among the
    first ten, divided by the largest possible sum. Of equal scores, irrelevant passages come first, so that nothing is
    gained from a model that cannot tell passages apart.

    `label_ids` are [rows], `probabilities` [rows, 1].
    """
    check_finite_outputs(probabilities)
    scores, is_relevant = probabilities[:, 0], np.asarray(label_ids) > 0
    rows_of: dict[str, list[int]] = {}
    for row, query in enumerate(queries):
        rows_of.setdefault(query, []).append(row)
    rankings = [is_relevant[rows][np.lexsort((is_relevant[rows], -scores[rows]))] for rows in
                (np.array(rows) for rows in rows_of.values()) if is_relevant[rows].any()]
    if not rankings:
        raise ValueError("no query has a passage with the label 1: there is nothing to rank")
    loss = mean_binary_cross_entropy(scores, is_relevant)
    return {"mrr@10": float(np.mean([reciprocal_rank(each) for each in rankings])),
            "ndcg@10": float(np.mean([normalized_gain(each) for each in rankings])), "eval_loss": loss, "loss": loss}


def reciprocal_rank(is_relevant: np.ndarray) -> float:
    """1 / rank of the first relevant passage, 0 if it is not among the first ten; bool [passages], the best first."""
    found = np.flatnonzero(is_relevant[:_CUTOFF])
    return float(1 / (found[0] + 1)) if found.size else 0.0


def normalized_gain(is_relevant: np.ndarray) -> float:
    """nDCG@10 of a ranking with a relevant passage; bool [passages], the best first."""
    discounts = 1 / np.log2(np.arange(2, _CUTOFF + 2))
    gain = discounts[: len(is_relevant)] @ is_relevant[:_CUTOFF]
    return float(gain / discounts[: int(is_relevant.sum())].sum())


class RelevanceScorer:
    """Scores raw pairs of a query and a passage. The model is traced once.

    The score is the model's activation_fn of the logit; without one, the sigmoid.
    """

    def __init__(self, model: AlbertClassifier, tokenizer: FullTokenizer, batch_size: int = 32):
        if model.num_labels != 1:
            raise ValueError(f"a model that ranks has one logit for a query and a passage. This one has "
                             f"{model.num_labels} labels")
        if model.single_texts:
            raise ValueError("a model that ranks reads a query and a passage. This one was trained on single texts")
        self._tokenizer, self._batch_size, self._length = tokenizer, batch_size, model.row_length
        self._scores = tf.function(lambda inputs: model.score_of(model(inputs)["logits"][:, 0]),
                                   [encoder_input_specs()], autograph=False)

    def __call__(self, queries: Sequence[str], passages: Sequence[str]) -> np.ndarray:
        """The score of each pair, float32 [pairs]. Longer pairs are truncated, the longer text first."""
        scores = np.zeros(len(queries), np.float32)
        order = np.argsort([len(query) + len(passage) for query, passage in zip(queries, passages)], kind="stable")
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size]
            inputs = self._tokenizer([queries[row] for row in rows], [passages[row] for row in rows],
                                     max_seq_length=self._length)
            scores[rows] = self._scores({name: tf.constant(values) for name, values in inputs.items()}).numpy()
        return scores

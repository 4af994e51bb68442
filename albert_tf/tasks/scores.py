"""Scores a model and its exports on a dev file, by the evaluation of the task, to measure what an export loses."""

from typing import Any, Callable, Iterable, Mapping

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.data.feature_table import FeatureCache
from albert_tf.tasks.classification.task import TextClassification
from albert_tf.tasks.config import Scoring
from albert_tf.tasks.multiple_choice.task import MultipleChoice
from albert_tf.tasks.sentence_vectors.task import SentenceEmbeddings
from albert_tf.tasks.squad.config import SquadConfig
from albert_tf.tasks.squad.task import QuestionAnswering
from albert_tf.tasks.tagging.task import Tagging
from albert_tf.tasks.task import Setup, Task, check_num_labels
from albert_tf.training.objective import Batch, Tensors
from albert_tf.training.prediction import in_order
from albert_tf.utils.outputs import folder_of_this_process
from albert_tf.weights.choice import ChosenModel

Run = Callable[[Batch], Mapping[str, Any]]  # a model or an export, from inputs to outputs by name
Scorer = Callable[[Run], tuple[str, float]]  # returns the task's best metric and its value; higher is better
_TASKS: tuple[type[Task], ...] = (TextClassification, SentenceEmbeddings, Tagging, MultipleChoice, QuestionAnswering)
_TASK_OF_HEAD = {head: task for task in _TASKS for head in task.HEADS}


def scorer(
    chosen: ChosenModel, model: keras.Model, options: Scoring, max_seq_length: int | None = None
) -> Scorer:
    """Reads options.score_data for a model. Rows have max_seq_length tokens, or as many as text functions read."""
    head = model.settings.head
    if options.score_data is None:
        raise ValueError("--score_data is missing")
    if head not in _TASK_OF_HEAD:
        raise ValueError(f"a model with the head {head} has no score: --score_data is for {', '.join(_TASK_OF_HEAD)}")
    for flag, value in (("task_name", options.task_name), ("task_config", options.task_config)):
        if value and head not in (*TextClassification.HEADS, *SentenceEmbeddings.HEADS):
            raise ValueError(f"--{flag}={value} has no effect on a model with the head {head}: leave it out")
    length = max_seq_length or model.row_length
    if head in QuestionAnswering.HEADS and not (max_seq_length or model.settings.max_seq_length):
        length = min(length, SquadConfig.LONGEST)
    tokenizer = chosen.vocabulary.tokenizer(chosen.config)
    task = _TASK_OF_HEAD[head].of_dev_file(model, options, Setup(
        chosen, tf.distribute.get_strategy(), tokenizer, length, FeatureCache(tokenizer, folder_of_this_process())))
    tables, objective = task.dev_tables(), task.objective(chosen.config)
    if isinstance(task, TextClassification):  # dev_tables() has named the lines with unknown labels
        check_num_labels(model.num_labels, task.format.num_labels, options)
    objective.model = model  # whose settings decide how outputs become predictions

    def score(run: Run) -> tuple[str, float]:
        def predicted(batch: Batch) -> dict[str, np.ndarray]:
            outputs = _on_pairs(run, model, batch) if head in SentenceEmbeddings.HEADS else run(batch)
            tensors = {name: tf.convert_to_tensor(value) for name, value in outputs.items() if value is not None}
            predictions = dict(objective.predictions(tensors, batch), example=batch["example"])
            return {name: value.numpy() for name, value in predictions.items()}

        dev_sets = [task.batches_of(table, 8) for table in tables]
        predictions = [[in_order(map(predicted, data.batches(tf.distribute.InputContext())), data.size)]
                       for data in dev_sets]
        return task.best_metric, task.score(predictions)[task.best_metric]

    return score


def _on_pairs(run: Run, model: keras.Model, batch: Batch) -> Tensors:
    """The vectors of pairs of texts, [batch, 2, seq], by an export, whose inputs are [rows, seq]."""
    rows = {name: tf.reshape(batch[name], [-1, batch[name].shape[2]]) for name in model.input_specs()}
    vectors = tf.convert_to_tensor(run(rows)["sentence_embedding"])
    return {"sentence_embedding": tf.reshape(vectors, [len(batch["example"]), 2, -1])}


def check_scores(
    score: Scorer, model: keras.Model, exports: Iterable[tuple[str, Callable]], max_score_drop: float | None
) -> None:
    """Prints the scores of a model and of its exports by precision. A loss that is too large is an error."""
    name, before = score(model)
    print(f"{name} of the model: {before:.4f}", flush=True)
    for precision, opened in exports:
        after = score(opened())[1]
        drop = (before - after) / abs(before) if before else -after
        print(f"{name} in {precision}: {after:.4f} ({round(-drop, 4) + 0.0:+.2%})", flush=True)
        if max_score_drop is not None and drop > max_score_drop + 1e-6:  # the rounding of float32
            raise ValueError(f"in {precision}, {name} is {after:.4f}, {drop:.2%} below the model's {before:.4f}, and "
                             f"--max_score_drop={max_score_drop:g} allows {max_score_drop:.2%}: nothing is written. "
                             "Export without this precision, or allow more")

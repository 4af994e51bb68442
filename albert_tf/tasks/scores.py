"""Scores a model and its exports on a dev file, by the evaluation of the task, to measure what an export loses."""

import dataclasses
import importlib
import os
import shutil
from typing import Any, Callable, Iterable, Mapping

import tensorflow as tf

from albert_tf import keras
from albert_tf.data.batching import evaluation_rows, table_batches
from albert_tf.data.feature_table import FeatureCache, FeatureTable
from albert_tf.tasks.config import Scoring
from albert_tf.tasks.squad.answers import VERSION_OF_HEAD
from albert_tf.tasks.task import Setup
from albert_tf.training.evaluation import Predictions, in_order
from albert_tf.training.objective import Batch, Tensors
from albert_tf.utils.files import absolute
from albert_tf.utils.outputs import folder_of_this_process, local_copy
from albert_tf.weights.resolved_model import ResolvedModel

# From the function that computes a model's outputs to the task's best metric and its value; higher is better.
Scorer = Callable[[Callable[[Batch], Mapping[str, Any]]], tuple[str, float]]
# By head: the package of the task, and the names of the classes of the task and of its config.
_TASKS = dict(classifier="classification TextClassification ClassifierConfig",
              sentence_encoder="sentence_vectors SentenceEmbeddings SentenceVectorsConfig",
              token_classifier="tagging Tagging TaggingConfig",
              multiple_choice="multiple_choice MultipleChoice MultipleChoiceConfig",
              **dict.fromkeys(VERSION_OF_HEAD, "squad QuestionAnswering SquadConfig"))


def scorer(
    resolved: ResolvedModel, model: keras.Model, options: Scoring, max_seq_length: int | None = None
) -> Scorer:
    """Reads options.score_data for a model. Rows have max_seq_length tokens, or as many as text functions read."""
    head, path, folder = model.settings.head, options.score_data, folder_of_this_process()
    if path is None:
        raise ValueError("--score_data is missing")
    if head not in _TASKS:
        raise ValueError(f"a model with the head {head} has no score: --score_data is for {', '.join(_TASKS)}")
    package, *classes = (f"albert_tf.tasks.{_TASKS[head]}").split()
    new_task, config = (getattr(importlib.import_module(f"{package}.{module}"), name)
                        for module, name in zip(("task", "config"), classes))
    flags: dict[str, Any] = dict(data_dir=folder, task_config=options.task_config)
    if head == "classifier":
        flags["task_name"] = options.task_name
    elif head == "sentence_encoder" and options.task_name not in (None, "sts-b"):
        raise ValueError(f"--task_name={options.task_name} has no scores of two texts: leave it out, or set "
                         "--task_config")
    elif head == "token_classifier":
        flags = dict(eval_file=path)
    elif head == "multiple_choice":
        flags = dict(data_dir=folder, data_format="parquet" if path.endswith(".parquet") else "jsonl", do_train=False)
        shutil.copy(local_copy(path), os.path.join(folder, f"dev.{flags['data_format']}"))
    elif head in VERSION_OF_HEAD:
        flags = dict(predict_file=path, squad_version=VERSION_OF_HEAD[head])
    default = model.settings.max_seq_length or (384 if head in VERSION_OF_HEAD else model.row_length)
    tokenizer = resolved.vocabulary.tokenizer(resolved.config)
    task = new_task(config(output_dir=folder, do_eval=True, **flags), Setup(
        resolved, tf.distribute.get_strategy(), tokenizer,
        max_seq_length or min(default, model.config.max_position_embeddings), FeatureCache(tokenizer, folder)))
    for name in {"format", "scored"} & vars(task).keys():  # the table of a classifier or a sentence encoder
        table = getattr(task, name)
        dev = dataclasses.replace(table.source("dev"), path=absolute(path))
        setattr(task, name, dataclasses.replace(table, sources={"dev": dev}, companions=()))
    evaluate, objective = task.evaluation(), task.objective(resolved.config)
    labels, wanted = (getattr(each, "num_labels", None) for each in (model, objective.model))
    if head == "multiple_choice":
        labels = model.settings.num_choices
        wanted = max(labels, *(len(example.options) for example in task.examples("dev")))
    if labels != wanted:
        raise ValueError(f"the model has {labels} labels, and the task of --score_data={path} has {wanted}")
    objective.model = model

    def score(scored: Callable[[Batch], Mapping[str, Any]]) -> tuple[str, float]:
        def outputs(batch: Batch) -> Tensors:
            if head != "sentence_encoder":
                return {name: tf.convert_to_tensor(value) for name, value in scored(batch).items() if value is not None}
            # An export has no input of two texts, [batch, 2, seq].
            rows = {name: tf.reshape(batch[name], [-1, batch[name].shape[2]]) for name in model.input_specs()}
            vectors = tf.convert_to_tensor(scored(rows)["sentence_embedding"])
            return {"sentence_embedding": tf.reshape(vectors, [len(batch["example"]), 2, -1])}

        def predict(table: FeatureTable) -> Predictions:
            batches = table_batches(table, evaluation_rows(table, 8), task.buckets, tf.distribute.InputContext())
            predicted = (dict(objective.predictions(outputs(batch)), example=batch["example"]) for batch in batches)
            return [in_order(({name: each[name].numpy() for name in each} for each in predicted), len(table))]

        return task.best_metric, evaluate(predict)[task.best_metric]

    return score


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

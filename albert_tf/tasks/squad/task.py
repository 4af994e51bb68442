"""The fine-tuning of question answering: files, tables, losses of both heads, scores, answers, export."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Iterator, Self, Sequence

import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import FeatureTable
from albert_tf.modeling.settings import ConditionalSpanSettings
from albert_tf.modeling.span import MASKED_LOGIT, AlbertConditionalSpan, AlbertSpan
from albert_tf.tasks.config import Scoring
from albert_tf.tasks.squad.answers import (
    VERSION_OF_HEAD,
    AnswerOptions,
    QuestionAnswerer,
    answers,
    candidates,
    describe,
)
from albert_tf.tasks.squad.config import SquadConfig
from albert_tf.tasks.squad.export import export_question_answering
from albert_tf.tasks.squad.features import (
    FeatureOptions,
    QuestionWindows,
    default_doc_stride,
    prediction_table,
    training_table,
)
from albert_tf.tasks.squad.metrics import (
    BEST_CHARACTER_METRIC,
    BEST_METRIC,
    THRESHOLD,
    Results,
    character_scores,
    has_spaces,
    write_n_best,
    write_predictions,
)
from albert_tf.tasks.squad.reading import SquadFile, read_squad_file
from albert_tf.tasks.task import Checkpoint, Setup, TableToPredict, Task, TrainedModels
from albert_tf.text.lines import read_lines, read_standard_input
from albert_tf.training.distillation import binary_divergence, divergence
from albert_tf.training.evaluation import format_results, write_results
from albert_tf.training.loop import store_results
from albert_tf.training.objective import Batch, Objective, Tensors
from albert_tf.training.prediction import Predictions
from albert_tf.training.teacher import Teacher
from albert_tf.weights.choice import ChosenModel

MAX_QUERY_LENGTH = 64  # the release's


def read_files(options: SquadConfig) -> dict[str, SquadFile]:
    """The files to use, by the names of their flags."""
    wanted = dict(train_file=options.do_train, predict_file=options.do_eval or options.do_predict)
    paths = {name: getattr(options, name) for name, is_wanted in wanted.items() if is_wanted}
    if options.ask and not any(map(str.strip, read_lines(options.path_of("context_file")))):
        raise ValueError(f"{options.context_file} is empty: there is nothing to ask about")
    files = {name: read_squad_file(path) for name, path in paths.items()}
    if options.do_eval and not files["predict_file"].summary.has_answers:
        raise ValueError(f"{options.predict_file} has no answers to score with: --do_predict writes predictions")
    return files


def feature_options(options: SquadConfig, model: ChosenModel, max_seq_length: int) -> FeatureOptions:
    """How features are made: as the options say, or else as in the run in output_dir."""
    max_query_length = model.effective_value("max_query_length", options.max_query_length) or MAX_QUERY_LENGTH
    doc_stride = model.effective_value("doc_stride", options.doc_stride) or default_doc_stride(
        max_seq_length, max_query_length)
    return FeatureOptions(max_seq_length, doc_stride, max_query_length, release_compatible=options.release_compatible)


def squad_version(requested: str | None, model: ChosenModel, files: dict[str, SquadFile]) -> str:
    """The value of --squad_version, or the version of the files, or without files the version of the weights' head."""
    said = sorted({file.summary.version for file in files.values()})
    if not requested and len(said) > 1:
        raise ValueError(f"the files belong to SQuAD {' and '.join(said)}: set --squad_version")
    said = said or [VERSION_OF_HEAD[head] for head in model.heads if head in VERSION_OF_HEAD]
    version = requested or (said[0] if said else None)
    if not version:
        raise ValueError("--squad_version is missing, and neither a file nor a fine-tuned checkpoint tells it")
    model.check_head([head for head, head_version in VERSION_OF_HEAD.items() if head_version == version])
    logging.info("SQuAD %s", version)
    return version


def beam_width(options: SquadConfig, max_seq_length: int, version: str) -> int:
    """The smallest number of tokens of a row. Raises ValueError if --max_seq_length is smaller."""
    width = max(options.start_n_top, options.end_n_top) if version == "2.0" else 1
    if width > max_seq_length:
        raise ValueError(f"--start_n_top and --end_n_top must not be above --max_seq_length={max_seq_length}. "
                         f"Received: {options.start_n_top}, {options.end_n_top}")
    return width


class SpanObjective(Objective):
    """SQuAD 1.1. Batches have start_positions and end_positions, int32 [batch], in training.

    There are n_best_size candidates for starts, and for ends, in each feature.
    """

    TEACHER_OUTPUTS = dict(start_logits=MASKED_LOGIT, end_logits=MASKED_LOGIT)

    def __init__(self, model: AlbertSpan, n_best_size: int = AnswerOptions.n_best_size):
        super().__init__(model)
        self._options = AnswerOptions("1.1", n_best_size)

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the loss: the mean of the cross entropies of start and end."""
        start, end = (tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(batch[positions], outputs[logits]))
                      / denominators["examples"]
                      for positions, logits in (("start_positions", "start_logits"), ("end_positions", "end_logits")))
        return (start + end) / 2.0, dict(start_loss=start, end_loss=end)

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """The micro-batch's share of the mean of the divergences of start and end from the teacher's, over tokens."""
        is_token = tf.cast(batch["input_mask"], tf.bool)  # padding is MASKED_LOGIT in the teacher's outputs
        return sum(tf.reduce_sum(divergence(teacher[name], tf.where(is_token, outputs[name], MASKED_LOGIT),
                                            temperature))
                   for name in self.TEACHER_OUTPUTS) / (2.0 * denominators["examples"])

    def predictions(self, outputs: Tensors, batch: Batch) -> Tensors:
        """The candidates for answers: see `candidates`."""
        return candidates(outputs, self._options)


class ConditionalSpanObjective(Objective):
    """SQuAD 2.0. Batches have p_mask, int32 [batch, seq].

    In training they have start_positions, end_positions and is_impossible, int32 [batch].
    """

    model: AlbertConditionalSpan
    TEACHER_OUTPUTS = dict(start_log_probs=MASKED_LOGIT, end_log_probs=MASKED_LOGIT, cls_logits=None)

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The mean of the cross entropies of start and end, plus half the sigmoid cross entropy of answerability."""
        start, end = (-tf.reduce_sum(tf.gather(outputs[log_probs], batch[positions], batch_dims=1))
                      / denominators["examples"]
                      for positions, log_probs in (("start_positions", "start_log_probs"),
                                                   ("end_positions", "end_log_probs")))
        is_impossible = tf.cast(batch["is_impossible"], tf.float32)
        answerability = tf.nn.sigmoid_cross_entropy_with_logits(is_impossible, outputs["cls_logits"])  # [batch]
        regression = tf.reduce_sum(answerability) / denominators["examples"]
        parts = dict(start_loss=start, end_loss=end, regression_loss=regression)
        return (start + end) / 2.0 + 0.5 * regression, parts

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """The micro-batch's share of the divergences from the teacher, with the weights of the loss.

        Both models condition the end on the start of the answer. Answerability is a distribution of two classes.
        """
        start, end = (divergence(teacher[name], outputs[name], temperature)
                      for name in ("start_log_probs", "end_log_probs"))
        answerability = binary_divergence(teacher["cls_logits"], outputs["cls_logits"], temperature)
        return tf.reduce_sum((start + end) / 2.0 + 0.5 * answerability) / denominators["examples"]

    def predictions(self, outputs: Tensors, batch: Batch) -> Tensors:
        """The candidates for answers: see `candidates`."""
        return candidates(outputs, AnswerOptions("2.0"))


class QuestionAnswering(Task):
    """Questions whose answers are spans of a text.

    The training file is taken out of `files` when its features have been made, so that it is not in memory while the
    model is trained.
    """

    options: SquadConfig
    HEADS = ("span", "conditional_span")
    best_metric, unit = BEST_METRIC, "question"
    stored_results = (THRESHOLD,)

    @classmethod
    def of_dev_file(cls, model: keras.Model, options: Scoring, setup: Setup) -> Self:
        return cls(SquadConfig(output_dir=setup.cache.directory, do_eval=True, predict_file=options.score_data,
                               squad_version=VERSION_OF_HEAD[model.settings.head]), setup)

    def __init__(self, options: SquadConfig, setup: Setup):
        super().__init__(options, setup)
        self.features, self.files = feature_options(options, setup.model, setup.max_seq_length), read_files(options)
        if options.do_train:  # as in the release, although a question can have several rows
            self.num_examples = self.files["train_file"].summary.questions
        self.version = squad_version(options.squad_version, setup.model, self.files)
        self.shortest_row = beam_width(options, setup.max_seq_length, self.version)
        self.reading = dict(doc_stride=self.features.doc_stride, max_query_length=self.features.max_query_length)
        self.answer_options = AnswerOptions(self.version, options.n_best_size, options.max_answer_length,
                                            release_compatible=options.release_compatible)
        file = self.files.get("predict_file")
        self.dataset = file.articles if file and file.summary.has_answers else None
        if options.count_characters:
            self.best_metric = BEST_CHARACTER_METRIC
        elif self.dataset and not has_spaces(self.dataset):
            logging.info("%s: most words have no spaces between them, but scores count words between spaces; "
                         "--count_characters counts characters, as CMRC 2018 does", options.predict_file)
        used = dict(train=options.do_train, dev=self.dataset is not None and options.uses("eval"))
        self.data_files = {split: os.path.basename(path) for split, path in (
            ("train", options.train_file), ("dev", options.predict_file)) if path and used[split]}
        task = SpanObjective if self.version == "1.1" else ConditionalSpanObjective
        head, = (head for head, version in VERSION_OF_HEAD.items() if version == self.version)
        if options.do_train and options.distillation.teacher_checkpoint:
            self.teacher = Teacher.of(options.distillation, head, task.TEACHER_OUTPUTS)
            self.teacher.check_tokens(setup.tokenizer, self.config, setup.max_seq_length)

    def objective(self, config: AlbertConfig) -> SpanObjective | ConditionalSpanObjective:
        options = self.options
        if self.version == "1.1":
            return SpanObjective(AlbertSpan(config), options.n_best_size)
        return ConditionalSpanObjective(AlbertConditionalSpan(config, options.start_n_top, options.end_n_top,
                                                         options.dropout_prob))

    def training_table(self) -> FeatureTable:
        return training_table(self.setup.cache, self.files.pop("train_file"), self.features, self.options.num_workers,
                              self.options.train_feature_file)

    def texts(self, split: str) -> Iterator[str]:
        for article in self.files["train_file" if split == "train" else "predict_file"].articles:
            for paragraph in article["paragraphs"]:
                yield paragraph["context"]

    def dev_tables(self) -> list[FeatureTable | None]:
        return [] if self.dataset is None else [self._to_predict[0]]

    def score(self, predictions: Sequence[Predictions]) -> dict[str, float]:
        assert self.dataset is not None  # otherwise there is no dev set
        chosen = answers(self._to_predict[1], predictions[0], self.answer_options)
        return self._scores(self.dataset, Results(self.version, chosen, self.options.release_compatible))

    def predictions(self) -> Iterator[TableToPredict]:
        if self.options.do_predict:
            table, questions = self._to_predict
            yield table, functools.partial(self._write, questions)
        if self.options.ask:
            yield None, self._ask

    def _threshold(self, checkpoint: Checkpoint) -> float | None:
        """The user's threshold, or the one that is stored with the weights that predict."""
        requested = self.options.null_score_diff_threshold
        stored = checkpoint.settings.of_class(ConditionalSpanSettings).null_score_diff_threshold
        return stored if requested is None else requested

    def export(self, directory: str, model: keras.Model, checkpoint: Checkpoint) -> None:
        options = dataclasses.replace(self.answer_options, threshold=self._threshold(checkpoint))
        export_question_answering(directory, model, self.setup.tokenizer, self.features, options)

    @functools.cached_property
    def _to_predict(self) -> tuple[FeatureTable | None, list[QuestionWindows]]:
        """The features of --predict_file, and all its questions."""
        return prediction_table(self.setup.tokenizer, self.files["predict_file"], self.features,
                                self.options.num_workers)

    def _scores(self, dataset: list, results: Results) -> dict[str, float]:
        scores = results.scores(dataset, self.options.null_score_diff_threshold)
        if self.options.count_characters:
            predictions = results.predictions(scores.get(THRESHOLD))
            scores.update(character_scores(dataset, predictions))
        return scores

    def _write(self, questions: list[QuestionWindows], predictions: Predictions, trained: TrainedModels) -> None:
        """Writes the files of predictions and, if there are answers, the scores with the checkpoint's step."""
        options, checkpoint = self.options, trained.checkpoint()
        chosen = answers(questions, predictions, self.answer_options)
        results = Results(self.version, write_n_best(options.output_dir, chosen), options.release_compatible)
        if self.dataset:
            scores = self._scores(self.dataset, results)
            logging.info("%s", format_results(scores))
            if not (options.do_train or options.do_eval):
                write_results(options.output_dir, dict(scores, global_step=checkpoint.step))
                if checkpoint.run:
                    store_results(self, checkpoint.run, scores)
            threshold = scores.get(THRESHOLD)
        else:
            threshold = self._threshold(checkpoint)
        write_predictions(options.output_dir, results, 0.0 if threshold is None else threshold)
        logging.info("predictions are in %s", options.output_dir)

    def _ask(self, _: Predictions, trained: TrainedModels) -> None:
        """Reads questions from standard input and prints the answers, until an empty line or the end."""
        path = self.options.path_of("context_file")
        text = "\n".join(read_lines(path))
        options = dataclasses.replace(self.answer_options, threshold=self._threshold(trained.checkpoint()))
        answerer = QuestionAnswerer(trained.best_model(), self.setup.tokenizer, self.features, options)
        print(f"Questions about {path}, one per line; an empty line ends.", flush=True)
        for question in read_standard_input():
            if not question.strip():
                break
            answer = answerer.ask(question.strip(), text)
            print(describe(answer, is_declined=options.declines(answer.null_score)), flush=True)

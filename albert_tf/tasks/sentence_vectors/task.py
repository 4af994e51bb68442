"""The fine-tuning of sentence vectors: the losses on pairs of texts, tables, scores, answers, export."""

from __future__ import annotations

import functools
import os
from typing import Iterable, Iterator, Self, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import FeatureCache, FeatureTable
from albert_tf.data.rows import read_texts
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.settings import SentenceEncoderSettings
from albert_tf.modeling.vectors import prompt_text
from albert_tf.tasks.classification.answers import write_answers
from albert_tf.tasks.classification.data import read_examples, read_label_ids
from albert_tf.tasks.classification.metrics import correlations
from albert_tf.tasks.config import Scoring
from albert_tf.tasks.sentence_vectors.config import SentenceVectorsConfig
from albert_tf.tasks.sentence_vectors.data import (
    DROPOUT,
    TextPair,
    feature_table,
    line_table,
    read_pairs,
    read_scored_pairs,
    read_single_texts,
    token_table,
)
from albert_tf.tasks.sentence_vectors.objective import SentenceVectorObjective
from albert_tf.tasks.sentence_vectors.token_objective import TokenObjective
from albert_tf.tasks.sentence_vectors.vectors import export_sentence_encoder, projection, prompted, text_vectors
from albert_tf.tasks.task import Checkpoint, Setup, TableToPredict, Task, TeacherPredict, TrainedModels
from albert_tf.training.evaluation import report_predicted
from albert_tf.training.objective import Objective
from albert_tf.training.prediction import Predictions, mean_of
from albert_tf.training.strategy import is_chief
from albert_tf.training.teacher import StoredTeacher, Teacher
from albert_tf.utils.outputs import read_array, write_array
from albert_tf.utils.progress import count_of
from albert_tf.weights.pooling import sentence_pooling
from albert_tf.weights.runs import saved_runs

COMPARED = 2000  # about how many lines the initial weights read for distillation
PROJECTION = "teacher_projection.npy"


class SentenceEmbeddings(Task):
    """Vectors of sentences, scored by their cosines."""

    options: SentenceVectorsConfig
    HEADS = ("sentence_encoder",)
    best_metric = "spearman"

    @classmethod
    def of_dev_file(cls, model: keras.Model, options: Scoring, setup: Setup) -> Self:
        if options.task_name not in (None, "sts-b"):
            raise ValueError(f"--task_name={options.task_name} has no scores of two texts: leave it out, or set "
                             "--task_config")
        folder = setup.cache.directory
        task = cls(SentenceVectorsConfig(output_dir=folder, do_eval=True, data_dir=folder,
                                         task_config=options.task_config), setup)
        task.scored = task.scored.with_dev_alone(str(options.score_data))
        return task

    def __init__(self, options: SentenceVectorsConfig, setup: Setup):
        super().__init__(options, setup)
        self.scored = options.scored()
        self.pooling = dict(sentence_pooling(setup.model, options), max_seq_length=setup.max_seq_length)
        self.prompt = prompt_text(self.pooling["prompts"], self.pooling["default_prompt_name"])  # before each text
        if options.do_train and options.objective == "simcse":
            self.config = with_dropout(self.config)
        files = {split: source.path for split, source in self.scored.sources.items()}
        if options.objective != "sts":
            files["train"] = os.path.basename(options.train_file or "")
        self.data_files = {split: files[split] for split in options.splits if split in files}
        if options.do_train and options.teacher_vectors:
            self.teacher = StoredTeacher("teacher_vectors", options.teacher_vectors,
                                         SentenceVectorObjective.TEACHER_OUTPUTS)
        if options.do_train and options.teacher_checkpoint:
            teacher = Teacher(options.teacher_checkpoint, "sentence_encoder", SentenceVectorObjective.TEACHER_OUTPUTS)
            if options.objective == "tokens":
                teacher.check_tokens(setup.tokenizer, self.config, self.buckets[-1])
                self._token_teacher = teacher
            else:
                self.teacher = teacher

    def objective(self, config: AlbertConfig) -> SentenceVectorObjective:
        options = self.options
        stored = self.setup.model.settings.of_class(SentenceEncoderSettings)
        depths = options.distillation_depths if options.do_train else stored.distillation_depths
        model = AlbertSentenceEncoder(config, **self.pooling, distillation_depths=depths or ())
        objective = "contrastive" if options.objective in ("pairs", "simcse") else "similarity"
        return SentenceVectorObjective(model, objective, options.temperature, options.matryoshka_dims,
                                       options.whole_batch_negatives)

    def training_objective(self) -> Objective:
        objective = super().training_objective()
        if self.options.objective != "tokens":
            return objective
        return TokenObjective(objective.model, self._token_teacher.model())

    def training_table(self) -> FeatureTable:
        options = self.options
        if options.objective == "sts":
            return self._table(self._scored_pairs("train"), "train")
        if options.objective == "distillation":
            return line_table(self.setup.cache, [self.prompt + line for line in self.lines],
                              self.setup.max_seq_length)
        if options.objective == "tokens":
            return token_table(self.setup.cache, self.lines, self.setup.max_seq_length, options.training.random_seed)
        return self._table(self.pairs, "train")

    @functools.cached_property
    def pairs(self) -> list[TextPair]:
        """The rows of --train_file that belong together."""
        options = self.options
        pairs = (read_pairs(options.path_of("train_file"), options.num_negatives) if options.objective == "pairs"
                 else [TextPair(text, text) for text in self.lines])
        if len(set(pairs)) < 2:
            raise ValueError(f"--train_file={options.train_file} has one text again and again: --objective="
                             f"{options.objective} compares different ones")
        return [pair.behind(self.prompt) for pair in pairs]

    @functools.cached_property
    def lines(self) -> list[str]:
        """The lines of --train_file, for simcse, distillation and tokens."""
        return read_single_texts(self.options.path_of("train_file"), self.options.text_column)

    def texts(self, split: str) -> Iterable[str]:
        if self.options.objective in ("distillation", "tokens") and split == "train":
            return self.lines
        is_scored = split == "dev" or self.options.objective == "sts"
        return (text for pair in (self._scored_pairs(split) if is_scored else self.pairs) for text in pair.texts)

    def teacher_outputs(
        self, teacher: Teacher | StoredTeacher, table: FeatureTable, read: TeacherPredict
    ) -> dict[str, np.ndarray]:
        """The teacher's vectors, projected to the model's width and rotated towards its initial vectors.

        The projection is stored with the run, since the initial weights may be gone when it continues.
        """
        if isinstance(teacher, StoredTeacher):
            source = self.options.path_of("train_file")
            is_read = [bool(text.strip()) for text in read_texts(source, self.options.text_column)]
            stored = teacher.rows(len(is_read), source)
            vectors = stored if all(is_read) else stored[is_read]
        else:
            cache = FeatureCache(teacher.tokenizer, self.options.cache)
            settings = teacher.source.settings.of_class(SentenceEncoderSettings)
            length = teacher.row_length(self.setup.max_seq_length)
            vectors = read(lambda: line_table(cache, prompted(settings, self.lines), length))["sentence_embedding"]
        path = os.path.join(self.options.output_dir, PROJECTION)
        if saved_runs(self.options.output_dir) and tf.io.gfile.exists(path):
            matrix = read_array(path)
        else:
            rows = slice(None, None, -(-len(vectors) // COMPARED))
            initial = None
            if self.options.source.init_path:
                model = self.setup.model.pretrained("sentence_encoder", **self.pooling)
                initial = text_vectors(model, self.setup.tokenizer, self.lines[rows])
            size = self.pooling["truncate_dim"] or self.pooling.get("dense_size") or self.config.hidden_size
            matrix = projection(vectors, size, initial, rows)
            if is_chief(self.setup.strategy):
                write_array(path, matrix)
        return dict(sentence_embedding=vectors @ matrix)

    def dev_tables(self) -> list[FeatureTable | None]:
        return [self._table(self._dev_pairs, "dev")]

    @functools.cached_property
    def _dev_pairs(self) -> list[TextPair]:
        return self._scored_pairs("dev")

    def score(self, predictions: Sequence[Predictions]) -> dict[str, float]:
        expected, results = np.array([pair.cosine for pair in self._dev_pairs]), {}
        for name in predictions[0][0]:  # cosine, and cosine_N for truncated vectors
            scores = correlations(expected, mean_of(predictions[0], name))
            results.update({key + name[len("cosine"):]: value for key, value in scores.items()})
        return results

    def predictions(self) -> Iterator[TableToPredict]:
        table = self._table(self._scored_pairs("test"), "test")
        yield table, functools.partial(self._write, read_label_ids(self.scored, self.options.data_dir, "test"))

    def export(self, directory: str, model: keras.Model, checkpoint: Checkpoint) -> None:
        export_sentence_encoder(directory, model, self.setup.tokenizer, self.setup.max_seq_length)

    def _table(self, pairs: list[TextPair], split: str) -> FeatureTable:
        return feature_table(self.setup.cache, pairs, split, self.setup.max_seq_length)

    def _scored_pairs(self, split: str) -> list[TextPair]:
        pairs = read_scored_pairs(self.scored, self.options.data_dir, split, self.options.best_score)
        return [pair.behind(self.prompt) for pair in pairs]

    def _write(self, expected: np.ndarray | None, predictions: Predictions, trained: TrainedModels) -> None:
        """Writes the cosines of the test set to files in the format of run_classifier.py, and how good they are."""
        options, cosines = self.options, mean_of(predictions, "cosine")
        guids = [example.guid for example in read_examples(self.scored, options.data_dir, "test")]
        write_answers(options.output_dir, self.scored, guids, options.best_score * cosines[:, None])
        logging.info("%s: %s answered in %s", self.scored.name, count_of(len(guids), "test example"),
                     options.output_dir)
        if expected is not None:
            report_predicted(options.output_dir, correlations(expected, cosines),
                             trained.checkpoint().step)


def with_dropout(config: AlbertConfig) -> AlbertConfig:
    """A config with dropout, without which simcse's two encodings of a line are equal."""
    if config.hidden_dropout_prob or config.attention_probs_dropout_prob:
        return config
    logging.info("the model's config has no dropout, which --objective=simcse needs: its rate is set to %g", DROPOUT)
    return config.replace(hidden_dropout_prob=DROPOUT, attention_probs_dropout_prob=DROPOUT)

"""The fine-tuning of sentence vectors: tables of each objective, scores, answers, export."""

from __future__ import annotations

import functools
import os

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import FeatureCache
from albert_tf.data.rows import read_texts
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.settings import SentenceEncoderSettings
from albert_tf.modeling.vectors import prompt_text
from albert_tf.tasks.classification.answers import write_answers
from albert_tf.tasks.classification.data import read_examples
from albert_tf.tasks.classification.metrics import correlations
from albert_tf.tasks.sentence_vectors.config import SentenceVectorsConfig
from albert_tf.tasks.sentence_vectors.data import (
    DROPOUT,
    TextPair,
    feature_table,
    line_table,
    read_pairs,
    read_scored_pairs,
    read_single_texts,
    read_twice,
)
from albert_tf.tasks.sentence_vectors.objective import SentenceVectorObjective, teacher_outputs
from albert_tf.tasks.sentence_vectors.vectors import (
    embed,
    export_sentence_encoder,
    projection,
    prompted,
    token_ids,
    vectors_function,
)
from albert_tf.tasks.task import Checkpoint, Setup, Task
from albert_tf.training.checkpoints import saved_runs
from albert_tf.training.evaluation import mean_of
from albert_tf.utils.outputs import read_array, write_array
from albert_tf.utils.progress import count_of
from albert_tf.weights.resolved_model import sentence_pooling
from albert_tf.weights.teacher import StoredTeacher, Teacher

# Distillation: about how many lines the initial weights read, and how many in a batch.
COMPARED, COMPARED_BATCH = 2000, 32
PROJECTION = "teacher_projection.npy"


class SentenceEmbeddings(Task):
    """Vectors of sentences, whose cosines are scored."""

    options: SentenceVectorsConfig
    HEADS = ("sentence_encoder",)
    best_metric = "spearman"

    def __init__(self, options: SentenceVectorsConfig, setup: Setup):
        super().__init__(options, setup)
        self.scored = options.scored()
        self.pooling = dict(sentence_pooling(setup.model, options), max_seq_length=setup.max_seq_length)
        self.prompt = prompt_text(self.pooling["prompts"], self.pooling["default_prompt_name"])  # before each text
        self.vectors = options.stored_precision()
        if options.do_train and options.objective == "simcse":
            self.config = with_dropout(self.config)
        files = {split: source.path for split, source in self.scored.sources.items()}
        if options.objective != "sts":
            files["train"] = os.path.basename(options.train_file or "")
        self.data_files = {split: files[split] for split in options.splits if split in files}
        if options.do_train and options.teacher_vectors:
            self.teacher = StoredTeacher("teacher_vectors", options.teacher_vectors, teacher_outputs(0.0))
        if options.do_train and options.teacher_checkpoint:
            self.teacher = Teacher(options.teacher_checkpoint, "sentence_encoder",
                                   teacher_outputs(options.distillation_tokens))
            if options.distillation_tokens:
                self.teacher.check_tokens(setup.tokenizer, self.config, setup.max_seq_length)
                if prompted(self.teacher.source.settings.of_class(SentenceEncoderSettings), [""]) != [self.prompt]:
                    raise ValueError(f"--teacher_checkpoint={options.teacher_checkpoint} reads texts behind another "
                                     "prompt, so its answers cannot be compared token by token: set --prompt_name")

    def objective(self, config):
        options = self.options
        stored = self.setup.model.settings.of_class(SentenceEncoderSettings)
        depths = options.distillation_depths if options.do_train else stored.distillation_depths
        model = AlbertSentenceEncoder(config, **self.pooling, distillation_depths=depths or (),
                                      vector_precision=self.vectors.name, vector_ranges=self.vectors.ranges)
        objective = "contrastive" if options.objective in ("pairs", "simcse") else "similarity"
        return SentenceVectorObjective(model, objective, options.temperature, options.matryoshka_dims,
                                  options.distillation_cosines, options.distillation_tokens,
                                  options.whole_batch_negatives)

    def training_table(self):
        options = self.options
        if options.objective == "sts":
            return self._table(self._scored_pairs("train"), "train")
        if options.objective == "distillation":
            return line_table(self.setup.cache, [self.prompt + line for line in self.lines],
                              self.setup.max_seq_length)
        return self._table(self.pairs, "train")

    @functools.cached_property
    def pairs(self) -> list[TextPair]:
        """The rows of --train_file that belong together."""
        options = self.options
        pairs = (read_pairs(options.train_file, options.num_negatives) if options.objective == "pairs"
                 else read_twice(options.train_file, options.text_column))
        if len(set(pairs)) < 2:
            raise ValueError(f"--train_file={options.train_file} has one text again and again: --objective="
                             f"{options.objective} compares different ones")
        return [pair.behind(self.prompt) for pair in pairs]

    @functools.cached_property
    def lines(self) -> list[str]:
        """The lines of --train_file that a teacher reads."""
        return read_single_texts(self.options.train_file, self.options.text_column)

    def texts(self, split):
        if self.options.objective == "distillation" and split == "train":
            return self.lines
        is_scored = split == "dev" or self.options.objective == "sts"
        return (text for pair in (self._scored_pairs(split) if is_scored else self.pairs) for text in pair.texts)

    def teacher_outputs(self, teacher, table, read):
        """The teacher's vectors, as wide as those of the model and near those of its initial weights.

        The teacher reads the same lines with its vocabulary, and with its length unless tokens are compared. A file of
        vectors has rows for blank lines, too, which are left out. The projection is stored with the run, since the
        initial weights may be gone when it continues.
        """
        if isinstance(teacher, StoredTeacher):
            source = self.options.train_file
            is_read = [bool(text.strip()) for text in read_texts(source, self.options.text_column)]
            stored = teacher.rows(len(is_read), source)
            outputs = dict(sentence_embedding=stored if all(is_read) else stored[is_read])
        else:
            length, cache = self.setup.max_seq_length, FeatureCache(teacher.tokenizer, self.options.cache)
            if not self.options.distillation_tokens:
                length = teacher.row_length(length)
            settings = teacher.source.settings.of_class(SentenceEncoderSettings)
            outputs = read(lambda: line_table(cache, prompted(settings, self.lines), length))
        vectors, path = outputs["sentence_embedding"], os.path.join(self.options.output_dir, PROJECTION)
        if saved_runs(self.options.output_dir) and tf.io.gfile.exists(path):
            matrix = read_array(path)
        else:
            rows = slice(None, None, -(-len(vectors) // COMPARED))
            initial = self._initial_vectors(self.lines[rows]) if self.options.source.init_path else None
            size = self.pooling["truncate_dim"] or self.config.hidden_size
            matrix = projection(vectors, size, initial, rows)
            write_array(path, matrix)
        return {name: values @ matrix for name, values in outputs.items()}

    def evaluation(self):
        pairs = self._scored_pairs("dev")
        table, expected = self._table(pairs, "dev"), np.array([pair.cosine for pair in pairs])

        def evaluate(predict) -> dict[str, float]:
            predictions, results = predict(table), {}
            for name in predictions[0]:  # cosine, and cosine_N for truncated vectors
                scores = correlations(expected, mean_of(predictions, name))
                results.update({key + name[len("cosine"):]: value for key, value in scores.items()})
            return results

        return evaluate

    def predictions(self):
        yield self._table(self._scored_pairs("test"), "test"), self._write

    def export(self, directory, model, checkpoint):
        export_sentence_encoder(directory, model, self.setup.tokenizer, self.setup.max_seq_length)

    def _table(self, pairs: list[TextPair], split: str):
        return feature_table(self.setup.cache, pairs, split, self.setup.max_seq_length)

    def _scored_pairs(self, split: str) -> list[TextPair]:
        pairs = read_scored_pairs(self.scored, self.options.data_dir, split, self.options.best_score)
        return [pair.behind(self.prompt) for pair in pairs]

    def _initial_vectors(self, texts: list[str]) -> np.ndarray:
        """The vectors of texts by the initial weights, float32 [texts, H]."""
        model = self.setup.model.pretrained("sentence_encoder", **self.pooling)
        rows = token_ids(self.setup.tokenizer, [self.prompt + text for text in texts], self.setup.max_seq_length)
        by_length = embed(vectors_function(model), rows, COMPARED_BATCH)
        return np.stack([vectors.pooled for vectors in sorted(by_length, key=lambda vectors: vectors.text)])

    def _write(self, predictions, checkpoint: Checkpoint) -> None:
        """Writes the scores of the test set to files in the format of run_classifier.py."""
        options, cosines = self.options, mean_of(predictions, "cosine")
        guids = [example.guid for example in read_examples(self.scored, options.data_dir, "test")]
        write_answers(options.output_dir, self.scored, guids, options.best_score * cosines[:, None])
        logging.info("%s: %s answered in %s", self.scored.name, count_of(len(guids), "test example"),
                     options.output_dir)


def with_dropout(config: AlbertConfig) -> AlbertConfig:
    """A config with dropout, without which simcse's two encodings of a line are equal."""
    if config.hidden_dropout_prob or config.attention_probs_dropout_prob:
        return config
    logging.info("the model's config has no dropout, which --objective=simcse needs: its rate is set to %g", DROPOUT)
    return config.replace(hidden_dropout_prob=DROPOUT, attention_probs_dropout_prob=DROPOUT)

"""Fine-tunes sentence vectors; evaluates them by Spearman's correlation; exports.

    python -m albert_tf run_sentence_embeddings --objective=sts --data_dir=glue --init_checkpoint=albert_base_v2 \\
        --output_dir=sentences --do_train --do_eval

--objective=sts trains on the scores of STS-B, pairs on texts that belong together (two columns of --train_file, and
hard negatives after them), simcse on single lines of text (--train_file), and distillation on the vectors that
--teacher_checkpoint makes of such lines. If the script is started again with the same flags, training continues from
the latest checkpoint.
"""

from __future__ import annotations

import dataclasses
import functools
import os

import numpy as np
import tensorflow as tf
from absl import flags, logging

from albert_tf.commands import (
    finetuning as tuning,
    finetuning_flags as tuning_flags,
    flag_fields as fields,
    shared_flags as shared,
    vector_flags,
)
from albert_tf.commands.distillation import Teacher, TeacherOptions
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import FeatureCache
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.tasks.classification.answers import write_answers
from albert_tf.tasks.classification.data import find_task, read_examples
from albert_tf.tasks.classification.metrics import correlations
from albert_tf.tasks.classification.task_config import TaskData, load_task_config
from albert_tf.tasks.sentence_vectors.data import (
    TextPair,
    feature_table,
    line_table,
    read_pairs,
    read_scored_pairs,
    read_single_texts,
    read_twice,
)
from albert_tf.tasks.sentence_vectors.task import SentenceVectorTask
from albert_tf.tasks.sentence_vectors.vectors import embed, export_sentence_encoder, projection, token_ids
from albert_tf.training.checkpoints import saved_runs
from albert_tf.training.evaluation import mean_of
from albert_tf.utils import bounds
from albert_tf.utils.outputs import read_array, write_array
from albert_tf.utils.progress import count_of

DROPOUT = 0.1  # for simcse, as in Gao et al. (2021)
# Distillation: about how many lines the initial weights read, and how many in a batch.
COMPARED, COMPARED_BATCH = 2000, 32
PROJECTION = "teacher_projection.npy"

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Options(vector_flags.VectorFlags, vector_flags.PrecisionFlags, TeacherOptions, tuning_flags.Options):
    """The flags of this command, and what several flags make; `scored` is STS-B or --task_config."""

    LARGEST_INTERVAL = 100

    scored: TaskData = fields.made()
    objective: str = fields.choice(
        "sts", ("sts", "pairs", "simcse", "distillation"),
        "Training objective. sts: the cosine of two texts predicts STS-B's score. "
        "pairs: the two texts of a row are nearest to each other in their batch. simcse: like pairs, with each line "
        f"and the same line under another dropout mask (of the rate {DROPOUT} if the config has no dropout). "
        "distillation: the vector of each line is that of --teacher_checkpoint.")
    train_file: str | None = fields.string(
        None, "Path of the training data. For --objective=pairs it is a .tsv or .csv file with two columns and no "
        "header, or JSON lines or Parquet with text_a and text_b. For --objective=simcse and distillation it is UTF-8 "
        "text, one text on each line, or a table with --text_column.")
    text_column: str | None = shared.text_column("text")
    num_negatives: int = fields.integer(
        0, "Number of hard negatives of each row of --train_file, for --objective=pairs: texts that do not belong to "
        "the first one. They are the columns after the second one, or negative_1, negative_2, ... of JSON lines and "
        "Parquet.", bounds.CANDIDATES.at_least(0), needs="objective=pairs")
    matryoshka_dims: tuple[int, ...] = fields.whole_numbers(
        (), "Comma-separated numbers of dimensions, such as 384,192,96. The loss is the sum over vectors that are "
        "truncated to each of them. Default: vectors are trained as a whole.", bounds.WIDTH)
    data_dir: str | None = fields.string(None, "Directory that holds GLUE's STS-B, or the files of --task_config.")
    best_score: float = fields.number(5.0, "The task's highest score, which corresponds to a cosine of 1.", 1e-6)
    temperature: float = fields.number(
        0.05, "Number by which cosines are divided, for the objectives pairs and simcse.", 1e-6,
        needs="objective=pairs,simcse")

    @property
    def readers(self):
        trains_on_scores = self.objective == "sts"
        return dict(data_dir=["do_eval", "do_predict", *["do_train"] * trains_on_scores],
                    train_file=[] if trains_on_scores else ["do_train"])


def define_flags() -> None:
    tuning_flags.define_flags(Options, max_seq_length=128, learning_rate=3e-5, train_batch_size=64)
    flags.DEFINE_string("task_config", None, "Path of a JSON file that describes a regression task on two texts, to "
                        "use instead of STS-B; see albert_tf/tasks/classification/task_config.py.")


def options_from_flags() -> Options:
    model = tuning_flags.set_defaults("sentence_encoder")
    of_a_batch = FLAGS.objective in ("pairs", "simcse")  # the other texts of a part are the negatives
    if (FLAGS.objective == "distillation") != bool(FLAGS.teacher_checkpoint):
        raise ValueError("--objective=distillation and --teacher_checkpoint need each other: set both or neither")
    scored = load_task_config(FLAGS.task_config) if FLAGS.task_config else find_task("sts-b")
    release_steps = (1000, 100) if FLAGS.objective == "sts" and not FLAGS.task_config else None
    return tuning_flags.options_from_flags(Options, model, release_steps=release_steps, scored=scored,
                                           cpu_parts=FLAGS.cpu_parts or int(of_a_batch))


def main() -> None:
    SentenceEmbeddings(options_from_flags()).run()


class SentenceEmbeddings(tuning.FineTuning):
    """Vectors of sentences, whose cosines are scored."""

    options: Options
    best_metric = "spearman"

    def __init__(self, options: Options):
        self.pooling = vector_flags.sentence_pooling(options.model, options)
        self.vectors = options.stored_precision()
        super().__init__(options)
        if options.do_train and options.objective == "simcse":
            self.config = with_dropout(self.config)
        files = {split: source.path for split, source in options.scored.sources.items()}
        if options.objective != "sts":
            files["train"] = os.path.basename(options.train_file or "")
        self.data_files = [files[split] for split in options.splits if split in files]
        if options.do_train and options.teacher_checkpoint:
            self.teacher = Teacher(options.teacher_checkpoint, "sentence_encoder", SentenceVectorTask.TEACHER_OUTPUTS)

    def new_task(self, config):
        options = self.options
        model = AlbertSentenceEncoder(config, **self.pooling, vector_precision=self.vectors.name,
                                      vector_ranges=self.vectors.ranges)
        objective = "contrastive" if options.objective in ("pairs", "simcse") else "similarity"
        return SentenceVectorTask(model, objective, options.temperature, options.matryoshka_dims)

    def training_table(self):
        options = self.options
        if options.objective == "sts":
            return self._table(self._scored_pairs("train"), "train")
        if options.objective == "distillation":
            return line_table(self.cache, self.lines, options.max_seq_length)
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
        return pairs

    @functools.cached_property
    def lines(self) -> list[str]:
        """The lines of --train_file that a teacher reads."""
        return read_single_texts(self.options.train_file, self.options.text_column)

    def texts(self, split):
        if self.options.objective == "distillation" and split == "train":
            return self.lines
        is_scored = split == "dev" or self.options.objective == "sts"
        return (text for pair in (self._scored_pairs(split) if is_scored else self.pairs) for text in pair.texts)

    def teacher_table(self, table):
        """The same lines, with the vocabulary and the length of the teacher."""
        return line_table(FeatureCache(self.teacher.tokenizer, self.options.cached_dir), self.lines,
                          self.teacher.row_length(self.options.max_seq_length))

    def targets(self, answers):
        """The teacher's vectors, as wide as those of the model and near those of its initial weights.

        Their projection is stored with the run, since the initial weights may be gone when it continues.
        """
        vectors, path = answers["sentence_embedding"], os.path.join(self.options.output_dir, PROJECTION)
        if saved_runs(self.options.output_dir) and tf.io.gfile.exists(path):
            matrix = read_array(path)
        else:
            places = slice(None, None, -(-len(vectors) // COMPARED))
            own = self._initial_vectors(self.lines[places]) if self.options.finetuning.init_checkpoint else None
            size = self.pooling["truncate_dim"] or self.config.hidden_size
            matrix = projection(vectors, size, own, places)
            write_array(path, matrix)
        return dict(sentence_embedding=vectors @ matrix)

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

    def export(self, directory, model):
        export_sentence_encoder(directory, model, self.tokenizer, self.options.max_seq_length)

    def _table(self, pairs: list[TextPair], split: str):
        return feature_table(self.cache, pairs, split, self.options.max_seq_length)

    def _scored_pairs(self, split: str) -> list[TextPair]:
        return read_scored_pairs(self.options.scored, self.options.data_dir, split, self.options.best_score)

    def _initial_vectors(self, texts: list[str]) -> np.ndarray:
        """The vectors of texts by the initial weights, float32 [texts, H]."""
        model = self.options.model.pretrained("sentence_encoder", **self.pooling)
        by_length = embed(model, token_ids(self.tokenizer, texts, self.options.max_seq_length), COMPARED_BATCH)
        return np.stack([vectors.pooled for vectors in sorted(by_length, key=lambda vectors: vectors.text)])

    def _write(self, predictions, step: int) -> None:
        """Writes the scores of the test set to files in the format of run_classifier.py."""
        options, cosines = self.options, mean_of(predictions, "cosine")
        guids = [example.guid for example in read_examples(options.scored, options.data_dir, "test")]
        write_answers(options.output_dir, options.scored, guids, options.best_score * cosines[:, None])
        logging.info("%s: %s answered in %s", options.scored.name, count_of(len(guids), "test example"),
                     options.output_dir)


def with_dropout(config: AlbertConfig) -> AlbertConfig:
    """A config with dropout, without which simcse's two encodings of a line are equal."""
    if config.hidden_dropout_prob or config.attention_probs_dropout_prob:
        return config
    logging.info("the model's config has no dropout, which --objective=simcse needs: its rate is set to %g", DROPOUT)
    return config.replace(hidden_dropout_prob=DROPOUT, attention_probs_dropout_prob=DROPOUT)

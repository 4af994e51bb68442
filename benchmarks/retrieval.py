"""Retrieval of SQuAD's paragraphs by question, and STS-B, with vectors of several sizes and precisions.

    python -m benchmarks.retrieval --model=all-MiniLM-L6-v2 --data=data --rerank_checkpoint=ranker --csv=retrieval.csv

All paragraphs of data/squad/dev-v1.1.json are candidates for each question: recall@1, recall@10 and MRR@10. Spearman's
correlation is that of the cosines and the scores of data/glue/STS-B/dev.tsv. The ranges of int8 are those of the
paragraphs, and for STS-B those of sentences of train.tsv. The last row orders the ten nearest paragraphs again.

--training_file writes rows for run_classifier with "ranking": true, from train-v1.1.json: a question with its
paragraph, and with hard negatives, which are the nearest other paragraphs. With --teacher, it also writes the teacher's
logits of these rows to the same name with .npy, for --teacher_scores: the teacher's cosines, scaled by a logistic
regression on the labels.
"""

import os

import numpy as np
import scipy.optimize
import scipy.stats
from absl import flags, logging

from albert_tf.commands.flags import define_integer, define_required
from albert_tf.modeling.vectors import VectorPrecision, as_ranges
from albert_tf.tasks.classification.answers import RelevanceScorer
from albert_tf.tasks.classification.data import find_task, read_examples
from albert_tf.tasks.sentence_vectors.vectors import cosines, unit_vectors_function
from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import write_array, write_csv
from albert_tf.weights.from_pretrained import from_pretrained, tokenizer_from_pretrained
from benchmarks.processor import run

define_required("model", "The sentence encoder: any path that --init_checkpoint accepts.")
define_required("data", "Folder that has squad/ and glue/.")
flags.DEFINE_list("rerank_checkpoint", [], "Models that rank, each of which orders the nearest paragraphs again.")
flags.DEFINE_list("dims", ["384", "192", "96"], "Numbers of dimensions of the vectors.")
flags.DEFINE_string("csv", None, "Path of a file for the results.")
flags.DEFINE_string("training_file", None, "Path of a .csv to write with training rows; nothing else is done then.")
flags.DEFINE_string("teacher", None, "A sentence encoder that teaches a ranker.")
define_integer("training_questions", 1000, "Number of questions in --training_file.", 1, 100_000)
define_integer("questions", 100_000, "Number of questions, at equal distances, for --rerank_checkpoint.", 1, 100_000)
FLAGS = flags.FLAGS
PRECISIONS = ("float32", "int8", "binary")
BEST = 10
CALIBRATION = 2000  # sentences of STS-B


def main():
    vectors_of = encoder(FLAGS.model)
    if FLAGS.training_file:
        write_training_rows(vectors_of)
        return
    questions, paragraphs, answers = squad("dev")
    found, rows = retrieval(vectors_of, questions, paragraphs, answers)
    spearman = similarity(vectors_of)
    rows = [dict(row, spearman=spearman[row["dims"], row["precision"]]) for row in rows]
    if FLAGS.rerank_checkpoint:
        rows += reranked(questions, paragraphs, answers, found)
    names = ("dims", "precision", "recall@1", "recall@10", "mrr@10", "spearman", "questions")
    table = [names, *([row.get(name, "") for name in names] for row in rows)]
    print(*(",".join(map(str, values)) for values in table), sep="\n")
    if FLAGS.csv:
        write_csv(FLAGS.csv, table)


def encoder(path):
    """The function that computes vectors of texts: [texts, dimensions], of length 1."""
    return unit_vectors_function(from_pretrained(path, model="sentence_encoder"), tokenizer_from_pretrained(path))


def squad(split):
    """The questions, the paragraphs, and the index of each question's paragraph."""
    articles = read_json_object(f"{FLAGS.data}/squad/{split}-v1.1.json")["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    asked = [(qa["question"], index) for index, paragraph in enumerate(paragraphs) for qa in paragraph["qas"]]
    return [question for question, _ in asked], [each["context"] for each in paragraphs], np.array(
        [index for _, index in asked])


def sizes_and_precisions(vectors):
    """Truncated vectors of length 1 with their number of dimensions, and the precisions with their ranges."""
    for dims in map(int, FLAGS.dims):
        truncated = unit(vectors[:, :dims])
        ranges = as_ranges(np.stack([truncated.min(axis=0), truncated.max(axis=0)]))
        for name in PRECISIONS:
            yield dims, VectorPrecision(name, ranges if name == "int8" else None)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def retrieval(vectors_of, questions, paragraphs, answers):
    """The nearest paragraphs of each question by whole vectors, [questions, BEST], and a row for each precision."""
    of_paragraphs, of_questions = vectors_of(paragraphs), vectors_of(questions)
    rows, nearest = [], None
    for dims, precision in sizes_and_precisions(of_paragraphs):
        stored = precision.stored(unit(of_paragraphs[:, :dims]))
        order = np.argsort(-cosines(unit(of_questions[:, :dims]), stored, precision), axis=1, kind="stable")
        nearest = order[:, :BEST] if nearest is None else nearest
        rows.append(dict(dims=dims, precision=precision.name, **scores(order[:, :BEST], answers),
                         questions=len(questions)))
    return nearest, rows


def scores(order, answers):
    """recall and reciprocal rank from the best paragraphs of each question, [questions, BEST]."""
    is_found = order == answers[: len(order), None]
    ranks = np.where(is_found.any(axis=1), is_found.argmax(axis=1) + 1, np.inf)
    values = {"recall@1": is_found[:, 0], "recall@10": is_found.any(axis=1), "mrr@10": 1 / ranks}
    return {name: round(float(np.mean(value)), 4) for name, value in values.items()}


def similarity(vectors_of):
    """Spearman's correlation on STS-B for each number of dimensions and precision."""
    task, folder = find_task("sts-b"), f"{FLAGS.data}/glue"
    dev = read_examples(task, folder, "dev")
    first, second = (vectors_of([getattr(each, name) for each in dev]) for name in ("text_a", "text_b"))
    calibration = vectors_of([each.text_a for each in read_examples(task, folder, "train")[:CALIBRATION]])
    expected, found = [each.label for each in dev], {}
    for dims, precision in sizes_and_precisions(calibration):
        restored = [unit(precision.restored(precision.stored(unit(each[:, :dims])), dims).numpy())
                    for each in (first, second)]
        predicted = np.sum(restored[0] * restored[1], axis=1).round(6)
        found[dims, precision.name] = round(float(scipy.stats.spearmanr(expected, predicted)[0]), 4)
    return found


def reranked(questions, paragraphs, answers, nearest):
    """The rows before and after the nearest paragraphs of each question are ordered by each --rerank_checkpoint."""
    chosen = equally_distant(questions, min(FLAGS.questions, len(questions)))
    nearest, answers = nearest[chosen], answers[chosen]
    queries = [questions[i] for i in chosen for _ in range(nearest.shape[1])]
    passages = [paragraphs[index] for index in nearest.flat]
    orders = {"first stage": nearest}
    for path in FLAGS.rerank_checkpoint:
        scorer = RelevanceScorer(from_pretrained(path, model="classifier"), tokenizer_from_pretrained(path))
        relevance = scorer(queries, passages).reshape(nearest.shape)
        orders[f"reranked by {path}"] = np.take_along_axis(
            nearest, np.argsort(-relevance, axis=1, kind="stable"), axis=1)
    return [dict(precision=name, **scores(order, answers), questions=len(chosen)) for name, order in orders.items()]


def equally_distant(questions, number):
    return np.linspace(0, len(questions) - 1, number).astype(int)


def write_training_rows(vectors_of, negatives=3):
    """Writes query, passage, relevant: for questions at equal distances in the file."""
    questions, paragraphs, answers = squad("train")
    chosen = equally_distant(questions, FLAGS.training_questions)
    products = vectors_of([questions[i] for i in chosen]) @ vectors_of(paragraphs).T
    products[np.arange(len(chosen)), answers[chosen]] = -np.inf
    rows: list = [["query", "passage", "relevant"]]
    for row, i in enumerate(chosen):
        rows.append([questions[i], paragraphs[answers[i]], 1])
        for index in np.argsort(-products[row], kind="stable")[: min(negatives, len(paragraphs) - 1)]:
            rows.append([questions[i], paragraphs[index], 0])
    write_csv(FLAGS.training_file, rows)
    if FLAGS.teacher:
        write_array(os.path.splitext(FLAGS.training_file)[0] + ".npy", teacher_logits(*zip(*rows[1:])))
    logging.info("%s: %d questions", FLAGS.training_file, len(chosen))


def teacher_logits(queries, passages, labels):
    """The cosines of --teacher, as logits of the labels: float32 [pairs]."""
    texts, indices = np.unique(queries + passages, return_inverse=True)
    first, second = np.split(encoder(FLAGS.teacher)(list(texts))[indices], 2)
    inputs = np.stack([np.sum(first * second, axis=1), np.ones(len(labels))], axis=1)
    signs = 1 - 2 * np.array(labels)
    found = scipy.optimize.minimize(lambda weights: np.logaddexp(0, signs * (inputs @ weights)).mean(), [1.0, 0.0])
    return (inputs @ found.x).astype(np.float32)


if __name__ == "__main__":
    run(main)

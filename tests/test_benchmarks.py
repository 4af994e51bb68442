"""The benchmarks that need no peer."""

import csv
import json
import shutil

import numpy as np
import pytest
from in_process import loaded


def test_retrieval_measures_each_form_of_vectors_and_a_model_that_ranks(golden, tmp_path):
    (tmp_path / "squad").mkdir()
    shutil.copytree(golden / "glue/STS-B", tmp_path / "glue/STS-B")
    for split in ("train", "dev"):
        shutil.copy(golden / "squad/dev_v1.json", tmp_path / f"squad/{split}-v1.1.json")
    articles = json.loads((golden / "squad/dev_v1.json").read_text())["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    folder = golden / "sentence_transformers"
    with loaded("benchmarks/retrieval.py") as run:
        flags = dict(model=folder / "mean_normalized", data=tmp_path, dims="8,4")
        assert run(**flags, rerank_checkpoint=folder / "cross_encoder", csv=tmp_path / "out.csv") == 0
        assert run(**flags, training_file=tmp_path / "rows.csv", training_questions=2, teacher=flags["model"]) == 0
    *rows, first_stage, reranked = csv.DictReader(open(tmp_path / "out.csv"))
    assert [(row["dims"], row["precision"]) for row in rows] == [
        (dims, name) for dims in ("8", "4") for name in ("float32", "int8", "binary")]
    measures = ("recall@1", "recall@10", "mrr@10")
    assert [first_stage[name] for name in measures] == [rows[0][name] for name in measures]
    assert reranked["recall@10"] == first_stage["recall@10"]  # the same candidates
    assert int(rows[0]["questions"]) == sum(len(paragraph["qas"]) for paragraph in paragraphs)
    training = list(csv.DictReader(open(tmp_path / "rows.csv")))
    first = paragraphs[0]
    assert (training[0]["query"], training[0]["passage"]) == (first["qas"][0]["question"], first["context"])
    assert [row["relevant"] for row in training[:2]] == ["1", "0"] and training[1]["passage"] != first["context"]
    probabilities = 1 / (1 + np.exp(-np.load(tmp_path / "rows.npy")))
    assert len(probabilities) == len(training)
    # as in every logistic regression with an intercept
    assert probabilities.mean() == pytest.approx(np.mean([int(row["relevant"]) for row in training]), abs=1e-3)

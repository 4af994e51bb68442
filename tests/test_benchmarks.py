"""The benchmarks that need no peer."""

import csv
import json
import shutil

from in_process import loaded


def test_retrieval_measures_each_form_of_vectors(golden, tmp_path):
    (tmp_path / "squad").mkdir()
    shutil.copytree(golden / "glue/STS-B", tmp_path / "glue/STS-B")
    shutil.copy(golden / "squad/dev_v1.json", tmp_path / "squad/dev-v1.1.json")
    articles = json.loads((golden / "squad/dev_v1.json").read_text())["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    folder = golden / "sentence_transformers"
    with loaded("benchmarks/retrieval.py") as run:
        assert run(model=folder / "mean_normalized", data=tmp_path, dims="8,4", csv=tmp_path / "out.csv") == 0
    rows = list(csv.DictReader(open(tmp_path / "out.csv")))
    assert [(row["dims"], row["precision"]) for row in rows] == [
        (dims, name) for dims in ("8", "4") for name in ("float32", "int8", "binary")]
    assert int(rows[0]["questions"]) == sum(len(paragraph["qas"]) for paragraph in paragraphs)

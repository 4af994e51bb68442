"""The benchmarks that need no peer."""

import csv
import json
import shutil
import sys

from in_process import loaded

from benchmarks.alternation import THREADS, output_of


def test_a_measured_program_reads_its_number_of_threads_where_torch_and_tensorflow_look_for_it():
    program = "import os, sys; print(*map(os.environ.get, sys.argv[1:]))"
    names = ["OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"]
    assert output_of([sys.executable, "-c", program, *names], **dict.fromkeys(THREADS, "2")) == "2 2 2\n"


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
        assert run(**flags, training_file=tmp_path / "rows.csv", training_questions=2) == 0
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


def test_an_albert_of_a_bert_is_measured_once_and_drawn_beside_its_teacher(golden, tmp_path):
    (tmp_path / "squad").mkdir()
    shutil.copytree(golden / "glue/STS-B", tmp_path / "glue/STS-B")
    shutil.copy(golden / "squad/dev_v1.json", tmp_path / "squad/dev-v1.1.json")
    table = tmp_path / "bert_to_albert.csv"
    with loaded("benchmarks/bert_to_albert.py") as run:
        columns = run.names["COLUMNS"]
        earlier = [["plain", seed, "128", 0.6, 0.8, score, 6.0, 1.0, 5000000, 0.5] for seed, score in (
            ("1", 0.7), ("2", 0.8))]
        table.write_text("".join(",".join(map(str, row)) + "\n" for row in [columns, *earlier]))
        flags = dict(model=golden / "sentence_transformers/mean_normalized", data=tmp_path, text="unused",
                     output_dir=tmp_path, configurations="teacher,plain", seeds="1,2", num_lines=128)
        assert run(**flags) == 0
        first = table.read_text()
        assert run(**flags) == 0 and table.read_text() == first
    *plain, teacher = csv.DictReader(open(table))
    assert [[row[column] for column in columns] for row in plain] == [[str(each) for each in row] for row in earlier]
    assert (teacher["configuration"], teacher["seed"], teacher["start_spearman"]) == ("teacher", "", "")
    assert abs(float(teacher["spearman"])) <= 1 and 0 <= float(teacher["recall@1"]) <= 1

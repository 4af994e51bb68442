"""Beam's workers write the vectors and scores of the local engine, in shards, in the order of the lines."""

import gzip
import json
import re

import numpy as np
import pytest
from in_process import loaded

pytest.importorskip("apache_beam")

from albert_tf.beam import prediction
from albert_tf.config import AlbertConfig
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.weights.hugging_face.writing import save_hugging_face

LINES = [f"the name of the file {'and a word ' * (i % 7)}" if i % 5 else "" for i in range(60)] + ["the", "last"]


@pytest.fixture(scope="module")
def model(tmp_path_factory, golden, sentence_pieces):
    """A tiny model in a Hugging Face folder."""
    folder = tmp_path_factory.mktemp("model")
    config = AlbertConfig(vocab_size=sentence_pieces.vocab_size, embedding_size=8, hidden_size=16, num_hidden_layers=1,
                          num_attention_heads=2, intermediate_size=16, max_position_embeddings=128)
    save_hugging_face(AlbertPretrainer(config), str(folder / "hf"))
    return dict(init_checkpoint=folder / "hf", spm_model_file=golden / "tiny_spm/tiny.model")


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.setattr(prediction, "LINES_PER_BLOCK", 4)
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def run(script, model, **flags):
    with loaded(script) as main:
        return main(**model, num_workers=1, **flags)


def shards(tmp_path, ending, count=3):
    return [tmp_path / f"beam-{shard:05d}-of-{count:05d}{ending}" for shard in range(count)]


@pytest.mark.parametrize("per_token, pooling", [(False, None), (False, "mean"), (True, None)])
def test_shards_one_after_the_other_are_the_vectors_of_the_local_engine(model, text, tmp_path, per_token, pooling):
    flags = dict(model, input_file=text, per_token=per_token, batch_size=4, pooling=pooling,
                 normalize=bool(pooling) or None)
    assert run("extract_embeddings", flags, output_file=tmp_path / "local.npy") == 0
    assert run("extract_embeddings", flags, output_file=tmp_path / "beam.npy", engine="beam", num_shards=3) == 0
    made = [np.load(path) for path in shards(tmp_path, ".npy")]
    assert min(map(len, made)) > 0
    np.testing.assert_allclose(np.concatenate(made), np.load(tmp_path / "local.npy"), atol=1e-5)
    if pooling:
        np.testing.assert_allclose(np.linalg.norm(np.concatenate(made), axis=1), 1, atol=1e-5)
    assert all(path.exists() for path in shards(tmp_path, ".npy.manifest.json"))
    if per_token:
        ids = [np.load(path) for path in shards(tmp_path, ".input_ids.npy")]
        np.testing.assert_array_equal(np.concatenate(ids), np.load(tmp_path / "local.input_ids.npy"))
        lengths = [np.diff(np.load(path)) for path in shards(tmp_path, ".row_splits.npy")]
        np.testing.assert_array_equal(np.concatenate(lengths), np.diff(np.load(tmp_path / "local.row_splits.npy")))
    assert not list(tmp_path.glob(".*"))


def test_the_files_to_check_are_those_of_the_shards(model, text, tmp_path, capsys):
    flags = dict(model, input_file=text, output_file=tmp_path / "beam.npy", engine="beam", num_shards=2)
    (tmp_path / "beam.npy").write_text("precious")
    (tmp_path / "beam.json").write_text("precious")
    assert run("extract_embeddings", flags) == 0
    assert run("score_sentences", dict(flags, output_file=tmp_path / "beam.json")) == 0
    for path in shards(tmp_path, ".npy.manifest.json", 2):
        path.unlink()
    for path in shards(tmp_path, ".npy", 2):
        path.unlink()
    (tmp_path / "beam-00001-of-00002.row_splits.npy").write_text("precious")
    assert run("extract_embeddings", flags, per_token=True) == 1
    assert "beam-00001-of-00002.row_splits.npy exists, and no" in capsys.readouterr().err
    assert all(path.read_text() == "precious" for path in (
        tmp_path / "beam.npy", tmp_path / "beam.json", tmp_path / "beam-00001-of-00002.row_splits.npy"))


def test_scores_are_those_of_the_local_engine(model, text, tmp_path):
    compressed = tmp_path / "more.txt.gz"
    compressed.write_bytes(gzip.compress(text.read_bytes()))
    assert run("score_sentences", model, input_file=text, output_file=tmp_path / "local.json") == 0
    assert run("score_sentences", model, input_file=f"{text},{compressed}", output_file=tmp_path / "beam.json",
               engine="beam", num_shards=3) == 0
    scores = [score for path in shards(tmp_path, ".json") for score in json.loads(path.read_text())["scores"]]
    expected = json.loads((tmp_path / "local.json").read_text())["scores"]
    np.testing.assert_allclose(scores, expected + expected, atol=1e-4)


@pytest.mark.parametrize("content, message", [
    (b"", "there are no lines in .*lines.txt"),
    (b"fine\nnot \xff fine\n", "lines.txt line 2: not UTF-8"),
    (b"fine\n" * 5 + b"a " * 200 + b"\n", "lines.txt, line 6: .* exceed the model's 128 positions"),
])
def test_a_mistake_in_the_text_is_one_line_and_leaves_nothing(model, text, tmp_path, capsys, content, message):
    text.write_bytes(content)
    assert run("score_sentences", model, input_file=text, output_file=tmp_path / "x.json", engine="beam") == 1
    assert re.search(message, capsys.readouterr().err.splitlines()[-1])
    assert [path.name for path in tmp_path.iterdir()] == ["lines.txt"]


def test_a_block_that_a_runner_loses_is_an_error(model, text, tmp_path, capsys, monkeypatch):
    read, lost = prediction.ReadLines.process, []

    def losing(self, element):
        for output in read(self, element):
            if lost:
                yield output
            lost.append(output)

    monkeypatch.setattr(prediction.ReadLines, "process", losing)
    assert run("extract_embeddings", model, input_file=text, output_file=tmp_path / "x.npy", engine="beam") == 1
    assert "the runner lost or repeated elements" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["lines.txt"]


@pytest.mark.parametrize("flags, message", [
    (dict(num_shards=2), "--num_shards needs --engine=beam"),
    (dict(engine="beam", output_file=None), "--engine=beam needs --input_file and --output_file"),
    (dict(engine="beam", num_shards=10_000),
     f"must be at most {sum(len(line) + 1 for line in LINES)}, the number of parts into which the text can be divided. "
     "Received: 10000"),
])
def test_flags_that_do_not_fit_are_refused(model, text, tmp_path, capsys, flags, message):
    flags = dict(dict(input_file=text, output_file=tmp_path / "x.json"), **flags)
    assert run("score_sentences", model, **flags) == 1
    assert message in capsys.readouterr().err

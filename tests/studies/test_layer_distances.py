"""layer_distances: the function on known values, and the script on two models."""

import csv

import numpy as np
import pytest
import tensorflow as tf
from in_process import loaded

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.weights.settings import VocabularyFiles

CONFIG = AlbertConfig(vocab_size=2000, embedding_size=8, hidden_size=16, num_hidden_layers=3, num_attention_heads=2,
                      intermediate_size=16, max_position_embeddings=64)


LONGER = "another and longer line of the text"


class Stub:
    """A model of two layers whose states are known: [1, 0] -> [0, 1] -> [0, 3], and padding that would be far away."""

    class encoder:
        projected = staticmethod(tf.identity)  # E = H

    def __call__(self, inputs):
        padding = [100.0, -7.0]
        states = [tf.constant([[[1.0, 0.0], padding]]), tf.constant([[[0.0, 1.0], [5.0, 5.0]]]),
                  tf.constant([[[0.0, 3.0], padding]])]
        return dict(embedding_output=states[0], encoder_outputs=states[1:])


@pytest.fixture(scope="module")
def layer_distances():
    with loaded("studies/layer_distances.py") as run:
        return run.names["layer_distances"]


def test_distances_and_angles_of_known_vectors(layer_distances):
    measures = layer_distances(Stub(), dict(input_mask=tf.constant([[1, 0]])))
    np.testing.assert_allclose(measures["distances"], [[np.sqrt(2), 2.0]], rtol=1e-6)
    np.testing.assert_allclose(measures["angles"], [[90.0, 0.0]], atol=1e-4)


@pytest.fixture(scope="module")
def models(golden, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    vocabulary = VocabularyFiles(str(golden / "tiny_spm/tiny.model"), None, True)
    for sharing in ("all", "none"):
        save(AlbertPretrainer(CONFIG.replace(cross_layer_sharing=sharing)), str(folder / sharing), "ours", vocabulary)
    (folder / "lines.txt").write_text(f"a line\n\n{LONGER}\n")
    (folder / "empty.txt").write_text("\n\n")
    return folder


def means_over_tokens(layer_distances, path, lines):
    """The distances and angles of each layer, [layers, 2], of the lines one by one, weighted by numbers of tokens."""
    model, tokenizer = albert_tf.from_pretrained(str(path)), albert_tf.tokenizer_from_pretrained(str(path))
    texts = [tokenizer([line]) for line in lines]
    lengths = [text["input_ids"].shape[1] for text in texts]
    assert lengths[0] < lengths[1]
    measures = [np.stack([layer_distances(model, text)[name][0] for name in ("distances", "angles")], axis=1)
                for text in texts]
    return np.average(measures, axis=0, weights=lengths)


def test_the_script_writes_a_row_for_each_layer_and_a_curve_for_each_model(models, layer_distances, tmp_path, capsys):
    with loaded("studies/layer_distances.py") as run:
        assert run(init_checkpoint=models / "all", compare_with=[models / "none"], input_file=models / "lines.txt",
                   output_dir=tmp_path / "out") == 0
        rows = list(csv.DictReader((tmp_path / "out/layer_distances.csv").open()))
        assert [(row["model"], row["layer"]) for row in rows] == [(model, layer) for model in ("all", "none")
                                                                 for layer in "123"]
        expected = np.concatenate([means_over_tokens(layer_distances, models / name, ["a line", LONGER])
                                   for name in ("all", "none")])
        np.testing.assert_allclose([[float(row["distance"]), float(row["angle"])] for row in rows], expected, rtol=1e-4)
        assert (tmp_path / "out/layer_distances.svg").read_text().count("_line_") == 4
        assert "all" in capsys.readouterr().out
        assert run(init_checkpoint=models / "all", input_file=models / "lines.txt", batch_size=1,
                   output_dir=tmp_path / "one_by_one") == 0
    one_by_one = list(csv.DictReader((tmp_path / "one_by_one/layer_distances.csv").open()))
    np.testing.assert_allclose([float(row["distance"]) for row in one_by_one],
                               [float(row["distance"]) for row in rows[:3]], rtol=1e-5)


def test_two_checkpoints_of_the_same_name_are_two_models(models, tmp_path):
    paths = [str(models / sharing / "model.ckpt-best") for sharing in ("all", "none")]
    with loaded("studies/layer_distances.py") as run:
        assert run(init_checkpoint=paths[0], compare_with=paths[1:], input_file=models / "lines.txt",
                   output_dir=tmp_path) == 0
    rows = list(csv.DictReader((tmp_path / "layer_distances.csv").open()))
    assert [row["model"] for row in rows] == [path for path in paths for _ in range(3)]
    assert (tmp_path / "layer_distances.svg").read_text().count("_line_") == 4


def test_a_text_without_lines_is_refused(models, tmp_path, capsys):
    with loaded("studies/layer_distances.py") as run:
        assert run(init_checkpoint=models / "all", input_file=models / "empty.txt", output_dir=tmp_path) == 1
    assert "empty.txt has no lines" in capsys.readouterr().err

"""layer_distances: known values, and the program on two models."""

import csv

import numpy as np
import tensorflow as tf
from in_process import loaded


class Stub:
    """A model of two layers whose states are known: [1, 0] -> [0, 1] -> [0, 3]."""

    class encoder:
        projected = staticmethod(tf.identity)  # E = H

    def __call__(self, inputs):
        states = [tf.constant([[state]]) for state in ([1.0, 0.0], [0.0, 1.0], [0.0, 3.0])]
        return dict(embedding_output=states[0], encoder_outputs=states[1:])


def test_distances_and_angles_of_known_vectors_and_a_row_for_each_layer(golden, tmp_path):
    (tmp_path / "lines.txt").write_text("a line\n\nanother and longer line of the text\n")
    (tmp_path / "empty.txt").write_text("\n\n")
    with loaded("studies/layer_distances.py") as run:
        values = run.names["layer_distances"](Stub(), {})[:, 0]
        np.testing.assert_allclose(values, [[np.sqrt(2), 90.0], [2.0, 0.0]], atol=1e-4)
        model = golden / "sentence_transformers/mean_normalized"
        flags = dict(model=[model, "albert_tiny_en"], output_dir=tmp_path)
        assert run(input_file=tmp_path / "lines.txt", **flags) == 0
        assert run(input_file=tmp_path / "empty.txt", **flags) == 1
    rows = list(csv.DictReader(open(tmp_path / "layer_distances.csv")))
    assert [row["layer"] for row in rows if row["model"] == "albert_tiny_en"] == ["1", "2", "3", "4"]
    assert all(float(row["distance"]) > 0 and 0 < float(row["angle"]) < 180 for row in rows)
    assert (tmp_path / "layer_distances.svg").read_text().count("_line_") == 4

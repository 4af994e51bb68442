"""Measures distance and angle between each layer's input and output (figure 1).

    python -m studies.layer_distances --model=albert_base_v2 --model=uncased_L-12_H-768_A-12 --input_file=lines.txt \\
        --output_dir=distances

prints the L2 distance and the angle in degrees between the input and the output of each layer, averaged over all tokens
of the text, and writes them to layer_distances.csv and layer_distances.svg. In the paper, both change more smoothly
from layer to layer with shared layers than without.
"""

from __future__ import annotations

import itertools
import math
import os

import numpy as np
import tensorflow as tf
from absl import flags

import albert_tf
from albert_tf.commands import app
from albert_tf.data.rows import read_texts
from albert_tf.modeling.albert_model import hidden_states
from albert_tf.utils.charts import Curve, Panel, write_charts
from albert_tf.utils.files import make_directory
from albert_tf.utils.outputs import write_csv

flags.DEFINE_multi_string("model", None, "Weights of a model, with its vocabulary, in any format. May be repeated.",
                          required=True)
flags.DEFINE_string("input_file", None, "Path of a UTF-8 text file, one text per line.", required=True)
flags.DEFINE_string("output_dir", None, "Directory of the results.", required=True)
flags.DEFINE_integer("max_seq_length", 512, "Largest number of tokens of a line.", lower_bound=3)
FLAGS = flags.FLAGS


def main() -> None:
    lines = [line for line in read_texts(FLAGS.input_file, None) if line.strip()]
    if not lines:
        raise ValueError(f"{FLAGS.input_file} has no lines")
    rows = [(path, layer, *values) for path in FLAGS.model for layer, values in enumerate(means(path, lines), start=1)]
    for path, layer, distance, angle in rows:
        print(f"{path:<32}{layer:>6}{distance:>13.2f}{angle:>8.1f}")
    make_directory(FLAGS.output_dir)
    write_csv(os.path.join(FLAGS.output_dir, "layer_distances.csv"), [("model", "layer", "distance", "angle"), *rows])
    write_charts(os.path.join(FLAGS.output_dir, "layer_distances.svg"), [
        Panel(title, [Curve([(row[1], row[column]) for row in rows if row[0] == path], path) for path in FLAGS.model],
              "layer") for title, column in (("L2 distance", 2), ("angle, degrees", 3))])


def means(path: str, lines: list[str]) -> list[list[float]]:
    """The mean distance and angle, over all tokens of all lines, of each layer."""
    model, tokenizer = albert_tf.from_pretrained(path), albert_tf.tokenizer_from_pretrained(path)
    length, sums, tokens = min(FLAGS.max_seq_length, model.config.max_position_embeddings), 0.0, 0
    for line in lines:
        inputs = tokenizer([line], max_seq_length=length)
        sums += layer_distances(model, inputs).sum(axis=1)
        tokens += inputs["input_ids"].shape[1]
    return (sums / tokens).tolist()


def layer_distances(model: albert_tf.AlbertModel, inputs: dict) -> np.ndarray:
    """The L2 distance and the angle in degrees of each token of a text without padding: [layers, seq, 2]."""
    states = [tf.cast(state[0], tf.float32) for state in hidden_states(model, model(inputs))]  # [seq, H] each
    return np.array([np.stack([tf.norm(b - a, axis=-1), _angle(a, b)], axis=-1) for a, b in itertools.pairwise(states)])


def _angle(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """From the tangent of half the angle, since the arc cosine is inexact near 0."""
    a, b = tf.math.l2_normalize(a, axis=-1), tf.math.l2_normalize(b, axis=-1)
    return 2 * tf.atan2(tf.norm(a - b, axis=-1), tf.norm(a + b, axis=-1)) * (180 / math.pi)


if __name__ == "__main__":
    app.run(main)

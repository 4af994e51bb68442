"""Measures distance and angle between each layer's input and output (figure 1).

    python -m studies.layer_distances --init_checkpoint=albert_base_v2 --input_file=lines.txt \\
        --output_dir=distances --compare_with=uncased_L-12_H-768_A-12

prints the L2 distance and the angle in degrees between the input and the output of each layer, averaged over all tokens
of the text, and writes them to layer_distances.csv and layer_distances.svg. In the paper, both
change more smoothly from layer to layer with shared layers than without.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os

import numpy as np
import tensorflow as tf
from absl import logging

import albert_tf
from albert_tf.commands import app, flag_fields as fields, shared_flags as shared
from albert_tf.data.rows import read_texts
from albert_tf.modeling.albert_model import hidden_states
from albert_tf.tasks.sentence_vectors.vectors import batches_by_length, padded_inputs, token_ids
from albert_tf.utils import bounds
from albert_tf.utils.charts import Curve, Panel, write_charts
from albert_tf.utils.files import check_directory, make_directory
from albert_tf.utils.outputs import write_csv
from albert_tf.utils.progress import count_of
from albert_tf.weights.heads import check_vocabulary


@dataclasses.dataclass(frozen=True)
class Options(shared.SourceFlags):
    """The flags of this program."""

    input_file: str = fields.required("Path of a UTF-8 text file, one text per line.")
    output_dir: str = fields.required("Directory of layer_distances.csv and layer_distances.svg.")
    compare_with: list[str] = fields.strings(
        [], "Weights of another model, with its vocabulary, in any format that --init_checkpoint accepts. Repeat the "
        "flag for several models.")
    max_seq_length: int = fields.integer(
        512, "Largest number of tokens of a line; longer lines are truncated.", bounds.SEQ_LENGTH.at_least(3))
    batch_size: int = fields.integer(32, "Number of lines in a batch.", bounds.BATCH_SIZE)


fields.define_fields(Options)


@dataclasses.dataclass(frozen=True)
class Row:
    """The mean distance and angle, over all tokens, of one layer of one model."""

    model: str
    layer: int
    distance: float
    angle: float


def main() -> None:
    options = fields.from_flags(Options)
    check_directory(options.output_dir)
    lines = [line for line in read_texts(options.input_file, None) if line.strip()]
    if not lines:
        raise ValueError(f"{options.input_file} has no lines")
    selected = options.resolve_model()
    tokenizer, model = selected.vocabulary.tokenizer(), selected.pretrained("encoder")
    name, *other_names = names_of([options.init_path, *options.compare_with])
    rows = rows_of(name, model, tokenizer, lines, options.max_seq_length, options.batch_size)
    for other_name, path in zip(other_names, options.compare_with):
        tokenizer, model = albert_tf.tokenizer_from_pretrained(path), albert_tf.from_pretrained(path)
        rows += rows_of(other_name, model, tokenizer, lines, options.max_seq_length, options.batch_size)
    make_directory(options.output_dir)
    write_results(options.output_dir, rows)
    print(table(rows))


def names_of(paths: list[str]) -> list[str]:
    """A name for each model: the last part of its path, or the whole path if another one has the same last part."""
    names = [os.path.basename(os.path.normpath(path)) for path in paths]
    return [path if names.count(name) > 1 else name for name, path in zip(names, paths)]


def rows_of(name: str, model, tokenizer, lines: list[str], max_seq_length: int, batch_size: int) -> list[Row]:
    check_vocabulary(tokenizer, model.config)
    texts = token_ids(tokenizer, lines, min(max_seq_length, model.config.max_position_embeddings))
    sums, tokens = 0.0, sum(map(len, texts))
    for _, ids in batches_by_length(texts, batch_size):
        measures = layer_distances(model, padded_inputs(ids))
        lengths = ids.row_lengths().numpy().astype(np.float64)
        sums += np.stack([lengths @ measures[name].numpy() for name in ("distances", "angles")], axis=1)  # [layers, 2]
    logging.info("%s: %s", name, count_of(int(tokens), "token"))
    return [Row(name, layer, *map(float, values)) for layer, values in enumerate(sums / tokens, start=1)]


def layer_distances(model: albert_tf.AlbertModel, inputs: dict) -> dict[str, tf.Tensor]:
    """The L2 distance and the angle between the input and the output of each layer, averaged over a text's tokens.

    Args:
      model: the encoder.
      inputs: input_ids, input_mask and segment_ids, int32 [batch, seq]. Padding does not count in the means.

    Returns:
      distances, and angles in degrees: float32 [batch, layers] each. Each inner group counts as a layer.
    """
    states = [tf.cast(state, tf.float32) for state in hidden_states(model, model(inputs))]  # [batch, seq, H] each
    weights = tf.cast(inputs["input_mask"], tf.float32)  # [batch, seq]
    weights /= tf.reduce_sum(weights, axis=1, keepdims=True)
    pairs = list(itertools.pairwise(states))
    return {name: tf.stack([tf.reduce_sum(measure(a, b) * weights, axis=1) for a, b in pairs], axis=1)
            for name, measure in (("distances", _distance), ("angles", _angle))}


def _distance(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.norm(b - a, axis=-1)


def _angle(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """The angle in degrees, from the tangent of half the angle, since the arc cosine is inexact near 0."""
    a, b = tf.math.l2_normalize(a, axis=-1), tf.math.l2_normalize(b, axis=-1)
    return 2 * tf.atan2(tf.norm(a - b, axis=-1), tf.norm(a + b, axis=-1)) * (180 / math.pi)


def table(rows: list[Row]) -> str:
    lines = [f"{'model':<32}{'layer':>6}{'L2 distance':>13}{'angle':>8}"]
    lines += [f"{row.model:<32}{row.layer:>6}{row.distance:>13.2f}{row.angle:>8.1f}" for row in rows]
    return "\n".join(lines)


def write_results(directory: str, rows: list[Row]) -> None:
    """Writes layer_distances.csv (one row per layer) and layer_distances.svg (one curve per model)."""
    write_csv(os.path.join(directory, "layer_distances.csv"),
              [[field.name for field in dataclasses.fields(Row)], *map(dataclasses.astuple, rows)])
    models = dict.fromkeys(row.model for row in rows)
    panels = [Panel(title, [Curve([(row.layer, getattr(row, field)) for row in rows if row.model == model], model)
                            for model in models], "layer")
              for title, field in (("L2 distance", "distance"), ("angle, degrees", "angle"))]
    write_charts(os.path.join(directory, "layer_distances.svg"), panels)


if __name__ == "__main__":
    app.run(main)

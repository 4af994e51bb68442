"""What int8 costs where a layer is repeated: answers that are the same as in float32, by number of layers.

    python -m benchmarks.int8_depth --text_file=novels_dev.txt --output_dir=out

The shared layer of --init_checkpoint is repeated. The masked-LM head fills one mask in each line of the text: the share
of lines with the same first piece as in float32, and the error of the encoder's vectors (root mean square, divided by
their standard deviation). The models are not trained at these depths, so only the comparison counts. The values are
written to int8_depth.csv.
"""

from __future__ import annotations

import os
import random

import numpy as np
from absl import flags

from albert_tf import from_pretrained, tokenizer_from_pretrained
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.tasks.masked_lm import MASK, masked_ids
from albert_tf.text.lines import read_lines
from albert_tf.utils.outputs import write_csv
from benchmarks import common_flags
from benchmarks.processor import run

flags.DEFINE_string("init_checkpoint", "albert_tiny_en", "Weights with a masked-LM head.")
flags.DEFINE_multi_integer("layers", [4, 6, 9, 12, 15, 18, 21, 24], "Numbers of layers. May be repeated.")
flags.DEFINE_string("text_file", None, "Path of a text with one sentence on each line.", required=True)
flags.DEFINE_integer("lines", 1000, "Number of lines.", lower_bound=1)
common_flags.define_output_dir()
FLAGS = flags.FLAGS


def main():
    stored, tokenizer = (read(FLAGS.init_checkpoint) for read in (
        lambda path: from_pretrained(path, model="pretrainer"), tokenizer_from_pretrained))
    inputs, rows = masked_lines(tokenizer), []
    for layers in FLAGS.layers:
        model = AlbertPretrainer(stored.config.replace(num_hidden_layers=layers))
        model.set_weights(stored.get_weights())
        logits, vectors = outputs(to_onnx(model), inputs)
        of_int8, vectors_of_int8 = outputs(to_onnx(model, "int8"), inputs)
        same = float(np.mean(of_int8.argmax(1) == logits.argmax(1)))
        error = float(np.sqrt(np.mean(np.square(vectors_of_int8 - vectors))) / np.std(vectors))
        rows.append((layers, round(same, 4), round(error, 4)))
        print(*rows[-1], sep=", ", flush=True)
    write_csv(os.path.join(FLAGS.output_dir, "int8_depth.csv"), [("layers", "same_piece", "error_of_vectors"), *rows])


def masked_lines(tokenizer) -> list[dict[str, np.ndarray]]:
    """The inputs of the first lines of 5 to 40 words, each with one word masked."""
    generator, found = random.Random(1), []
    for words in map(str.split, read_lines(FLAGS.text_file)):
        if 5 <= len(words) <= 40 and len(found) < FLAGS.lines:
            words[generator.randrange(len(words))] = MASK
            ids = masked_ids(tokenizer, " ".join(words))
            row = np.array([ids], np.int32)
            found.append(dict(input_ids=row, input_mask=np.ones_like(row), segment_ids=np.zeros_like(row),
                              masked_lm_positions=np.array([[ids.index(tokenizer.mask_id)]], np.int32)))
    return found


def outputs(content: bytes, inputs: list[dict[str, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The logits of each line's mask, [lines, vocab], and the vectors of all tokens, [tokens, H]."""
    session = OnnxModel(content, threads=1)
    session.output_names = ("mlm_logits", "sequence_output")
    found = [session(row) for row in inputs]
    return (np.concatenate([each["mlm_logits"][0, :1] for each in found]),
            np.concatenate([each["sequence_output"][0] for each in found]))


if __name__ == "__main__":
    run(main)

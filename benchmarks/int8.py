"""What int8 costs: scores and changed answers of a fine-tuned model, and agreement of a shared layer by depth.

    python -m benchmarks.int8 --init_checkpoint=sst-2 --task_name=sst-2 --data_dir=glue
    python -m benchmarks.int8 --depth --text_file=novels_dev.txt

The first compares, on the task's dev set, files in which different weights are int8 with the file in float32: the
score, the share of examples with another label, the error of the logits (root mean square, divided by their standard
deviation), the size, and the median CPU time of one example on one thread.

The second repeats the shared layer of --init_checkpoint 6, 12, 18 and 24 times, and compares the masked-LM head's first
piece for a masked word in each line of the text. The models are not trained at their depth: only the comparison counts.
--chart is an SVG file with the shares of lines with the same piece.
"""

from __future__ import annotations

import collections
import random
import time
from typing import Callable, Iterable, Iterator

import numpy as np
from absl import flags

from albert_tf import from_pretrained, tokenizer_from_pretrained
from albert_tf.commands import app
from albert_tf.export.onnx.session import OnnxModel
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.tasks.classification import metrics
from albert_tf.tasks.classification.data import find_task, read_examples
from albert_tf.tasks.masked_lm.fill_mask import MASK, masked_ids, softmax
from albert_tf.text.lines import read_lines
from albert_tf.utils.charts import Curve, Panel, write_charts
from albert_tf.weights.settings import settings_of
from benchmarks.processor import naming_processor

flags.DEFINE_string("init_checkpoint", "albert_tiny_en", "A fine-tuned classifier, or with --depth any weights with a "
                    "masked-LM head.")
flags.DEFINE_string("task_name", None, "Name of the GLUE task of the classifier.")
flags.DEFINE_string("data_dir", None, "Folder that has a folder for each GLUE task.")
flags.DEFINE_bool("depth", False, "Whether to measure by depth instead.")
flags.DEFINE_multi_integer("layers", [6, 12, 18, 24], "Numbers of layers for --depth. May be repeated.")
flags.DEFINE_string("text_file", None, "Path of a text with one sentence on each line, for --depth.")
flags.DEFINE_string("chart", None, "Path of an SVG file, for --depth. Default: none.")
flags.DEFINE_integer("examples", 1000, "Number of examples or lines.", lower_bound=1)
FLAGS = flags.FLAGS

# The weights that are float32 besides biases, LayerNorms and the last layer, by the name of the variant.
VARIANTS = {
    "int8": "", "pooler float32": "pooler", "embeddings float32": "embeddings", "attention float32": "attention_",
    "ffn float32": "ffn_", "ffn output float32": "ffn_.*/output", "ffn intermediate float32": "ffn_.*/intermediate"}
DEPTH_VARIANTS = ("int8", "attention float32", "ffn float32", "ffn output float32", "embeddings float32")


def main():
    if FLAGS.depth:
        by_depth()
    else:
        by_weights()


def by_weights() -> None:
    """Scores of a classifier with different weights in int8."""
    model = from_pretrained(FLAGS.init_checkpoint, model="classifier")
    tokenizer = tokenizer_from_pretrained(FLAGS.init_checkpoint)
    task = find_task(FLAGS.task_name)
    examples = read_examples(task, FLAGS.data_dir, "dev")[: FLAGS.examples]
    label_ids = np.array([task.label_id(example.label) for example in examples])
    rows = [tokenizer([example.text_a], [example.text_b or ""], max_seq_length=model.row_length)
            for example in examples]
    expected = None
    print(f"{'':28}{'MB':>7}{task.metrics[0]:>15}{'other labels':>14}{'error':>8}{'ms':>8}")
    for name, content in variants(model, VARIANTS):
        logits, milliseconds = run(OnnxModel(content, settings_of(model), threads=1), rows)
        expected = logits if expected is None else expected
        score = metrics.evaluate(task, logits if task.is_regression else softmax(logits), label_ids)
        changed = "" if task.is_regression else f"{np.mean(logits.argmax(1) != expected.argmax(1)):.4f}"
        print(f"{name:28}{len(content) / 1e6:7.1f}{score[task.metrics[0]]:15.4f}{changed:>14}"
              f"{relative_error(logits, expected):8.4f}{milliseconds:8.2f}", flush=True)


def variants(model, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The content of the float32 file, and those with int8 weights, by name."""
    yield "float32", to_onnx(model)
    for name in names:
        yield name, to_onnx(model, "int8", VARIANTS[name])


def run(model: Callable, rows: list[dict]) -> tuple[np.ndarray, float]:
    """The logits [examples, labels], and the median milliseconds of CPU time of an example."""
    logits, seconds = [], []
    for row in rows:
        start = time.process_time()
        logits.append(model(row)["logits"])
        seconds.append(time.process_time() - start)
    return np.concatenate(logits), 1000 * float(np.median(seconds))


def by_depth() -> None:
    """Agreement of int8 with float32 where the shared layer is repeated."""
    stored = from_pretrained(FLAGS.init_checkpoint, model="pretrainer")
    tokenizer = tokenizer_from_pretrained(FLAGS.init_checkpoint)
    generator, ids = random.Random(1), []
    for line in read_lines(FLAGS.text_file):
        words = line.split()
        if 5 <= len(words) <= 40:
            words[generator.randrange(len(words))] = MASK
            ids.append(masked_ids(tokenizer, " ".join(words)))
        if len(ids) == FLAGS.examples:
            break
    print(f"{'layers':>6}  {'':22}{'same piece':>12}{'error of vectors':>18}{'error of logits':>17}")
    points: dict[str, list[tuple[float, float]]] = collections.defaultdict(list)
    for layers in FLAGS.layers:
        model = AlbertPretrainer(stored.config.replace(num_hidden_layers=layers))
        model.set_weights(stored.get_weights())
        encoder, expected = None, None
        for name, content in variants(model, DEPTH_VARIANTS):
            session = OnnxModel(content, threads=1)
            session.output_names = ("mlm_logits", "sequence_output")
            outputs = [session(inputs_of(row, tokenizer.mask_id)) for row in ids]
            logits = np.concatenate([each["mlm_logits"][0, :1] for each in outputs])
            vectors = np.concatenate([each["sequence_output"][0] for each in outputs])
            if expected is None:
                encoder, expected = vectors, logits
                continue
            same = float(np.mean(logits.argmax(1) == expected.argmax(1)))
            points[name].append((layers, same))
            print(f"{layers:6}  {name:22}{same:12.3f}{relative_error(vectors, encoder):18.4f}"
                  f"{relative_error(logits, expected):17.4f}", flush=True)
    if FLAGS.chart:
        write_charts(FLAGS.chart, [Panel("lines with the same piece as in float32",
                                         [Curve(values, name) for name, values in points.items()], "layers")])


def inputs_of(ids: list[int], mask_id: int) -> dict[str, np.ndarray]:
    row = np.array([ids], np.int32)
    return dict(input_ids=row, input_mask=np.ones_like(row), segment_ids=np.zeros_like(row),
                masked_lm_positions=np.array([[ids.index(mask_id)]], np.int32))


def relative_error(values: np.ndarray, expected: np.ndarray) -> float:
    """The root mean square of the difference, divided by the standard deviation of the expected values."""
    return float(np.sqrt(np.mean(np.square(values - expected))) / np.std(expected))


if __name__ == "__main__":
    app.run(naming_processor(main))

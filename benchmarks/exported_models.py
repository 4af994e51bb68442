"""A fine-tuned classifier in every exported form: size, score on the dev set, latency of one sentence.

    python -m benchmarks.exported_models --init_checkpoint=model --task_name=sst-2 --data_dir=glue \
        --peer_python=/path/to/environment/bin/python

The environment needs torch and transformers. Latency: ids in, logits out, the dev set's sentences one at a time, all
programs in turns with two threads each (--cpu_time: one), the median. A TensorFlow Lite model takes inputs of
--max_seq_length tokens and the sentence is padded to it; all others take the sentence as it is.
"""

import functools
import json
import os
import tempfile
from typing import NamedTuple

import numpy as np
from absl import flags

from albert_tf import from_pretrained, save_pretrained, tokenizer_from_pretrained
from albert_tf.commands import app
from albert_tf.export import PRECISIONS, tflite
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.export.saved_model import TextSignature, export_model, sequence_features
from albert_tf.modeling.configured_model import ENCODER_INPUTS
from albert_tf.tasks.classification import metrics as glue_metrics
from albert_tf.tasks.classification.data import convert_examples_to_features, find_task, read_examples
from albert_tf.tasks.classification.task_config import TaskData
from albert_tf.tasks.masked_lm.fill_mask import softmax
from albert_tf.text.graph.packing import pack_texts
from albert_tf.utils import bounds
from benchmarks import common_flags
from benchmarks.alternation import Worker, latencies, output_of
from benchmarks.processor import naming_processor
from benchmarks.workers.exported_model import runner

flags.DEFINE_string("init_checkpoint", None, "Checkpoint of a fine-tuned classifier, or its folder.", required=True)
flags.DEFINE_string("task_name", None, "Name of the GLUE task that the classifier was fine-tuned on.", required=True)
flags.DEFINE_string("data_dir", None, "Folder that has a folder for each GLUE task.", required=True)
common_flags.define_peer_python()
flags.DEFINE_integer("max_seq_length", 64, "Maximum number of tokens of a sentence.", *bounds.SEQ_LENGTH)
flags.DEFINE_integer("examples", 10_000, "Maximum number of examples of the dev set.", lower_bound=1)
common_flags.define_turns()
common_flags.define_cpu_time()
FLAGS = flags.FLAGS


class Form(NamedTuple):
    """One form of the model.

    Args:
      name: the name in the table.
      kind: the name in benchmarks.workers.exported_model; None for Hugging Face's folder.
      path: path of the file or folder.
    """

    name: str
    kind: str | None
    path: str


def main():
    task = find_task(FLAGS.task_name)
    with tempfile.TemporaryDirectory() as folder:
        rows, label_ids = dev_rows(task)
        sentences = os.path.join(folder, "sentences.json")
        with open(sentences, "w", encoding="utf-8") as file:
            json.dump(rows, file)
        forms = export(folder)
        medians = latencies({form.name: functools.partial(worker_of, form, sentences) for form in forms}, FLAGS.turns)
        print(f"{'':24}{'MB':>8}{task.metrics[0]:>16}{'ms':>8}")
        for form, seconds in zip(forms, medians.values()):
            score = f"{evaluate(task, logits(form, rows, sentences), label_ids):.4f}"
            print(f"{form.name:24}{size(form.path) / 1e6:8.1f}{score:>16}{1000 * seconds:8.2f}", flush=True)


def dev_rows(task: TaskData) -> tuple[list[dict], np.ndarray]:
    """The inputs of the dev set without padding, and the labels."""
    examples = read_examples(task, FLAGS.data_dir, "dev")[: FLAGS.examples]
    tokenizer = tokenizer_from_pretrained(FLAGS.init_checkpoint)
    features = list(convert_examples_to_features(examples, task, tokenizer, FLAGS.max_seq_length, pad=False))
    rows = [{name: list(map(int, row[name])) for name in ENCODER_INPUTS} for row in features]
    return rows, np.array([row["label_id"] for row in features])


def export(folder: str) -> list[Form]:
    model = from_pretrained(FLAGS.init_checkpoint, model="classifier")
    tokenizer = tokenizer_from_pretrained(FLAGS.init_checkpoint)
    forms = [Form("SavedModel float32", "saved_model", os.path.join(folder, "saved_model"))]
    export_model(forms[0].path, model, tokenizer, sequence_features(FLAGS.max_seq_length), model.head_outputs,
                 TextSignature(dict(text_a=[None]),
                               lambda graph, text_a: pack_texts(graph, FLAGS.max_seq_length, text_a)))
    contents = {("ONNX", "onnx", precision): to_onnx(model, precision) for precision in PRECISIONS}
    contents |= {("TensorFlow Lite", "tflite", precision): tflite.convert(model, precision, FLAGS.max_seq_length)
                 for precision in PRECISIONS}
    for (name, kind, precision), content in contents.items():
        forms.append(Form(f"{name} {precision}", kind, os.path.join(folder, f"{precision}.{kind}")))
        with open(forms[-1].path, "wb") as file:
            file.write(content)
    forms.append(Form("transformers float32", None, os.path.join(folder, "hugging_face")))
    save_pretrained(model, forms[-1].path, tokenizer, to="hugging_face")
    return forms


def logits(form: Form, rows: list[dict], sentences: str) -> np.ndarray:
    """The logits [examples, labels] of the dev set.

    Args:
      form: the form of the model.
      rows: the inputs of each example.
      sentences: path of the file that has the same, for transformers.
    """
    if form.kind:
        run = runner(form.kind, form.path)
        return np.concatenate([run({name: np.array([values], np.int32) for name, values in row.items()})
                               for row in rows])
    path = f"{form.path}.npy"
    output_of([FLAGS.peer_python, "-m", "benchmarks.workers.exported_model_hugging_face", form.path, sentences, path],
              OMP_NUM_THREADS="1")
    return np.load(path)


def evaluate(task: TaskData, logits: np.ndarray, label_ids: np.ndarray) -> float:
    """The value of the task's first metric."""
    scores = logits if task.is_regression else softmax(logits)
    return glue_metrics.evaluate(task, scores, label_ids)[task.metrics[0]]


def worker_of(form: Form, sentences: str) -> Worker:
    if form.kind:
        return Worker("exported_model", form.kind, form.path, sentences, cpu_time=FLAGS.cpu_time)
    return Worker("exported_model_hugging_face", form.path, sentences, python=FLAGS.peer_python,
                  cpu_time=FLAGS.cpu_time)


def size(path: str) -> int:
    """The number of bytes of a file, or of all files of a folder."""
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names] or [path]
    return sum(map(os.path.getsize, paths))


if __name__ == "__main__":
    app.run(naming_processor(main))

"""Filling masks from raw text: our SavedModel and ONNX models, and Hugging Face's fill-mask pipeline, albert_base.

    python -m benchmarks.serving --peer_python=/path/to/environment/bin/python --spm_model_file=30k-clean.model \
        --text_file=novels.txt

The environment needs torch and transformers. All programs use two threads (--cpu_time: one), random weights, and the
same sentences with one word masked in each. Latency is the median time of one sentence; the programs take turns.
Throughput is measured on all sentences: ours in batches of similar length, the pipeline with batches of 1 and of the
same size as ours, of which the faster is reported. In float32, the ONNX models in float32 and int8 take part in the
latency.
"""

import functools
import json
import os
import random
import tempfile

from absl import flags

from albert_tf.config import AlbertConfig
from albert_tf.export.onnx.writing import to_onnx, write_companions
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.tasks.masked_lm import export_mask_filling
from albert_tf.text.lines import read_lines
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.weights.vocabulary import VocabularyFiles
from benchmarks import common_flags
from benchmarks.alternation import Worker, latencies
from benchmarks.computing import set_precision
from benchmarks.processor import run

common_flags.define_peer_python()
flags.DEFINE_string("spm_model_file", None, "Path of a SentencePiece model with 30,000 pieces.", required=True)
flags.DEFINE_string("text_file", None, "Path of a text with one sentence on each line.", required=True)
common_flags.define_precisions()
flags.DEFINE_integer("sentences", 1000, "Number of sentences for the throughput.", lower_bound=1)
common_flags.define_turns()
common_flags.define_cpu_time()
flags.DEFINE_bool("throughput", True, "Whether to measure the throughput too.")
FLAGS = flags.FLAGS

ONNX_PRECISIONS = ("float32", "int8")
PEER = "hugging_face_pipeline"


def main():
    with tempfile.TemporaryDirectory() as folder:
        sentences, masked = os.path.join(folder, "sentences.json"), masked_sentences()
        with open(sentences, "w", encoding="utf-8") as file:
            json.dump(masked, file)
        for precision in FLAGS.precision:
            served = os.path.join(folder, precision)
            export(served, precision)
            peer = FLAGS.spm_model_file, sentences, precision
            worker = functools.partial(Worker, cpu_time=FLAGS.cpu_time)
            programs = {"Hugging Face": functools.partial(worker, PEER, *peer, "one", python=FLAGS.peer_python),
                        "SavedModel": functools.partial(worker, "mask_filling", "saved_model", served, sentences,
                                                        "one")}
            if precision == "float32":
                programs.update({f"ONNX {each}": functools.partial(
                    worker, "mask_filling", "onnx", os.path.join(f"{served}_onnx", f"{each}.onnx"), sentences, "one")
                    for each in ONNX_PRECISIONS})
            medians = latencies(programs, FLAGS.turns)
            theirs = medians.pop("Hugging Face")
            for name, ours in medians.items():
                print(f"one sentence, {precision}: {name} {1000 * ours:.1f} ms, Hugging Face {1000 * theirs:.1f} ms, "
                      f"ratio {ours / theirs:.2f}", flush=True)
            if not FLAGS.throughput:
                continue
            ours = len(masked) / seconds_of(Worker("mask_filling", "saved_model", served, sentences, "many"))
            theirs = max(len(masked) / seconds_of(Worker(PEER, *peer, what, python=FLAGS.peer_python))
                         for what in ("many", "many_together"))
            print(f"{len(masked)} sentences, {precision}: ours {ours:.1f} a second, Hugging Face {theirs:.1f}, "
                  f"ratio {ours / theirs:.2f}", flush=True)


def masked_sentences() -> list[str]:
    """Sentences from random places of the text, with one word masked in each."""
    lines = [line.split() for line in read_lines(FLAGS.text_file) if 3 <= len(line.split()) <= 200]
    generator = random.Random(1)
    sentences = generator.sample(lines, min(FLAGS.sentences, len(lines)))
    for words in sentences:
        words[generator.randrange(len(words))] = "[MASK]"
    return [" ".join(words) for words in sentences]


def export(folder: str, precision: str) -> None:
    set_precision(precision)
    model = AlbertPretrainer(AlbertConfig.preset("albert_base_v2"))
    tokenizer = FullTokenizer(spm_model_file=FLAGS.spm_model_file)
    export_mask_filling(folder, model, tokenizer)
    if precision == "float32":
        write_companions(model, f"{folder}_onnx", VocabularyFiles.from_tokenizer(tokenizer))
        for each in ONNX_PRECISIONS:
            with open(os.path.join(f"{folder}_onnx", f"{each}.onnx"), "wb") as file:
                file.write(to_onnx(model, each))


def seconds_of(worker: Worker) -> float:
    try:
        return worker.seconds(1)
    finally:
        worker.stop()


if __name__ == "__main__":
    run(main)

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
from benchmarks import common
from benchmarks.alternation import Worker, latencies

common.define_peer_python()
flags.DEFINE_string("spm_model_file", None, "Path of a SentencePiece model with 30,000 pieces.", required=True)
flags.DEFINE_string("text_file", None, "Path of a text with one sentence on each line.", required=True)
common.define_precisions()
flags.DEFINE_integer("sentences", 1000, "Number of sentences for the throughput.", lower_bound=1)
flags.DEFINE_integer("turns", 100, "Number of single sentences for the latency of each program.", lower_bound=1)
common.define_cpu_time()
flags.DEFINE_bool("throughput", True, "Whether to measure the throughput too.")
FLAGS = flags.FLAGS

ONNX_PRECISIONS = ("float32", "int8")


def main():
    with tempfile.TemporaryDirectory() as folder:
        sentences, masked = os.path.join(folder, "sentences.json"), masked_sentences()
        with open(sentences, "w", encoding="utf-8") as file:
            json.dump(masked, file)
        for precision in FLAGS.precision:
            served = os.path.join(folder, precision)
            export(served, precision)

            def ours(kind, path, what, sentences=sentences):
                return Worker("mask_filling", kind, path, sentences, what, cpu_time=FLAGS.cpu_time)

            def peer(what, sentences=sentences, precision=precision):
                return Worker("mask_filling", "pipeline", FLAGS.spm_model_file, sentences, what, precision,
                              python=FLAGS.peer_python, cpu_time=FLAGS.cpu_time)

            programs = {"Hugging Face": lambda: peer("one"), "SavedModel": lambda: ours("saved_model", served, "one")}
            if precision == "float32":
                programs.update({f"ONNX {each}": functools.partial(
                    ours, "onnx", os.path.join(f"{served}_onnx", f"{each}.onnx"), "one") for each in ONNX_PRECISIONS})
            medians = latencies(programs, FLAGS.turns)
            theirs = medians.pop("Hugging Face")
            for name, seconds in medians.items():
                print(f"one sentence, {precision}: {name} {1000 * seconds:.1f} ms, Hugging Face "
                      f"{1000 * theirs:.1f} ms, ratio {seconds / theirs:.2f}", flush=True)
            if FLAGS.throughput:
                together = latencies(dict(ours=lambda: ours("saved_model", served, "many"), one=lambda: peer("many"),
                                          batches=lambda: peer("many_together")), rounds=1)
                mine, theirs = (len(masked) / seconds for seconds in (
                    together.pop("ours"), min(together.values())))
                print(f"{len(masked)} sentences, {precision}: ours {mine:.1f} a second, Hugging Face {theirs:.1f}, "
                      f"ratio {mine / theirs:.2f}", flush=True)


def masked_sentences() -> list[str]:
    """Sentences from random places of the text, with one word masked in each."""
    lines = [line.split() for line in read_lines(FLAGS.text_file) if 3 <= len(line.split()) <= 200]
    generator = random.Random(1)
    sentences = generator.sample(lines, min(FLAGS.sentences, len(lines)))
    for words in sentences:
        words[generator.randrange(len(words))] = "[MASK]"
    return [" ".join(words) for words in sentences]


def export(folder: str, precision: str) -> None:
    common.set_precision(precision)
    model = AlbertPretrainer(AlbertConfig.preset("albert_base_v2"))
    tokenizer = FullTokenizer(spm_model_file=FLAGS.spm_model_file)
    export_mask_filling(folder, model, tokenizer)
    if precision == "float32":
        write_companions(model, f"{folder}_onnx", VocabularyFiles.from_tokenizer(tokenizer))
        for each in ONNX_PRECISIONS:
            with open(os.path.join(f"{folder}_onnx", f"{each}.onnx"), "wb") as file:
                file.write(to_onnx(model, each))


if __name__ == "__main__":
    common.run(main)

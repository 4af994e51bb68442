"""`make demo`: from raw text to a SavedModel that fills masks, with the scripts that one would use oneself.

    python -m demo --output_dir=demo_output --corpus=my_text.txt

Without --corpus the text is the documentation that Python carries (demo/python_docs.py). Every command is shown
before it runs, so that it can be copied and changed.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time

from absl import flags

from albert_tf import cli
from albert_tf.files import write_text
from demo import python_docs
from demo.baselines import baselines

flags.DEFINE_string("output_dir", "demo_output", "Where everything goes.")
flags.DEFINE_string("corpus", "", "A text of one's own: a sentence a line, a blank line between documents.")
FLAGS = flags.FLAGS

VOCAB_SIZE, MAX_SEQ_LENGTH, MAX_PREDICTIONS, STEPS = 4000, 64, 10, 1600
CONFIG = dict(vocab_size=VOCAB_SIZE, embedding_size=64, hidden_size=128, num_hidden_layers=4, num_attention_heads=4,
              intermediate_size=512, max_position_embeddings=MAX_SEQ_LENGTH)
MASKED_SENTENCES = (
    "Return the [MASK] of the file.",
    "If the argument is not a [MASK], a TypeError is raised.",
    "The default [MASK] is None.",
)


def main() -> None:
    started = time.time()
    folder = FLAGS.output_dir
    train_text, dev_text = (os.path.join(folder, name) for name in ("train.txt", "dev.txt"))
    train_records, dev_records = (os.path.join(folder, name) for name in ("train.tfrecord", "dev.tfrecord"))
    vocabulary = os.path.join(folder, "vocabulary")
    model_dir, served = os.path.join(folder, "model"), os.path.join(folder, "served")
    config_file = os.path.join(folder, "albert_config.json")

    write_corpus(FLAGS.corpus, train_text, dev_text)
    write_text(config_file, json.dumps(CONFIG, indent=2) + "\n")

    run("train_vocabulary.py", input_file=train_text, model_prefix=vocabulary, vocab_size=VOCAB_SIZE)
    for text, records, dupe_factor in ((train_text, train_records, 5), (dev_text, dev_records, 1)):
        run("create_pretraining_data.py", input_file=text, output_file=records, spm_model_file=f"{vocabulary}.model",
            max_seq_length=MAX_SEQ_LENGTH, max_predictions_per_seq=MAX_PREDICTIONS, dupe_factor=dupe_factor)
    run("run_pretraining.py", albert_config_file=config_file, input_file=train_records, eval_input_file=dev_records,
        spm_model_file=f"{vocabulary}.model", output_dir=model_dir, do_train=True, do_eval=True,
        max_seq_length=MAX_SEQ_LENGTH, max_predictions_per_seq=MAX_PREDICTIONS, train_batch_size=64,
        num_train_steps=STEPS, num_warmup_steps=STEPS // 10, save_checkpoints_steps=STEPS // 4, learning_rate=0.005)
    report(model_dir, dev_records)
    run("fill_mask.py", init_checkpoint=model_dir, export_dir=served)
    run("demo/ask.py", saved_model=served, text=MASKED_SENTENCES)
    print(f"\nall of it in {(time.time() - started) / 60:.1f} minutes; it is in {folder}")


def run(script: str, **flag_values) -> None:
    """Shows a command and runs it in a process of its own; its failure ends the demo with the same status."""
    arguments = [f"--{name}={value}" for name, values in flag_values.items()
                 for value in (values if isinstance(values, tuple) else (values,))]
    print(f"\n$ python {script} {shlex.join(arguments)}", flush=True)
    status = subprocess.run([sys.executable, script, *arguments]).returncode
    if status:
        sys.exit(status)


def write_corpus(corpus: str, train_path: str, dev_path: str, dev_every: int = 10) -> None:
    """Splits a corpus by document: every tenth is for evaluation."""
    if corpus:
        with open(corpus, encoding="utf-8") as file:
            documents = [text.strip("\n").split("\n") for text in file.read().split("\n\n") if text.strip()]
    else:
        documents = list(python_docs.documents())
    if len(documents) < 2:
        raise ValueError(f"{corpus}: at least two documents, with a blank line between them, are needed; there is "
                         f"{len(documents)}")
    dev = documents[::dev_every]
    train = [document for i, document in enumerate(documents) if i % dev_every]
    for path, part in ((train_path, train), (dev_path, dev)):
        write_text(path, "\n\n".join("\n".join(document) for document in part) + "\n")
        print(f"{path}: {len(part):,} documents, {sum(map(len, part)):,} sentences")


def report(model_dir: str, dev_records: str) -> None:
    """Prints the accuracies beside those of guessing; a model that does not beat guessing is an error."""
    with open(os.path.join(model_dir, "eval_results.txt"), encoding="utf-8") as file:
        results = dict(line.strip().split(" = ") for line in file)
    guessing = baselines(dev_records, MAX_SEQ_LENGTH, MAX_PREDICTIONS)
    print(f"\n{'':<24}{'ALBERT':>8}{'guessing':>10}   guessing means")
    for name, meaning in (("masked_lm_accuracy", "always the most frequent piece"),
                          ("sentence_order_accuracy", "always the more frequent order")):
        print(f"{name:<24}{float(results[name]):>8.3f}{guessing[name]:>10.3f}   {meaning}")
    if any(float(results[name]) <= value for name, value in guessing.items()):
        raise ValueError("the model is no better than guessing")


if __name__ == "__main__":
    cli.run(main)

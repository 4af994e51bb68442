"""`make demo`: uses, trains further and fine-tunes a small pre-trained ALBERT with the scripts of this repository.

    python -m demo --output_dir=demo_output --corpus=my_text.txt

Without --corpus the text is Python's own documentation (demo/python_docs.py). Every command is printed before it runs,
so that it can be copied and changed. Trainings show a progress bar, or where there is no terminal a line every 30
seconds.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from typing import Sequence

from absl import flags

from albert_tf.commands import app
from albert_tf.commands.command_runs import arguments, run_script
from albert_tf.data.feature_table import digest, fingerprint
from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import write_text
from albert_tf.utils.progress import count_of
from albert_tf.weights.stored_model import shipped_model
from demo import python_docs, word_order_task
from demo.baselines import baselines

flags.DEFINE_string("output_dir", "demo_output", "Folder of all outputs.")
flags.DEFINE_string("corpus", "", "Path of a text to train on: one sentence on each line, a blank line between "
                    "documents. Default: Python's own documentation.")
flags.DEFINE_bool("do_lower_case", True, "Whether the new vocabulary is lower-cased.")
flags.DEFINE_bool("keep_accents", False, "Whether the new vocabulary keeps accents.")
FLAGS = flags.FLAGS

MODEL = "albert_tiny_en"
RECORDS = dict(max_seq_length=64, max_predictions_per_seq=10)
# Of random weights, which stayed at chance with all rates that were tried.
RANDOM_LEARNING_RATE = 1e-3
WARNINGS_ONLY = dict(verbosity=-1)
# The progress bar of a terminal is shown whatever the verbosity is; the lines that replace it are not.
WITH_PROGRESS = WARNINGS_ONLY if sys.stderr.isatty() else {}
NOVEL_SENTENCES = (
    "The old man shook his [MASK].",
    "She opened the [MASK] and went out.",
    "He wrote a long [MASK] to his mother.",
)
# The answer is in the first sentence, about 80 tokens before the mask.
PARAGRAPH = (
    "Mary had a garden behind the house, with an old wall around it. She loved the garden, and worked there every "
    "morning. In the spring she planted roses along the wall. Her father was a man of business, who rose early, took "
    "his breakfast alone, and drove to town before the children were awake. In the evening he came home tired, and did "
    "not speak to anybody. So the years passed, and nothing was changed. "
)
LAST_SENTENCE = "When we came to see her in June we found her sitting in the [MASK]."
DOCUMENTATION_SENTENCES = (
    "Return the [MASK] of the file.",
    "If the argument is not a [MASK], a TypeError is raised.",
    "The default [MASK] is None.",
)


def main() -> None:
    started, folder = time.time(), FLAGS.output_dir
    print("The demo has five parts, which take about 8 minutes on two cores.", flush=True)
    train, dev = split_corpus(FLAGS.corpus)  # a wrong file is found before anything runs
    vocabulary = os.path.join(shipped_model(MODEL), "spiece.model")
    questions = masked_sentences(dev) if FLAGS.corpus else DOCUMENTATION_SENTENCES
    heading(f"1. {MODEL} was pre-trained on novels. It fills masks:")
    fill_masks(MODEL, (*NOVEL_SENTENCES, *questions))
    print("\nA sentence alone, and behind a paragraph that has the answer:", flush=True)
    fill_masks(MODEL, (LAST_SENTENCE, PARAGRAPH + LAST_SENTENCE))

    heading("2. Its pre-training continues on other text, for 500 steps (about 3 minutes):")
    train_text, dev_text = write_corpus(train, dev, folder)
    train_records, dev_records = (write_records(text, vocabulary) for text in (train_text, dev_text))
    models = models_folder(folder, train_text, dev_text)
    continued = os.path.join(models, "continued")
    before = evaluate(MODEL, dev_records, os.path.join(folder, "before"))
    after = pretrain(train_records, dev_records, continued, init_checkpoint=MODEL, learning_rate=3e-4, steps=500)
    report_pretraining(before, after, dev_records)
    fill_masks(continued, questions)

    heading("3. Fine-tuned, with and without pre-training, for 1,000 steps each (about 3 minutes):\n"
            "   were two neighbouring words of a sentence swapped?")
    task = word_order_task.write_task(train_text, dev_text, os.path.join(folder, "word_order"))
    fine_tuned = os.path.join(models, "fine_tuned")
    report_classification(fine_tune(task, fine_tuned, learning_rate=3e-4, init_checkpoint=continued),
                          fine_tune(task, os.path.join(models, "not_pretrained"), RANDOM_LEARNING_RATE,
                                    albert_config_file=MODEL, spm_model_file=vocabulary))

    heading("4. From raw text to a vocabulary and the first 100 steps of a new model (about a minute):")
    own_vocabulary = os.path.join(folder, "vocabulary")
    run_script("train_vocabulary", input_file=train_text, model_prefix=own_vocabulary, vocab_size=4000,
               do_lower_case=FLAGS.do_lower_case, keep_accents=FLAGS.keep_accents, **WITH_PROGRESS)
    own_records = write_records(train_text, f"{own_vocabulary}.model", suffix=".own")
    own_dev_records = write_records(dev_text, f"{own_vocabulary}.model", suffix=".own")
    first = pretrain(own_records, own_dev_records, os.path.join(models, "own"), albert_config_file=MODEL,
                     spm_model_file=f"{own_vocabulary}.model", learning_rate=1e-3, steps=100)
    print(f"masked-LM accuracy after 100 steps: {first['masked_lm_accuracy']:.3f} (docs/pretraining.md says more)")

    heading("5. Served: the SavedModel takes raw text, and needs only TensorFlow and tensorflow-text:")
    served = os.path.join(folder, "served")
    run_script("fill_mask", init_checkpoint=continued, export_dir=served, **WARNINGS_ONLY)
    ask(served, questions)
    print(f"\nfinished in {(time.time() - started) / 60:.1f} minutes; all files are in {folder}")
    print(f"Try its models on a page in your browser: {page_command(continued, fine_tuned)}")


def ask(saved_model: str, questions: Sequence[str]) -> None:
    """Prints and runs `python -m demo.ask`."""
    command = ["-m", "demo.ask", *arguments(dict(saved_model=saved_model, text=questions))]
    print(f"\n$ python {shlex.join(command)}", flush=True)
    subprocess.run([sys.executable, *command], check=True)


def page_command(*models: str) -> str:
    """The command that serves models on a web page. It has the path of this Python, which has all packages."""
    python = os.path.relpath(sys.executable)
    return shlex.join([python, "-m", "albert_tf", "serve", *arguments(dict(init_checkpoint=models))])


def heading(text: str) -> None:
    print(f"\n\n{text}", flush=True)


def fill_masks(model: str, texts: tuple[str, ...]) -> None:
    run_script("fill_mask", init_checkpoint=model, top_k=4, text=texts, **WARNINGS_ONLY)


def write_records(text: str, vocabulary: str, suffix: str = "") -> str:
    """Writes the pre-training records of a text, and returns their path."""
    records = f"{os.path.splitext(text)[0]}{suffix}.tfrecord"
    run_script("create_pretraining_data", input_file=text, output_file=records, spm_model_file=vocabulary, ngram=1,
               dupe_factor=2, **RECORDS, **WITH_PROGRESS)
    return records


def evaluate(model: str, records: str, output_dir: str) -> dict[str, float]:
    """The results of a model on records."""
    run_script("run_pretraining", init_checkpoint=model, eval_input_file=records, do_train=False, do_eval=True,
               max_eval_steps=0, output_dir=output_dir, **RECORDS, **WITH_PROGRESS)
    return read_json_object(os.path.join(output_dir, "eval_results.json"))


def pretrain(
    train_records: str, dev_records: str, output_dir: str, steps: int, learning_rate: float, **weights
) -> dict[str, float]:
    """Pre-trains, and returns the last results."""
    run_script("run_pretraining", input_file=train_records, eval_input_file=dev_records, do_eval=True, max_eval_steps=0,
               output_dir=output_dir, num_train_steps=steps, num_warmup_steps=steps // 10, learning_rate=learning_rate,
               save_checkpoints_steps=steps, train_batch_size=32, optimizer="adamw", dynamic_masking=True,
               precision="mixed_bfloat16", **weights, **RECORDS, **WITH_PROGRESS)
    return read_json_object(os.path.join(output_dir, "eval_results.json"))


def fine_tune(task: str, output_dir: str, learning_rate: float, **weights) -> float:
    """Fine-tunes a model on a task, and returns its accuracy."""
    run_script("run_classifier", task_config=task, data_dir=os.path.dirname(task), output_dir=output_dir, do_train=True,
               do_eval=True, max_seq_length=64, train_batch_size=32, learning_rate=learning_rate,
               train_step=1000, warmup_step=100, save_checkpoints_steps=1000, precision="mixed_bfloat16", **weights,
               **WITH_PROGRESS)
    return read_json_object(os.path.join(output_dir, "eval_results.json"))["eval_accuracy"]


def split_corpus(corpus: str, dev_every: int = 10) -> tuple[list[list[str]], list[list[str]]]:
    """The documents to train on and those to evaluate on (every tenth), as lists of sentences.

    Raises:
      ValueError: the corpus has fewer than two documents.
      OSError: it cannot be read.
    """
    if corpus:
        with open(corpus, encoding="utf-8") as file:
            documents = [text.strip("\n").split("\n") for text in file.read().split("\n\n") if text.strip()]
    else:
        documents = list(python_docs.documents())
    if len(documents) < 2:
        raise ValueError(f"{corpus} must have at least two documents, with a blank line between them. "
                         f"Received: {len(documents)}")
    return [document for i, document in enumerate(documents) if i % dev_every], documents[::dev_every]


def write_corpus(train: list[list[str]], dev: list[list[str]], folder: str) -> tuple[str, str]:
    """Writes the documents of both parts, and returns the paths of the files."""
    paths = os.path.join(folder, "train.txt"), os.path.join(folder, "dev.txt")
    for path, part in zip(paths, (train, dev)):
        write_text(path, "\n\n".join("\n".join(document) for document in part) + "\n")
        print(f"{path}: {count_of(len(part), 'document')}, {count_of(sum(map(len, part)), 'sentence')}")
    return paths


def masked_sentences(documents: list[list[str]], count: int = 3) -> tuple[str, ...]:
    """The first short sentences of documents, each with its longest word masked; without any, a sentence of novels.

    Only short sentences are taken, since they are also read on a screen.
    """
    masked = []
    for sentence in (sentence for document in documents for sentence in document):
        words = re.findall(r"\w+", sentence)
        if 4 <= len(words) <= 15 and len(sentence) <= 100:
            masked.append(re.sub(rf"\b{max(words, key=len)}\b", "[MASK]", sentence, count=1))
    return tuple(masked[:count]) or NOVEL_SENTENCES[:1]


def models_folder(folder: str, *texts: str) -> str:
    """The folder of the models of these texts. Other texts have another one, since finished runs are not repeated."""
    return os.path.join(folder, f"models_{digest(''.join(map(fingerprint, texts)).encode())[:8]}")


def report_pretraining(before: dict, after: dict, dev_records: str) -> None:
    """Prints accuracies on held-out pages, with those of guessing. Raises ValueError if training made them worse."""
    guessing = baselines(dev_records, **RECORDS)
    print(f"\n{'on held-out pages':<26}{'before':>8}{'after':>8}{'guessing':>10}")
    for name in ("masked_lm_accuracy", "sentence_order_accuracy"):
        print(f"{name:<26}{before[name]:>8.3f}{after[name]:>8.3f}{guessing[name]:>10.3f}")
    if after["masked_lm_accuracy"] <= before["masked_lm_accuracy"]:
        raise ValueError("the model has learned nothing from the text")


def report_classification(pretrained: float, not_pretrained: float) -> None:
    print(f"\n{'':<10}{'pre-trained':>12}{'not pre-trained':>17}{'guessing':>10}")
    print(f"{'accuracy':<10}{pretrained:>12.3f}{not_pretrained:>17.3f}{0.5:>10.3f}")


if __name__ == "__main__":
    app.run(main)

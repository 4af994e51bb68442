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
from albert_tf.commands.command_runs import arguments, process_of, run_script
from albert_tf.data.feature_table import digest, fingerprint
from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import write_text
from albert_tf.utils.processes import LAUNCHER
from albert_tf.utils.progress import count_of
from albert_tf.weights.runs import stored_history
from albert_tf.weights.stored_model import shipped_model
from demo import page, python_docs, word_order_task
from demo.baselines import baselines

flags.DEFINE_string("output_dir", "demo_output", "Folder of all outputs.")
flags.DEFINE_string("corpus", "", "Path of a text to train on: one sentence on each line, a blank line between "
                    "documents. Default: Python's own documentation.")
FLAGS = flags.FLAGS

MODEL = "albert_tiny_en"
PRETRAINING_STEPS, FINE_TUNING_STEPS = 200, 400
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
    print("The demo has four parts, which take about five minutes on two cores.", flush=True)
    train, dev = split_corpus(FLAGS.corpus)  # a wrong file is found before anything runs
    vocabulary = os.path.join(shipped_model(MODEL), "spiece.model")
    questions = masked_sentences(dev) if FLAGS.corpus else DOCUMENTATION_SENTENCES
    heading(f"1. {MODEL} was pre-trained on novels. It fills masks:")
    first = fill_masks(MODEL, (*NOVEL_SENTENCES, *questions))
    print("\nA sentence alone, and behind a paragraph that has the answer:", flush=True)
    fill_masks(MODEL, (LAST_SENTENCE, PARAGRAPH + LAST_SENTENCE))

    heading(f"2. Its pre-training continues on other text, for {PRETRAINING_STEPS} steps (about 2 minutes):")
    train_text, dev_text = write_corpus(train, dev, folder)
    train_records, dev_records = (write_records(text, vocabulary) for text in (train_text, dev_text))
    models = models_folder(folder, train_text, dev_text)
    continued = os.path.join(models, "continued")
    scores = pretrain(train_records, dev_records, continued)
    second = fill_masks(continued, questions)

    heading(f"3. Fine-tuned, with and without pre-training, for {FINE_TUNING_STEPS} steps each (about 2 minutes):\n"
            "   were two neighbouring words of a sentence swapped?")
    task = word_order_task.write_task(train_text, dev_text, os.path.join(folder, "word_order"))
    fine_tuned, not_pretrained = (os.path.join(models, name) for name in ("fine_tuned", "not_pretrained"))
    accuracies = (fine_tune(task, fine_tuned, learning_rate=3e-4, init_checkpoint=continued),
                  fine_tune(task, not_pretrained, RANDOM_LEARNING_RATE, albert_config_file=MODEL,
                            spm_model_file=vocabulary))
    report_classification(*accuracies)

    heading("4. Served: the SavedModel takes raw text, and needs only TensorFlow and tensorflow-text:")
    served = os.path.join(folder, "served")
    run_script("fill_mask", init_checkpoint=continued, export_dir=served, **WARNINGS_ONLY)
    ask(served, questions)
    report = page.write(folder, {"before": first, f"after {PRETRAINING_STEPS} steps": second}, scores, accuracies,
                        continued, fine_tuned)
    print(f"\nfinished in {(time.time() - started) / 60:.1f} minutes; all files are in {folder}")
    print(f"Try its models in your browser: {page_command(continued, fine_tuned)}")
    print(f"Look at what it made: {report}")


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


def fill_masks(model: str, texts: tuple[str, ...]) -> str:
    """Prints and runs a command that fills masks, and returns what it printed."""
    flag_values = arguments(dict(init_checkpoint=model, top_k=4, text=texts, **WARNINGS_ONLY))
    print(f"\n$ {LAUNCHER} fill_mask {shlex.join(flag_values)}", flush=True)
    printed = subprocess.run(process_of("fill_mask", flag_values), check=True, stdout=subprocess.PIPE, text=True).stdout
    print(printed, end="", flush=True)
    return printed


def write_records(text: str, vocabulary: str) -> str:
    """Writes the pre-training records of a text, and returns their path."""
    records = f"{os.path.splitext(text)[0]}.tfrecord"
    run_script("create_pretraining_data", input_file=text, output_file=records, spm_model_file=vocabulary, ngram=1,
               dupe_factor=2, **RECORDS, **WITH_PROGRESS)
    return records


def pretrain(train_records: str, dev_records: str, output_dir: str) -> dict[str, tuple[float, float, float]]:
    """Pre-trains MODEL further. Returns each accuracy on held-out pages: before, after, and by guessing.

    Raises ValueError if training made them worse.
    """
    steps = PRETRAINING_STEPS
    run_script("run_pretraining", input_file=train_records, eval_input_file=dev_records, do_eval=True, max_eval_steps=0,
               output_dir=output_dir, num_train_steps=steps, num_warmup_steps=steps // 10, learning_rate=3e-4,
               save_checkpoints_steps=steps // 2, train_batch_size=32, optimizer="adamw", dynamic_masking=True,
               precision="mixed_bfloat16", init_checkpoint=MODEL, **RECORDS, **WITH_PROGRESS)
    history = [rows for _, rows in stored_history(output_dir)]
    before, after, guessing = history[0], history[-1], baselines(dev_records, **RECORDS)
    names = ("masked_lm_accuracy", "sentence_order_accuracy")
    print(f"\n{'on held-out pages':<26}{'before':>8}{'after':>8}{'guessing':>10}")
    for name in names:
        print(f"{name:<26}{before[name]:>8.3f}{after[name]:>8.3f}{guessing[name]:>10.3f}")
    if after["masked_lm_accuracy"] <= before["masked_lm_accuracy"]:
        raise ValueError("the model has learned nothing from the text")
    return {name: (before[name], after[name], guessing[name]) for name in names}


def fine_tune(task: str, output_dir: str, learning_rate: float, **weights) -> float:
    """Fine-tunes a model on a task, labels the dev set, and returns the accuracy."""
    run_script("run_classifier", task_config=task, data_dir=os.path.dirname(task), output_dir=output_dir, do_train=True,
               do_eval=True, do_predict=True, predict_split="dev", max_seq_length=64, train_batch_size=32,
               learning_rate=learning_rate, train_step=FINE_TUNING_STEPS, warmup_step=FINE_TUNING_STEPS // 10,
               save_checkpoints_steps=FINE_TUNING_STEPS // 2, precision="mixed_bfloat16", **weights, **WITH_PROGRESS)
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


def report_classification(pretrained: float, not_pretrained: float) -> None:
    print(f"\n{'':<10}{'pre-trained':>12}{'not pre-trained':>17}{'guessing':>10}")
    print(f"{'accuracy':<10}{pretrained:>12.3f}{not_pretrained:>17.3f}{0.5:>10.3f}")


if __name__ == "__main__":
    app.run(main)

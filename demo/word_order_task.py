"""A classification task from any text: whether two neighbouring words of a sentence were swapped."""

from __future__ import annotations

import json
import os
import random

from albert_tf.utils.outputs import write_text
from albert_tf.utils.progress import count_of

LABELS = ["original", "swapped"]
_MIN_WORDS, _MAX_WORDS = 6, 25


def write_task(train_text: str, dev_text: str, folder: str) -> str:
    """Writes train.tsv, dev.tsv and the task's config, and returns the config's path.

    Args:
      train_text, dev_text: files with one sentence a line.
      folder: the folder of the files.
    """
    files = {}
    for split, text in (("train", train_text), ("dev", dev_text)):
        with open(text, encoding="utf-8") as file:
            rows = examples(file.read().splitlines())
        write_text(os.path.join(folder, f"{split}.tsv"), "".join(f"{label}\t{sentence}\n" for label, sentence in rows))
        files[split] = f"{split}.tsv"
        print(f"{folder}/{split}.tsv: {count_of(len(rows), 'sentence')}")
    config = dict(name="word_order", files=files, has_header=False, labels=LABELS, columns=dict(label=0, text_a=1))
    path = os.path.join(folder, "task.json")
    write_text(path, json.dumps(config, indent=2) + "\n")
    return path


def examples(lines: list[str]) -> list[tuple[str, str]]:
    """(label, sentence) of each different line of 6 to 25 words, shuffled. Every second one has two words swapped."""
    rng = random.Random(0)
    sentences = [line for line in dict.fromkeys(lines) if _MIN_WORDS <= len(line.split()) <= _MAX_WORDS]
    rows = []
    for i, sentence in enumerate(sentences):
        words = sentence.replace("\t", " ").split()
        first = rng.randrange(len(words) - 1)
        if i % 2 and words[first] != words[first + 1]:
            words[first], words[first + 1] = words[first + 1], words[first]
            rows.append(("swapped", " ".join(words)))
        else:
            rows.append(("original", " ".join(words)))
    rng.shuffle(rows)
    return rows

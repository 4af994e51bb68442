"""Hugging Face's fine-tuning, as its run_glue.py, run_qa.py and run_ner.py do it, with our settings.

    python -m benchmarks.workers.fine_tuning_hugging_face '{"task": "sts-b", "model": "minilm", ...}'

The argument is a JSON object with task, model (a folder), train and dev (files), seed, steps, warmup, batch,
learning_rate, length, bfloat16 and output. AdamW with weight decay on all but biases and LayerNorms, linear warm-up and
decay, clipping at 1.0, batches padded to their longest. output gets answers by example: a class, a number, a text, or
the tags of its words; if it is null, there are no predictions, and dev is not read.
"""

import csv
import itertools
import json
import os
import random
import sys

import torch
import transformers

from benchmarks.workers.fine_tuning_squad_hugging_face import Squad, chunks

GLUE_COLUMNS = {"sst-2": ("sentence", None, "label"), "sts-b": ("sentence1", "sentence2", "score"),
                "rte": ("sentence1", "sentence2", "label")}
RTE_LABELS = ("entailment", "not_entailment")


def main():
    options = json.loads(sys.argv[1])
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    transformers.set_seed(options["seed"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(options["model"])
    task = kind_of(options["task"])(options, tokenizer)
    train(task, options)
    if options["output"] is None:
        return
    with open(options["output"], "w", encoding="utf-8") as file:
        json.dump(task.answers(), file)


def kind_of(task):
    kinds = {"squad-1.1": Squad, "wnut17": Tagging, "ud_ewt": Tagging}
    return kinds.get(task, Glue)


def train(task, options):
    model, examples = task.model.train(), task.training_examples()
    plain = [p for name, p in model.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
    decayed = [p for name, p in model.named_parameters() if not (name.endswith("bias") or "LayerNorm" in name)]
    optimizer = torch.optim.AdamW([dict(params=decayed, weight_decay=0.01), dict(params=plain, weight_decay=0.0)],
                                  lr=options["learning_rate"], eps=1e-6)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, options["warmup"], options["steps"])
    order: list[int] = []
    rng = random.Random(options["seed"])
    for _ in range(options["steps"]):
        if len(order) < options["batch"]:
            order += rng.sample(range(len(examples)), len(examples))
        rows, order = [examples[i] for i in order[: options["batch"]]], order[options["batch"] :]
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=options["bfloat16"]):
            loss = model(**task.batch(rows)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()


class Glue:
    """Classification, and regression for sts-b."""

    def __init__(self, options, tokenizer):
        self._options, self._tokenizer = options, tokenizer
        labels = 1 if options["task"] == "sts-b" else 2
        self.model = transformers.AutoModelForSequenceClassification.from_pretrained(options["model"],
                                                                                     num_labels=labels)

    def training_examples(self):
        return self._read(self._options["train"])

    def _read(self, path):
        first, second, label = GLUE_COLUMNS[self._options["task"]]
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        found = []
        for row in rows:
            texts = [row[first]] + ([row[second]] if second else [])
            encoded = self._tokenizer(*texts, truncation=True, max_length=self._options["length"])
            value = RTE_LABELS.index(row[label]) if self._options["task"] == "rte" else float(row[label])
            found.append(dict(encoded, labels=value if self._options["task"] == "sts-b" else int(value)))
        return found

    def batch(self, rows):
        return self._tokenizer.pad(rows, return_tensors="pt")

    def answers(self):
        self.model.eval()
        found = []
        for rows in chunks(self._read(self._options["dev"]), 32):
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=self._options["bfloat16"]):
                logits = self.model(**self.batch(rows)).logits.float()
            found += (logits[:, 0] if logits.shape[1] == 1 else logits.argmax(1)).tolist()
        return found


class Tagging:
    """The tag of a word is that of its first piece; words behind the maximum length have none and count as "O"."""

    def __init__(self, options, tokenizer):
        self._options, self._tokenizer = options, tokenizer
        self._tags = sorted({tag for _, tags in read_tagged(options["train"]) for tag in tags})
        self.model = transformers.AutoModelForTokenClassification.from_pretrained(options["model"],
                                                                                  num_labels=len(self._tags))

    def training_examples(self):
        found = []
        for words, tags in read_tagged(self._options["train"]):
            encoded = self._encoded(words)
            labels = [-100] * len(encoded["input_ids"])
            for word, position in first_pieces(encoded):
                labels[position] = self._tags.index(tags[word])
            found.append(dict(encoded, labels=labels))
        return found

    def _encoded(self, words):
        return self._tokenizer(words, is_split_into_words=True, truncation=True, max_length=self._options["length"])

    def batch(self, rows):
        padded = self._tokenizer.pad([{name: row[name] for name in self._tokenizer.model_input_names} for row in rows],
                                     return_tensors="pt")
        length = padded["input_ids"].shape[1]
        labels = [row["labels"] + [-100] * (length - len(row["labels"])) for row in rows if "labels" in row]
        return dict(padded, labels=torch.tensor(labels)) if labels else dict(padded)

    def answers(self):
        self.model.eval()
        found = []
        for sentences in chunks(read_tagged(self._options["dev"]), 32):
            rows = [self._encoded(words) for words, _ in sentences]
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=self._options["bfloat16"]):
                best = self.model(**self.batch(rows)).logits.argmax(-1)
            for (words, _), row, labels in zip(sentences, rows, best.tolist()):
                tags = ["O"] * len(words)
                for word, position in first_pieces(row):
                    tags[word] = self._tags[labels[position]]
                found.append(tags)
        return found


def read_tagged(path):
    """(words, tags) of each sentence of a file with a word and its tag on each line, a blank line between sentences."""
    with open(path, encoding="utf-8") as file:
        rows = [line.split() for line in file]
    sentences = [list(group) for is_sentence, group in itertools.groupby(rows, bool) if is_sentence]
    return [([row[0] for row in sentence], [row[-1] for row in sentence]) for sentence in sentences]


def first_pieces(encoded):
    """(word, position) of the first piece of each word."""
    words = encoded.word_ids()
    return [(word, i) for i, word in enumerate(words) if word is not None and word not in words[:i]]


if __name__ == "__main__":
    main()

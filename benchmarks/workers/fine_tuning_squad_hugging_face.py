"""SQuAD 1.1 for benchmarks/workers/fine_tuning_hugging_face.py, as run_qa.py trains.

A task has the model, the examples and batches to train it on, and answers: {question id: text}. Unlike in our script, a
span may start in any of the windows that have it, not only where it has the most context.
"""

import collections
import json

import torch
import transformers

OVERLAP = 48  # number of tokens that two windows of a paragraph share
N_BEST = 20  # number of starts, and of ends, that are candidates
MAX_ANSWER = 30  # tokens


class Squad:
    """SQuAD 1.1: start and end are predicted independently."""

    def __init__(self, options, tokenizer):
        self._options, self._tokenizer = options, tokenizer
        self.model = transformers.AutoModelForQuestionAnswering.from_pretrained(options["model"])

    def training_examples(self):
        questions = read(self._options["train"])
        features, owners, offsets = self._windows(questions)
        found = []
        for row, owner in enumerate(owners):
            start, end = span(features.sequence_ids(row), offsets[row], *questions[owner][2:])
            found.append(dict(self._features(features, row), start_positions=start, end_positions=end))
        return found

    def _windows(self, questions):
        features = self._tokenizer([question for question, *_ in questions], [context for _, context, *_ in questions],
                                   truncation="only_second", max_length=self._options["length"], stride=OVERLAP,
                                   return_overflowing_tokens=True, return_offsets_mapping=True)
        return features, features["overflow_to_sample_mapping"], features["offset_mapping"]

    def _features(self, features, row):
        return {name: features[name][row] for name in ("input_ids", "attention_mask", "token_type_ids")}

    def batch(self, rows):
        return self._tokenizer.pad(rows, return_tensors="pt")

    def answers(self):
        self.model.eval()
        questions, ids = read(self._options["dev"]), question_ids(self._options["dev"])
        features, owners, offsets = self._windows(questions)
        candidates = collections.defaultdict(list)
        for rows in chunks(range(len(owners)), 16):
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=self._options["bfloat16"]):
                outputs = self.model(**self.batch([self._features(features, row) for row in rows]))
            for i, row in enumerate(rows):
                sequences, context = features.sequence_ids(row), questions[owners[row]][1]
                for score, start, end in self._scored_spans(outputs, i, len(sequences)):
                    if sequences[start] == 1 and sequences[end] == 1 and start <= end < start + MAX_ANSWER:
                        text = context[offsets[row][start][0] : offsets[row][end][1]]
                        candidates[owners[row]].append((score, text))
        return {qas_id: max(candidates[owner], default=(0.0, ""), key=lambda candidate: candidate[0])[1]
                for owner, qas_id in enumerate(ids)}

    def _scored_spans(self, outputs, i, length):
        """(score, start, end) of the candidates in row i of a batch, which has `length` tokens without padding."""
        (starts, ends), count = (outputs.start_logits[i], outputs.end_logits[i]), min(N_BEST, length)
        best_starts, best_ends = (logits[:length].float().topk(count) for logits in (starts, ends))
        return [(start_score + end_score, start, end)
                for start_score, start in zip(*map(torch.Tensor.tolist, best_starts))
                for end_score, end in zip(*map(torch.Tensor.tolist, best_ends))]


def read(path):
    """(question, context, start and end of the answer in characters) of each question; the end is exclusive."""
    with open(path, encoding="utf-8") as file:
        articles = json.load(file)["data"]
    found = []
    for article in articles:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                start, text = -1, ""
                for answer in question["answers"][:1]:
                    start, text = answer["answer_start"], answer["text"]
                found.append((question["question"].lstrip(), paragraph["context"], start, start + len(text)))
    return found


def span(sequence_ids, offsets, start_character, behind_character):
    """The first and the last token of an answer, 0 where it is not in the window."""
    first = sequence_ids.index(1)
    last = len(sequence_ids) - 1 - sequence_ids[::-1].index(1)
    if start_character < 0 or offsets[first][0] > start_character or offsets[last][1] < behind_character:
        return 0, 0
    while first < len(offsets) and offsets[first][0] <= start_character:
        first += 1
    while offsets[last][1] >= behind_character:
        last -= 1
    return first - 1, last + 1


def chunks(values, size):
    """The values in lists of a size; the last one may be shorter."""
    return [values[first : first + size] for first in range(0, len(values), size)]


def question_ids(path):
    with open(path, encoding="utf-8") as file:
        return [question["id"] for article in json.load(file)["data"] for paragraph in article["paragraphs"]
                for question in paragraph["qas"]]

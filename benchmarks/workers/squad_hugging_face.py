"""Hugging Face's preparation of SQuAD for training, as its run_qa.py does it, from the JSON to features in memory.

    python -m benchmarks.workers.squad_hugging_face train-v1.1.json 30k-clean.vocab MAX_SEQ_LENGTH DOC_STRIDE

The fast tokenizer encodes batches of 1,000 questions, each padded to MAX_SEQ_LENGTH. Then the start and end of each
answer are computed from offsets. run_qa.py also stores the features as Arrow files with `datasets`; this does not.
"""

import json
import sys

import transformers

from benchmarks.workers.serving import serve

_BATCH = 1000


def make_step():
    path, vocab_file, max_seq_length, doc_stride = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with open(vocab_file, encoding="utf-8") as lines:
        pieces = [line.rstrip("\n").split("\t") for line in lines]
    tokenizer = transformers.AlbertTokenizer([(piece, float(score)) for piece, score in pieces])

    def step():
        questions, features = read(path), []
        for first in range(0, len(questions), _BATCH):
            features.append(prepared(tokenizer, questions[first : first + _BATCH], max_seq_length, doc_stride))
        return features

    return step


def read(path):
    """(question, context, start and end of the answer in characters) of each question; the end is exclusive."""
    with open(path, encoding="utf-8") as file:
        articles = json.load(file)["data"]
    found = []
    for article in articles:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                answer = question["answers"][0] if question["answers"] else dict(answer_start=-1, text="")
                start = answer["answer_start"]
                found.append((question["question"].lstrip(), paragraph["context"], start, start + len(answer["text"])))
    return found


def prepared(tokenizer, questions, max_seq_length, doc_stride):
    features = tokenizer([question for question, *_ in questions], [context for _, context, *_ in questions],
                         truncation="only_second", max_length=max_seq_length, stride=doc_stride,
                         return_overflowing_tokens=True, return_offsets_mapping=True, padding="max_length")
    owners, offsets = features.pop("overflow_to_sample_mapping"), features.pop("offset_mapping")
    features["start_positions"], features["end_positions"] = [], []
    for row, owner in enumerate(owners):
        start, end = span(features.sequence_ids(row), offsets[row], *questions[owner][2:])
        features["start_positions"].append(start)
        features["end_positions"].append(end)
    return features


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


if __name__ == "__main__":
    serve(make_step, first_steps=1)

"""Runs a classifier of a Hugging Face folder on PyTorch, from ids to logits.

    python -m benchmarks.workers.exported_model_hugging_face FOLDER SENTENCES.json [LOGITS.npy]

A step is one sentence, another one each time. OMP_NUM_THREADS is the number of threads. With LOGITS.npy, the logits of
all sentences are written there instead.
"""

import itertools
import json
import sys

import numpy as np
import torch
import transformers

from benchmarks.workers.serving import WARM_UP, serve

NAMES = dict(input_ids="input_ids", input_mask="attention_mask", segment_ids="token_type_ids")


def make_step():
    """A function that gives the logits [1, labels] of the next sentence."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(sys.argv[1]).eval()
    one_by_one = itertools.cycle(sentences())

    def step():
        with torch.inference_mode():
            return model(**next(one_by_one)).logits.numpy()

    return step


def make_warm_step():
    step = make_step()
    for _ in range(WARM_UP):
        step()
    return step


def sentences():
    with open(sys.argv[2], encoding="utf-8") as file:
        return [{NAMES[name]: torch.tensor([values]) for name, values in row.items()} for row in json.load(file)]


def write_logits(path):
    step = make_step()
    np.save(path, np.concatenate([step() for _ in sentences()]))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        write_logits(sys.argv[3])
    else:
        serve(make_warm_step, first_steps=0)

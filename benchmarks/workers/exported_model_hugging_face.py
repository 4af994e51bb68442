"""A classifier in Hugging Face's folder, on PyTorch: ids in, logits out.

    python -m benchmarks.workers.exported_model_hugging_face FOLDER SENTENCES.json

A step is one sentence, another one each time.
"""

import itertools
import json
import sys

import torch
import transformers

from benchmarks.workers.serving import WARM_UP, serve

NAMES = dict(input_ids="input_ids", input_mask="attention_mask", segment_ids="token_type_ids")


def make_step():
    folder, sentences_file = sys.argv[1:]
    torch.set_num_threads(2)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with open(sentences_file, encoding="utf-8") as file:
        rows = [{NAMES[name]: torch.tensor([values]) for name, values in row.items()} for row in json.load(file)]
    one_by_one = itertools.cycle(rows)

    def step():
        with torch.inference_mode():
            return model(**next(one_by_one)).logits.numpy()

    for _ in range(WARM_UP):
        step()
    return step


if __name__ == "__main__":
    serve(make_step, first_steps=0)

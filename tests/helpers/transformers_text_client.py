"""Reads folders with transformers' Auto classes, from text: python transformers_text_client.py JOBS.json ANSWERS.json

A job is dict(folder, model, texts, rows): the Auto class, or null for the tokenizer alone; texts of which only the ids
and offsets are wanted; and rows [text, pair or null] for both. The answer has the keys of weights that are missing or
unexpected.
"""

import json
import sys

import transformers


def answer(job: dict) -> dict:
    tokenizer = transformers.AutoTokenizer.from_pretrained(job["folder"])
    encoded = tokenizer(job["texts"], truncation=True, return_offsets_mapping=True)
    answers = dict(length=tokenizer.model_max_length, ids=encoded["input_ids"], offsets=encoded["offset_mapping"],
                   rows=[])
    if not job["model"]:
        answers["rows"] = [dict(tokenizer(text, pair, return_token_type_ids=True)) for text, pair in job["rows"]]
    else:
        import torch

        model, info = getattr(transformers, job["model"]).from_pretrained(job["folder"], output_loading_info=True)
        answers["wrong_keys"] = [f"{name}: {key}" for name in ("missing_keys", "unexpected_keys", "mismatched_keys")
                                 for key in info[name]]
        model.eval()
        for text, pair in job["rows"]:
            inputs = dict(tokenizer(text, pair, truncation=True, return_tensors="pt"))
            packed = {name: value[0].tolist() for name, value in inputs.items()}
            if job["model"].endswith("MultipleChoice"):
                inputs = {name: value[None] for name, value in inputs.items()}
            with torch.no_grad():
                outputs = model(**inputs)
            packed["outputs"] = {name: value[0].tolist() for name, value in outputs.items()
                                 if isinstance(value, torch.Tensor)}
            answers["rows"].append(packed)
    return answers


with open(sys.argv[1], encoding="utf-8") as file:
    jobs = json.load(file)
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump([answer(job) for job in jobs], file)

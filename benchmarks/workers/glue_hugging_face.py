"""Fine-tuning steps of Hugging Face's AlbertForSequenceClassification, each batch padded to its longest sentence.

    python -m benchmarks.workers.glue_hugging_face float32|bfloat16 sentences.npz BATCH

As its users run it: PyTorch, eager, AdamW, random order; bfloat16 is torch.autocast with float32 weights.
"""

import sys

import numpy as np
import torch
import transformers

from benchmarks.workers.serving import serve


def make_step():
    precision, path, batch_size = sys.argv[1:4]
    torch.set_num_threads(2)
    torch.manual_seed(1)
    config = transformers.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_labels=2)
    model = transformers.AlbertForSequenceClassification(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01)
    batches = random_batches(path, int(batch_size))

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = model(**next(batches)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def random_batches(path, batch_size):
    sentences = np.load(path)
    rows = np.split(sentences["ids"], np.cumsum(sentences["lengths"])[:-1])
    labels = torch.from_numpy(sentences["labels"]).long()
    while True:
        for chosen in torch.randperm(len(rows))[: len(rows) // batch_size * batch_size].reshape(-1, batch_size):
            ids = [torch.from_numpy(rows[i]).long() for i in chosen.tolist()]
            padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
            mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)
            yield dict(input_ids=padded, attention_mask=mask, token_type_ids=torch.zeros_like(padded),
                       labels=labels[chosen])


if __name__ == "__main__":
    serve(make_step, first_steps=2)

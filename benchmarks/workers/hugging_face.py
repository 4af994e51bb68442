"""A training step of Hugging Face's models, as their users run them: PyTorch, eager, AdamW.

    python -m benchmarks.workers.hugging_face float32|bfloat16 WORKLOAD DROPOUT

bfloat16 is torch.autocast, with float32 weights, as our mixed_bfloat16 is.
"""

import os
import sys

import torch
import transformers

from benchmarks.workers.serving import serve
from benchmarks.workers.workloads import WORKLOADS, Workload, with_dropout


def make_step():
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)
    workload = WORKLOADS[sys.argv[2]]
    make = _pretraining if workload.predictions else _squad
    model, batch = make(workload, with_dropout(workload.config, float(sys.argv[3])))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    half = sys.argv[1] == "bfloat16"

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def _inputs(workload: Workload) -> dict:
    shape = [workload.batch, workload.seq]
    ids = torch.randint(5, workload.config["vocab_size"], shape)
    segments = (torch.arange(workload.seq) >= workload.seq // 2).long().expand(shape)
    return dict(input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=segments)


def _pretraining(workload: Workload, config: dict):
    inputs = _inputs(workload)
    labels = torch.full([workload.batch, workload.seq], -100)
    predicted = slice(1, workload.predictions + 1)
    labels[:, predicted] = inputs["input_ids"][:, predicted]
    model = transformers.AlbertForPreTraining(transformers.AlbertConfig(**config)).train()
    return model, dict(inputs, labels=labels, sentence_order_label=torch.arange(workload.batch) % 2)


def _squad(workload: Workload, config: dict):
    start, end = torch.randint(0, workload.seq, [2, workload.batch])
    model = transformers.BertForQuestionAnswering(transformers.BertConfig(**config)).train()
    return model, dict(_inputs(workload), start_positions=start, end_positions=end)


if __name__ == "__main__":
    serve(make_step)

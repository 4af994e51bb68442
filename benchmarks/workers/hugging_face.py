"""A training step of Hugging Face's AlbertForPreTraining, as its users run it: PyTorch, eager, AdamW, no dropout.

    python -m benchmarks.workers.hugging_face float32|bfloat16

bfloat16 is torch.autocast, with float32 weights, as our mixed_bfloat16 is.
"""

import sys

import torch
import transformers

from benchmarks.workers.serving import BATCH, PREDICTIONS, SEQ, serve


def make_step():
    torch.set_num_threads(2)
    torch.manual_seed(1)
    config = transformers.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072)
    model = transformers.AlbertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    ids = torch.randint(5, 30000, [BATCH, SEQ])
    labels = torch.full([BATCH, SEQ], -100)
    labels[:, 1 : PREDICTIONS + 1] = ids[:, 1 : PREDICTIONS + 1]
    batch = dict(input_ids=ids, attention_mask=torch.ones_like(ids),
                 token_type_ids=(torch.arange(SEQ) >= SEQ // 2).long().expand(BATCH, SEQ),
                 labels=labels, sentence_order_label=torch.arange(BATCH) % 2)
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


if __name__ == "__main__":
    serve(make_step)

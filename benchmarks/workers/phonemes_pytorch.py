"""A training step of PL-BERT's objective with transformers' ALBERT: PyTorch, eager, AdamW.

    python -m benchmarks.workers.phonemes_pytorch float32|mixed_bfloat16 LAYERS BATCH SEQ WORDS
"""

import os
import sys

import torch
import transformers

from benchmarks.workers.serving import serve

_WORD = 6  # phonemes, with the separator


def make_step():
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)
    layers, rows, seq, num_words = map(int, sys.argv[2:6])
    encoder = transformers.AlbertModel(transformers.AlbertConfig(
        vocab_size=178, hidden_size=768, num_attention_heads=12, intermediate_size=2048, max_position_embeddings=512,
        num_hidden_layers=layers), add_pooling_layer=False).train()
    phoneme_head, word_head = torch.nn.Linear(768, 178), torch.nn.Linear(768, num_words)
    parameters = [parameter for module in (encoder, phoneme_head, word_head) for parameter in module.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.01)
    ids, words = torch.randint(43, 178, [rows, seq]), torch.randint(0, num_words, [rows, seq])
    ids[:, _WORD - 1 :: _WORD] = 16
    chosen = torch.rand(rows, seq) < 0.15
    mask, inputs = torch.ones_like(ids), torch.where(chosen, 29, ids)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=sys.argv[1] != "float32"):
            vectors = encoder(inputs, attention_mask=mask).last_hidden_state
            loss = torch.nn.functional.cross_entropy(phoneme_head(vectors)[chosen].float(), ids[chosen])
            loss = loss + torch.nn.functional.cross_entropy(word_head(vectors).float().flatten(0, 1), words.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    serve(make_step)

"""Hugging Face's fill-mask pipeline on PyTorch, with an ALBERT of the base size and random weights.

    python -m benchmarks.workers.hugging_face_pipeline SPM_MODEL SENTENCES.json float32|bfloat16 one|many|many_together

With "one" a step is one sentence, another one each time. With "many" a step is all sentences, at the pipeline's default
batch size of 1; with "many_together" at the batch size of our program.
"""

import itertools
import json
import os
import sys

import sentencepiece
import torch
import transformers

from benchmarks.workers.serving import SENTENCES_TOGETHER, WARM_UP, serve


def make_step():
    spm_model_file, sentences_file, precision, what = sys.argv[1:]
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 2)))
    config = transformers.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072)
    model = transformers.AlbertForMaskedLM(config).to(getattr(torch, precision)).eval()
    fill = transformers.pipeline("fill-mask", model=model, tokenizer=load_tokenizer(spm_model_file), top_k=5)
    with open(sentences_file, encoding="utf-8") as file:
        sentences = json.load(file)
    one_by_one = itertools.cycle(sentences)
    steps = dict(one=lambda: fill(next(one_by_one)), many=lambda: fill(sentences),
                 many_together=lambda: fill(sentences, batch_size=SENTENCES_TOGETHER))
    for _ in range(WARM_UP):
        steps["one"]()
    return steps[what]


def load_tokenizer(spm_model_file):
    """Hugging Face's fast tokenizer with the pieces and scores of a SentencePiece model."""
    model = sentencepiece.SentencePieceProcessor(model_file=spm_model_file)
    pieces = range(model.vocab_size())
    return transformers.AlbertTokenizer(vocab=[(model.id_to_piece(i), model.get_score(i)) for i in pieces])


if __name__ == "__main__":
    serve(make_step, first_steps=0)

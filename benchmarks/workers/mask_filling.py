"""Fills masks by a SavedModel as a server would, an ONNX file as `serve --onnx_model` does, or Hugging Face's pipeline.

    python -m benchmarks.workers.mask_filling saved_model|onnx|pipeline PATH SENTENCES.json one|many [PRECISION]

With "one" a step is one sentence, another one each time. With "many" a step is all sentences: ours in batches of
similar length, the pipeline with batches of 1 or ("many_together") of our size. A SavedModel needs TensorFlow and
tensorflow_text alone. The pipeline has an ALBERT of the base size with random weights; its path is that of a
SentencePiece model. OMP_NUM_THREADS is the number of threads.
"""

import itertools
import json
import os
import sys
from typing import Callable

from benchmarks.workers.serving import serve

THREADS = int(os.environ.get("OMP_NUM_THREADS", 2))
SENTENCES_TOGETHER, WARM_UP = 32, 10  # sentences


def make_step():
    kind, path, sentences_file, what, *precision = sys.argv[1:]
    opened: dict[str, Callable] = dict(saved_model=_saved_model, onnx=_onnx, pipeline=_pipeline)
    fill = opened[kind](path, *precision)
    with open(sentences_file, encoding="utf-8") as file:
        sentences = json.load(file)
    one_by_one, by_length = itertools.cycle(sentences), sorted(sentences, key=len)
    for _ in range(WARM_UP):
        fill([next(one_by_one)])
    if what == "one":
        return lambda: fill([next(one_by_one)])
    if kind == "pipeline":
        return lambda: fill(sentences, batch_size=SENTENCES_TOGETHER if what == "many_together" else 1)
    return lambda: [fill(by_length[first : first + SENTENCES_TOGETHER])
                    for first in range(0, len(by_length), SENTENCES_TOGETHER)]


def _saved_model(path):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the ops

    signature = tf.saved_model.load(path).signatures["serving_default"]
    return lambda texts: signature(text=tf.constant(texts))["pieces"].numpy()


def _onnx(path):
    from albert_tf.export.onnx.session import OnnxModel
    from albert_tf.tasks.masked_lm import fill_texts
    from albert_tf.weights.vocabulary import vocabulary_in

    model = OnnxModel(path, vocabulary=vocabulary_in(os.path.dirname(path)), threads=THREADS)
    tokenizer = model.tokenizer
    return lambda texts: fill_texts(model, tokenizer, texts)


def _pipeline(spm_model_file, precision):
    import sentencepiece
    import torch
    import transformers

    torch.set_num_threads(THREADS)
    config = transformers.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072)
    model = transformers.AlbertForMaskedLM(config).to(getattr(torch, precision)).eval()
    pieces = sentencepiece.SentencePieceProcessor(model_file=spm_model_file)
    tokenizer = transformers.AlbertTokenizer(vocab=[(pieces.id_to_piece(i), pieces.get_score(i))
                                                    for i in range(pieces.vocab_size())])
    return transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=5)


if __name__ == "__main__":
    serve(make_step, first_steps=0)

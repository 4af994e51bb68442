"""Reads folders with ONNX models as other programs do: python onnx_readers_client.py READER JOBS.json ANSWERS.json

READER is transformers (its tokenizer, and onnxruntime), fastembed, sentence_transformers, milvus or tokenizers (ids
alone). A job is dict(folder, file, rows): the ONNX model's path in the folder, and rows [text, pair or null]. An answer
is dict(ids, outputs) of the rows. Needs the reader, and nothing of ours.
"""

import json
import os
import sys

import numpy as np


def transformers(folder, file, rows):
    import onnxruntime
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    session = onnxruntime.InferenceSession(os.path.join(folder, file), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    ids, outputs = [], []
    for text, pair in rows:
        inputs = tokenizer(text, pair, truncation=True, return_tensors="np")
        fed = {each.name: inputs[each.name].astype(np.int64) for each in session.get_inputs()}
        if len(session.get_inputs()[0].shape) == 3:  # of multiple choice
            fed = {name: value[:, None] for name, value in fed.items()}
        found = dict(zip(names, session.run(names, fed)))
        ids.append(inputs["input_ids"][0].tolist())
        outputs.append({name: _small(name, value[0]) for name, value in found.items()})
    return dict(ids=ids, outputs=outputs)


def _small(name, value):
    """An output, or of the logits of all pieces those of the first token."""
    return (value[:1] if value.ndim == 2 and value.shape[1] > 1000 else value).tolist()


def fastembed(folder, file, rows):
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    with open(os.path.join(folder, "config.json"), encoding="utf-8") as config:
        size = json.load(config)["hidden_size"]
    name = f"{folder}/{file}"
    TextEmbedding.add_custom_model(name, pooling=PoolingType.MEAN, normalization=True, dim=size, model_file=file,
                                   sources=ModelSource(hf="none/none"))
    model = TextEmbedding(name, specific_model_path=folder)
    texts = [text for text, _ in rows]
    encodings = model.model.tokenize(texts)
    ids = [[each for each, mask in zip(one.ids, one.attention_mask) if mask] for one in encodings]
    vectors = model.embed(texts, batch_size=16)
    return dict(ids=ids, outputs=[dict(sentence_embedding=vector.tolist()) for vector in vectors])


def sentence_transformers(folder, file, rows):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, backend="onnx", device="cpu", model_kwargs=dict(
        file_name=file, provider="CPUExecutionProvider"))
    texts = [text for text, _ in rows]
    ids = [model.tokenizer(text, truncation=True)["input_ids"] for text in texts]
    return dict(ids=ids, outputs=[dict(sentence_embedding=vector.tolist()) for vector in model.encode(texts)])


def milvus(folder, file, rows):
    """The default embedding function of Milvus and GPTCache, which fetches a file of a repository."""
    import huggingface_hub

    huggingface_hub.hf_hub_download = lambda repo_id, filename: os.path.join(repo_id, filename)
    from pymilvus.model.dense.onnx import OnnxEmbeddingFunction

    function = OnnxEmbeddingFunction(model_name=folder, tokenizer_name=folder)
    texts = [text for text, _ in rows]
    ids = [function.tokenizer(text, truncation=True)["input_ids"] for text in texts]
    return dict(ids=ids, outputs=[dict(sentence_embedding=vector.tolist()) for vector in function(texts)])


def tokenizers(folder, file, rows):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    return dict(ids=[tokenizer.encode(text, pair).ids for text, pair in rows])


if __name__ == "__main__":
    reader, jobs, answers = sys.argv[1:]
    with open(jobs, encoding="utf-8") as file:
        content = [globals()[reader](**job) for job in json.load(file)]
    with open(answers, "w", encoding="utf-8") as file:
        json.dump(content, file)

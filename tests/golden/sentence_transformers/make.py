"""Makes these folders: small BERTs as sentence-transformers saves them, sentences, and their vectors.

    python make.py     # wants sentence-transformers

cross_encoder has the scores of pairs, and numbers.json has losses.
"""

import json
import pathlib
import sys
import tempfile

import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.models import Normalize, Pooling, Transformer

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "helpers"))
import sentence_transformers_client as client  # noqa: E402

VOCABULARY = HERE.parent / "wordpiece" / "vocab.txt"
SENTENCES = ["the name of the file", "", "not a word of it is known", "a b c d e f g h i j k l m n o p q r s t u v"]
CASES = {"mean_normalized": ("mean", True), "max": ("max", False), "cls": ("cls", False)}


def encoder(folder, model_class=transformers.BertModel, **more):
    torch.manual_seed(1)
    size = len(VOCABULARY.read_text().splitlines())
    config = transformers.BertConfig(vocab_size=size, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                                     intermediate_size=16, max_position_embeddings=32, initializer_range=0.3, **more)
    model_class(config).save_pretrained(folder)
    transformers.BertTokenizer(str(VOCABULARY)).save_pretrained(folder)


for name, (pooling, normalize) in CASES.items():
    with tempfile.TemporaryDirectory() as folder:
        encoder(folder)
        words = Transformer(folder, max_seq_length=16)
        modules = [words, Pooling(8, pooling_mode=pooling), *([Normalize()] if normalize else [])]
        model = SentenceTransformer(modules=modules, device="cpu")
        model.save(str(HERE / name), create_model_card=False)
        vectors = model.encode(SENTENCES).tolist()
        (HERE / name / "vectors.json").write_text(json.dumps(dict(sentences=SENTENCES, vectors=vectors)) + "\n")

with tempfile.TemporaryDirectory() as folder:
    encoder(folder, transformers.BertForSequenceClassification, num_labels=1)
    CrossEncoder(folder, device="cpu", max_length=17).save(str(HERE / "cross_encoder"), create_model_card=False)
numbers = dict(losses=client.losses(), scores=client.scores(str(HERE / "cross_encoder")))
(HERE / "numbers.json").write_text(json.dumps(numbers) + "\n")

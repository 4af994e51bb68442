"""Makes this folder: a small AlbertForTokenClassification of transformers with random weights, its inputs and outputs.

    python make.py     # wants torch and transformers
"""

import pathlib

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).parent
LABELS = ("O", "B-place", "I-place")
LABEL_IDS = {label: number for number, label in enumerate(LABELS)}

torch.manual_seed(1)
config = transformers.AlbertConfig(
    vocab_size=61, embedding_size=10, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=28,
    max_position_embeddings=32, hidden_act="gelu_new", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    classifier_dropout_prob=0.0, id2label=dict(enumerate(LABELS)), label2id=LABEL_IDS)
model = transformers.AlbertForTokenClassification(config).eval()
with torch.no_grad():  # biases and LayerNorms start at 0 and 1, where an exchange would not be seen
    for parameter in model.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
model.save_pretrained(HERE)
random = np.random.default_rng(1)
inputs = dict(input_ids=random.integers(0, 61, [4, 20]), attention_mask=np.ones([4, 20], np.int64),
              token_type_ids=random.integers(0, 2, [4, 20]))
inputs["attention_mask"][1, 15:] = 0
with torch.no_grad():
    outputs = model(**{key: torch.tensor(value) for key, value in inputs.items()}, output_hidden_states=True)
numbers = {f"in/{key}": value for key, value in inputs.items()}
numbers["out/logits"] = outputs.logits.numpy()
numbers["out/last_hidden_state"] = outputs.hidden_states[-1].numpy()
for number, states in enumerate(outputs.hidden_states):
    numbers[f"out/hidden_states_{number}"] = states.numpy()
np.savez(HERE / "io.npz", **numbers)

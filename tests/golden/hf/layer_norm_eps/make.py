"""Makes this folder: a small ALBERT of transformers with another epsilon of LayerNorm, its inputs and its outputs.

    python make.py     # wants torch and transformers
"""

import pathlib

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).parent

torch.manual_seed(1)
config = transformers.AlbertConfig(
    vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=3, num_attention_heads=2, intermediate_size=16,
    max_position_embeddings=8, initializer_range=0.3, layer_norm_eps=1e-3)
model = transformers.AlbertForPreTraining(config).eval()
with torch.no_grad():  # biases and LayerNorms start at 0 and 1, where an exchange would not be seen
    for parameter in model.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
model.save_pretrained(HERE)
random = np.random.default_rng(1)
inputs = dict(input_ids=random.integers(0, 20, [2, 8]), attention_mask=np.ones([2, 8], np.int64),
              token_type_ids=random.integers(0, 2, [2, 8]))
inputs["attention_mask"][1, 5:] = 0
with torch.no_grad():
    outputs = model(**{key: torch.tensor(value) for key, value in inputs.items()})
np.savez(HERE / "io.npz", **{f"in/{key}": value for key, value in inputs.items()},
         **{f"out/{key}": outputs[key].numpy() for key in ("prediction_logits", "sop_logits")})

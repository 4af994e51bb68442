"""Loads a folder with transformers and computes: python transformers_client.py FOLDER CLASS INPUTS.npz OUTPUTS.npz

Prints the keys that are missing or unexpected. Needs torch and transformers, and nothing of ours.
"""

import json
import sys

import numpy as np
import torch
import transformers

folder, class_name, inputs_path, outputs_path = sys.argv[1:]
model, info = getattr(transformers, class_name).from_pretrained(folder, output_loading_info=True)
inputs = np.load(inputs_path)
with torch.no_grad():
    outputs = model.eval()(**{name: torch.tensor(inputs[name]) for name in inputs.files})
np.savez(outputs_path, **{name: value.numpy() for name, value in outputs.items() if isinstance(value, torch.Tensor)})
reported = ("missing_keys", "unexpected_keys", "mismatched_keys")
print(json.dumps({name: sorted(map(str, info[name])) for name in reported}))

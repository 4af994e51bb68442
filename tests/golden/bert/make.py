"""Makes these folders: small BERTs of transformers with random weights, their inputs and their outputs.

    python make.py     # wants torch and transformers
"""

import pathlib

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).parent
LABELS = ("O", "B-place", "I-place")
LABEL_IDS = {label: number for number, label in enumerate(LABELS)}
SHAPE = dict(vocab_size=20, hidden_size=8, num_hidden_layers=3, num_attention_heads=2, intermediate_size=16,
             max_position_embeddings=8, initializer_range=0.3)
CASES = {
    "encoder": (transformers.BertModel, {}),
    "pretraining": (transformers.BertForPreTraining, {}),
    "pretraining_tanh_gelu": (transformers.BertForPreTraining, dict(hidden_act="gelu_new")),
    "sequence_classification": (transformers.BertForSequenceClassification, dict(num_labels=3)),
    "token_classification": (transformers.BertForTokenClassification,
                             dict(id2label=dict(enumerate(LABELS)), label2id=LABEL_IDS)),
    "question_answering": (transformers.BertForQuestionAnswering, {}),
    "multiple_choice": (transformers.BertForMultipleChoice, {}),
    "layer_norm_eps": (transformers.BertForPreTraining, dict(layer_norm_eps=1e-3)),
}

for name, (model_class, changes) in CASES.items():
    torch.manual_seed(1)
    model = model_class(transformers.BertConfig(**SHAPE, **changes)).eval()
    with torch.no_grad():  # biases and LayerNorms start at 0 and 1, where an exchange would not be seen
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(HERE / name)
    random = np.random.default_rng(1)
    shape = [2, 4, 8] if name == "multiple_choice" else [2, 8]
    inputs = dict(input_ids=random.integers(0, 20, shape), attention_mask=np.ones(shape, np.int64),
                  token_type_ids=random.integers(0, 2, shape))
    inputs["attention_mask"][1, ..., 5:] = 0
    with torch.no_grad():
        outputs = model(**{key: torch.tensor(value) for key, value in inputs.items()})
    np.savez(HERE / name / "io.npz", **{f"in/{key}": value for key, value in inputs.items()},
             **{f"out/{key}": value.numpy() for key, value in outputs.items()})

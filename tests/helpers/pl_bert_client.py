"""Makes a small checkpoint as PL-BERT's notebook does, and what PyTorch computes for a batch, by transformers' ALBERT.

    python pl_bert_client.py write FOLDER BATCH.npz RESULTS.npz
    python pl_bert_client.py read FOLDER BATCH.npz RESULTS.npz    # vectors of a folder, loaded as StyleTTS2 does

Run by the Python of an environment with torch and transformers.
"""

import pathlib
import sys

import numpy as np
import torch
import transformers
import yaml

SIZES = dict(vocab_size=178, hidden_size=32, num_attention_heads=2, intermediate_size=64, max_position_embeddings=64,
             num_hidden_layers=3, dropout=0.1)
WORDS = 50


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = transformers.AlbertModel(transformers.AlbertConfig(**SIZES))
        self.mask_predictor, self.word_predictor = torch.nn.Linear(32, 178), torch.nn.Linear(32, WORDS)


def read(folder: str, batch_path: str, results_path: str) -> None:
    parameters = yaml.safe_load(pathlib.Path(folder, "config.yml").read_text())["model_params"]
    encoder = transformers.AlbertModel(transformers.AlbertConfig(**parameters)).eval()
    steps = [int(path.stem.removeprefix("step_")) for path in pathlib.Path(folder).glob("step_*")]
    net = torch.load(f"{folder}/step_{max(steps)}.t7", map_location="cpu", weights_only=True)["net"]
    weights = {name.removeprefix("module.encoder."): value for name, value in net.items() if ".encoder." in name}
    del weights["embeddings.position_ids"]
    missing = encoder.load_state_dict(weights, strict=False)
    assert not missing.unexpected_keys and all(name.startswith("pooler.") for name in missing.missing_keys), missing
    batch = {name: torch.tensor(values) for name, values in np.load(batch_path).items()}
    with torch.no_grad():
        vectors = encoder(batch["input_ids"].long(), attention_mask=batch["input_mask"]).last_hidden_state
    np.savez(results_path, vectors=vectors.numpy())


def write(folder: str, batch_path: str, results_path: str) -> None:
    torch.manual_seed(0)
    model, batch = Model().eval(), {name: torch.tensor(values) for name, values in np.load(batch_path).items()}
    for parameter in model.parameters():  # biases and LayerNorms, too
        torch.nn.init.normal_(parameter, std=0.3)
    torch.save({"net": {f"module.{name}": value for name, value in model.state_dict().items()}, "step": 1},
               pathlib.Path(folder, "step_1.t7"))
    lines = [f"    {name}: {value}" for name, value in SIZES.items()]
    pathlib.Path(folder, "config.yml").write_text("\n".join(["model_params:", *lines, ""]))
    vectors = model.encoder(batch["input_ids"].long(), attention_mask=batch["input_mask"]).last_hidden_state
    chosen, real = batch["masked_lm_weights"] > 0, batch["input_mask"] > 0
    index, cross_entropy = batch["word_index"].long(), torch.nn.functional.cross_entropy
    words = torch.gather(batch["word_ids"].long(), 1, index.clamp(min=0))
    words[index < 0] = 1
    losses = dict(
        masked_lm=cross_entropy(model.mask_predictor(vectors)[chosen], batch["masked_lm_ids"].long()[chosen]),
        all=cross_entropy(model.word_predictor(vectors)[real], words[real]))
    means, labels = [], []
    for row in range(len(index)):
        for word in range(int(index[row].max()) + 1):
            means.append(vectors[row][index[row] == word].mean(0))
            labels.append(batch["word_ids"].long()[row, word])
    losses["once"] = cross_entropy(model.word_predictor(torch.stack(means)), torch.stack(labels))
    np.savez(results_path, vectors=vectors.detach().numpy(), **{name: loss.item() for name, loss in losses.items()})


if __name__ == "__main__":
    dict(read=read, write=write)[sys.argv[1]](*sys.argv[2:])

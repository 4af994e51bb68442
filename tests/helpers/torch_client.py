"""Writes objects with torch.save in both formats, and what they are as NumPy arrays; reads a file of albert_tf.

    python torch_client.py write FOLDER           # FOLDER/NAME.pt and NAME.npz
    python torch_client.py read FILE VALUES.npz   # the tensors of a file by torch.load

Run by the Python of an environment with torch. It imports nothing of albert_tf.
"""

import pathlib
import sys
from collections import OrderedDict

import numpy as np
import torch

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
         torch.uint8, torch.bool]


def layer():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))


def trained():
    """A checkpoint as PL-BERT's notebook saves it."""
    model = layer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    net = {f"module.{name}": value for name, value in model.state_dict().items()}
    return dict(net=net, step=1_000_000, optimizer=optimizer.state_dict())


def objects():
    torch.manual_seed(1)
    base = torch.randn(6, 8)
    for dtype in TYPES:
        yield str(dtype).removeprefix("torch."), dict(a=(10 * base).to(dtype), scalar=torch.tensor(3).to(dtype))
    yield "transposed", dict(a=base.T, b=base.reshape(2, 3, 8).permute(2, 0, 1))
    yield "parts", dict(row=base[2], column=base[:, 3], block=base[1:4, 2:6], every_second=base[::2, ::3], base=base)
    yield "expanded", dict(positions=torch.arange(9).expand(1, -1), repeated=torch.ones(1, 4).expand(5, 4))
    yield "tied", OrderedDict(words=base, decoder=base, bias=base[0])
    yield "empty", dict(none=torch.zeros(0), rows=torch.zeros(3, 0), nothing={})
    yield "parameters", dict(weight=torch.nn.Parameter(base), fixed=torch.nn.Parameter(base[0], requires_grad=False))
    yield "state_dict", layer().state_dict()
    yield "half_state_dict", layer().half().state_dict()
    yield "checkpoint", trained()
    yield "kokoro", {part: {f"module.{name}": value for name, value in layer().state_dict().items()}
                     for part in ("bert", "bert_encoder", "predictor")}
    yield "values", dict(numbers=[0, -1, 255, 65_536, -2**31, 2**40, 1.5, float("inf")], text="a\u0301 \U0001f600",
                         tuples=[(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)], flags=(True, False, None), seed=2**70)
    yield "many", {f"layer.{number}": torch.full((number % 5,), float(number)) for number in range(2_000)}


def arrays(value, place=""):
    """The tensors of an object by their places, as float64 or int64."""
    if isinstance(value, torch.Tensor):
        kind = torch.float64 if value.is_floating_point() else torch.int64
        return {place: value.detach().to(kind).numpy()}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    return {name: array for key, item in items for name, array in arrays(item, f"{place}/{key}").items()}


def write(folder):
    for name, value in objects():
        np.savez(folder / f"{name}.npz", **arrays(value))
        (folder / f"{name}.txt").write_text(repr(without_tensors(value)))
        for suffix, arguments in dict(zip={}, older=dict(_use_new_zipfile_serialization=False)).items():
            torch.save(value, folder / f"{name}.{suffix}", **arguments)
    torch.save(trained(), folder / "protocol.4", pickle_protocol=4)
    torch.serialization.set_crc32_options(False)
    torch.save(layer().state_dict(), folder / "checksum.none")
    torch.jit.script(layer()).save(folder / "program.jit")
    torch.save(layer(), folder / "module.zip")
    torch.save(torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), folder / "quantized.zip")
    torch.save(torch.ones(3).to_sparse(), folder / "sparse.zip")
    torch.save(torch.ones(3, dtype=torch.complex64), folder / "complex.zip")


def without_tensors(value):
    if isinstance(value, dict):
        return {key: without_tensors(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(without_tensors, value))
    return tuple(value.shape) if isinstance(value, torch.Tensor) else value


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(pathlib.Path(sys.argv[2]))
    else:
        np.savez(sys.argv[3], **arrays(torch.load(sys.argv[2], weights_only=True)))

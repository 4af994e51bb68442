"""Hugging Face's ALBERT on the steps that benchmarks.device_steps.export wrote, with PyTorch alone.

    pip install torch transformers
    python hugging_face.py FOLDER [--only TEXT] [--seconds 3] [--attention sdpa] [--no_compile | --no_eager]

For each program of the folder, the model has the program's config, and the batch its shape: forward pass and gradient
under bfloat16 autocast (for programs in bfloat16), clipping to a norm of 1, and PyTorch's fused AdamW; or the forward
pass alone. The columns are those of run.py; memory is the most that PyTorch had allocated. Pre-training's logits are
those of all tokens, as in Hugging Face's loss.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time

import torch
import transformers

TASKS = {
    "pre-training": transformers.AlbertForPreTraining,
    "classification": transformers.AlbertForSequenceClassification,
    "SQuAD 1.1": transformers.AlbertForQuestionAnswering,
    "tagging": transformers.AlbertForTokenClassification,
}
# SQuAD 2.0's head is not in Hugging Face; that of 1.1 costs less.
TASKS["SQuAD 2.0"] = TASKS["SQuAD 1.1"]
LABELS = {"classification": 3, "tagging": 9}
_ROUNDS = 3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="Part of the names of the programs to run. Default: all.")
    parser.add_argument("--seconds", type=float, default=3.0, help="Approximate duration of a round.")
    parser.add_argument("--matrix", type=int, default=8192, help="Rows of the measured product's matrices.")
    parser.add_argument("--attention", default="sdpa", help="Hugging Face's attn_implementation: sdpa, eager, ...")
    parser.add_argument("--no_compile", action="store_true", help="Leave out torch.compile.")
    parser.add_argument("--no_eager", action="store_true", help="Leave out the model without torch.compile.")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rate = matrix_rate(device, arguments.matrix, arguments.seconds)
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    print(f"{name}, torch {torch.__version__}, transformers {transformers.__version__}, {arguments.attention}, "
          f"matrix products {rate / 1e12:.4g} TFLOP/s\n"
          f"{'':78}{'tokens/s':>20}{'share':>14}{'memory GB':>11}", flush=True)
    forms = [form for form, is_out in (("eager", arguments.no_eager), ("compiled", arguments.no_compile)) if not is_out]
    for file in sorted(arguments.folder.rglob("program.json")):
        spec = json.loads(file.read_text())
        if arguments.only not in file.parent.name or spec["peer"]["task"] not in TASKS:
            continue
        for form in forms:
            print(f"{file.parent.name:68} {form:9}", end="", flush=True)
            try:
                print_figures(spec, device, form, rate, arguments)
            except torch.cuda.OutOfMemoryError as error:
                print(str(error).splitlines()[0][:100], flush=True)


def print_figures(spec: dict, device: str, form: str, rate: float, arguments) -> None:
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    step = step_of(spec["peer"], device, arguments.attention, form == "compiled")
    for _ in range(3):  # the first one compiles
        step()
    times = sorted(seconds_of(step, device, arguments.seconds) for _ in range(_ROUNDS))
    tokens = [f"{spec['tokens'] / value:,.0f}" for value in (times[-1], times[0])]
    share = [f"{100 * spec['flops'] / value / rate:.1f}" for value in (times[-1], times[0])]
    memory = f"{torch.cuda.max_memory_allocated() / 1e9:11.2f}" if device == "cuda" else ""
    print(f"{' - '.join(tokens):>20}{' - '.join(share) + ' %':>14}{memory}", flush=True)


def seconds_of(step, device: str, seconds: float) -> float:
    """The mean seconds of a step in a round of approximately this duration."""

    def run(count):
        start = time.perf_counter()
        for _ in range(count):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    run(1)
    count = max(2, int(seconds / run(2)))
    return run(count)


def matrix_rate(device: str, size: int, seconds: float) -> float:
    """Floating-point operations a second of a bfloat16 matrix product of random values."""
    one, two = torch.randn([2, size, size], device=device).to(torch.bfloat16)
    return 2 * size**3 / min(seconds_of(lambda: one @ two, device, seconds / _ROUNDS) for _ in range(_ROUNDS))


def step_of(peer: dict, device: str, attention: str, is_compiled: bool):
    """A function that does the step."""
    torch.manual_seed(1)
    known = transformers.AlbertConfig().to_dict()
    config = transformers.AlbertConfig(**{name: value for name, value in peer["config"].items() if name in known},
                                       attn_implementation=attention, num_labels=LABELS.get(peer["task"], 2))
    model = TASKS[peer["task"]](config).to(device).train(peer["training"])
    if peer["gradient_checkpointing"]:
        model.gradient_checkpointing_enable()
    batch = {name: value.to(device) for name, value in batch_of(peer).items()}
    run = torch.compile(model) if is_compiled else model

    def outputs():
        with torch.autocast(device, torch.bfloat16, enabled=peer["precision"] == "bfloat16"):
            return run(**batch)

    if not peer["training"]:
        return torch.no_grad()(outputs)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)

    def step():
        optimizer.zero_grad()
        outputs().loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def batch_of(peer: dict) -> dict[str, torch.Tensor]:
    """A batch of random tokens, with labels."""
    rows, seq = shape = [peer["batch"], peer["seq"]]
    ids = torch.randint(5, peer["config"]["vocab_size"], shape)
    inputs = dict(input_ids=ids, attention_mask=torch.ones_like(ids),
                  token_type_ids=(torch.arange(seq) >= seq // 2).long().expand(shape).contiguous())
    if not peer["training"]:
        return inputs
    labels = torch.full(shape, -100)
    labels[:, 1:peer["predictions"] + 1] = ids[:, 1:peer["predictions"] + 1]
    start, end = torch.randint(0, seq, [2, rows])
    return dict(inputs, **{
        "pre-training": dict(labels=labels, sentence_order_label=torch.arange(rows) % 2),
        "classification": dict(labels=torch.arange(rows) % 3),
        "SQuAD 1.1": dict(start_positions=start, end_positions=end),
        "SQuAD 2.0": dict(start_positions=start, end_positions=end),
        "tagging": dict(labels=torch.randint(0, 9, shape)),
    }[peer["task"]])


if __name__ == "__main__":
    main()

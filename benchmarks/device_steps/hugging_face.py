"""Hugging Face's ALBERT on the steps that benchmarks.device_steps.export wrote, with PyTorch alone.

    pip install torch transformers
    python hugging_face.py FOLDER [--only TEXT] [--seconds 3]

For each program of the folder, the model has the program's config, and the batch its shape: forward pass and gradient
under bfloat16 autocast (for programs in bfloat16), clipping to a norm of 1, and PyTorch's fused AdamW; or the forward
pass alone; each by PyTorch, and by torch.compile. The columns are those of run.py, which must be in the same folder;
memory is the most that PyTorch had allocated, on a GPU. Pre-training's logits are those of all tokens, as in Hugging
Face's loss.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import torch
import transformers

if TYPE_CHECKING:
    from benchmarks.device_steps.run import arguments_and_folders, print_head, print_row, spec_in, times
else:
    from run import arguments_and_folders, print_head, print_row, spec_in, times  # the file beside this one

TASKS = {
    "pre-training": transformers.AlbertForPreTraining,
    "classification": transformers.AlbertForSequenceClassification,
    "SQuAD 1.1": transformers.AlbertForQuestionAnswering,
    "tagging": transformers.AlbertForTokenClassification,
}
# SQuAD 2.0's head is not in Hugging Face; that of 1.1 costs less.
TASKS["SQuAD 2.0"] = TASKS["SQuAD 1.1"]
LABELS = {"classification": 3, "tagging": 9}


def main():
    arguments, folders = arguments_and_folders(__doc__)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wait = (lambda _: torch.cuda.synchronize()) if device == "cuda" else (lambda _: None)
    one, two = torch.randn([2, arguments.matrix, arguments.matrix], device=device).to(torch.bfloat16)
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    rate = print_head(f"{name}, torch {torch.__version__}, transformers {transformers.__version__}",
                      lambda: one @ two, wait, arguments)
    for folder, form in itertools.product(folders, ("eager", "compiled")):
        spec = spec_in(folder)
        if spec.peer["task"] not in TASKS:
            continue
        try:
            if device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            step, start = step_of(spec.peer, device, form == "compiled"), time.perf_counter()
            wait(step())
            compile_seconds = time.perf_counter() - start
            seconds = times(step, wait, arguments.seconds)
            memory = torch.cuda.max_memory_allocated() if device == "cuda" else 0
            print_row(f"{folder.name:68} {form}", spec, seconds, rate, memory, compile_seconds)
        except torch.cuda.OutOfMemoryError as error:
            print(f"{folder.name:68} {form:11} {str(error).splitlines()[0][:100]}", flush=True)


def step_of(peer: dict, device: str, is_compiled: bool):
    """A function that does the step."""
    torch.manual_seed(1)
    known = transformers.AlbertConfig().to_dict()
    config = transformers.AlbertConfig(**{name: value for name, value in peer["config"].items() if name in known},
                                       attn_implementation="sdpa", num_labels=LABELS.get(peer["task"], 2))
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

"""The hyper-parameters and the files with which our scripts and Hugging Face are compared in fine-tuning."""

import os
from typing import NamedTuple


class Settings(NamedTuple):
    """The settings of both programs. The metric is its name in our results."""

    metric: str
    steps: int
    batch: int
    length: int
    learning_rate: float


SETTINGS = {
    "sst-2": Settings("eval_accuracy", 300, 32, 64, 5e-5), "sts-b": Settings("pearson", 540, 32, 128, 5e-5),
    "rte": Settings("eval_accuracy", 160, 32, 128, 5e-5), "squad-1.1": Settings("f1", 400, 8, 192, 2e-4),
    "wnut17": Settings("f1", 300, 32, 128, 1e-4), "ud_ewt": Settings("accuracy", 300, 32, 128, 1e-4),
}
TAGGED = ("wnut17", "ud_ewt")


def files(task, data):
    """The paths of the training and the dev file of a task in the folder `data`."""
    if task == "squad-1.1":
        return tuple(os.path.join(data, "squad", f"{split}-v1.1.json") for split in ("train", "dev"))
    if task in TAGGED:
        ending = "conll" if task == "wnut17" else "tsv"
        return tuple(os.path.join(data, "tagging", task, f"{split}.{ending}") for split in ("train", "dev"))
    folder = dict(rte="RTE").get(task, task.upper())
    return tuple(os.path.join(data, "glue", folder, f"{split}.tsv") for split in ("train", "dev"))

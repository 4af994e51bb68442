"""Fine-tunes and evaluates on every GLUE task in a folder; prints the paper's table.

    python -m albert_tf run_glue --data_dir=glue --init_checkpoint=albert_base_v2 --output_dir=glue_runs --num_runs=5

Each task is a run of run_classifier.py in a separate folder, with the paper's recipe. The flags of run_classifier.py
can be set here for all tasks; they override the recipes. As in the paper (Lan et al., 2020, section 4.9), RTE, MRPC and
STS-B start from the model that was fine-tuned on MNLI, if MNLI is among the tasks. If the script is started again, it
continues where it stopped.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Annotated

import numpy as np
from absl import logging

from albert_tf.commands import flags
from albert_tf.commands.command_runs import run_process
from albert_tf.options import Config
from albert_tf.tasks.classification.config import ClassifierConfig
from albert_tf.tasks.classification.data import TASKS, read_label_ids
from albert_tf.training.config import RESULTS
from albert_tf.utils.files import read_json_object
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.outputs import write_text

# MNLI comes first, since other tasks start from its checkpoint.
COLUMNS = ("mnli", "qnli", "qqp", "rte", "sst-2", "mrpc", "cola", "sts-b", "wnli")
FROM_MNLI = ("rte", "mrpc", "sts-b")
LEARNABLE = COLUMNS[:-1]  # on WNLI, hardly any model is better than the most frequent label
TABLE = "glue.txt"
# Dev scores of single models, medians over five runs, in the order of COLUMNS (Lan et al., 2020, table 9).
PAPER = {
    "BERT-large": (86.6, 92.3, 91.3, 70.4, 93.2, 88.0, 60.6, 90.0),
    "XLNet-large": (89.8, 93.9, 91.8, 83.8, 95.6, 89.2, 63.6, 91.8),
    "RoBERTa-large": (90.2, 94.7, 92.2, 86.6, 96.4, 90.9, 68.0, 92.4),
    "ALBERT xxlarge, 1M steps": (90.4, 95.2, 92.0, 88.1, 96.8, 90.2, 68.7, 92.7),
    "ALBERT xxlarge, 1.5M steps": (90.8, 95.3, 92.2, 89.2, 96.9, 90.9, 71.4, 93.0),
}
# The flags that this script sets for each task.
_OF_A_TASK = ("task_name", "task_config", "output_dir", "export_dir", "init_checkpoint", "albert_hub_module_handle",
              "recipe", "do_train", "do_eval")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ClassifierConfig):
    # Each task's run gets the flags that are set.
    data_dir: Annotated[
        str, "Folder that contains GLUE's folders (CoLA, MNLI, ...)."] = dataclasses.field()  # required here

    def __post_init__(self) -> None:
        Config.__post_init__(self)  # what a run needs besides is set for each task


def main(options: Options) -> None:
    for name in ("do_train", "do_eval"):
        if flags.present().get(name) == "False":
            raise ValueError(f"this script trains and evaluates on each task: --no{name} is for run_classifier.py")
    if options.task_name or options.task_config or options.predict_file:
        raise ValueError("this script runs all tasks in --data_dir: --task_name, --task_config and --predict_file are "
                         "for run_classifier")
    tasks = [name for name in COLUMNS if has_files(options, name)]
    if not tasks:
        raise ValueError(f"{options.data_dir} has no task with train and dev files: it must have folders such as RTE")
    logging.info("tasks: %s", ", ".join(tasks))
    for name in tasks:
        run_process("run_classifier", arguments(options, name), name)
    scores = {name: score(options, name) for name in tasks}
    content = table(scores)
    write_text(os.path.join(options.output_dir, TABLE), f"{content}\n")
    print(content)
    unlearned = [name for name in tasks if name in LEARNABLE and scores[name] <= chance(options, name)]
    if unlearned:
        logging.warning("%s: no better than a model that always gives the same answer. The recipes are those of the "
                        "paper's large models; a small one needs a higher rate, such as --learning_rate=2e-4",
                        ", ".join(unlearned))


def has_files(options: Options, name: str) -> bool:
    paths = (TASKS[name].sources[split].path for split in ("train", "dev"))
    return all(tf.io.gfile.exists(os.path.join(options.data_dir, path)) for path in paths)


def arguments(options: Options, name: str) -> list[str]:
    """The flags of a task's run: the common flags, and the task's."""
    values = dict(task_name=name, output_dir=os.path.join(options.output_dir, name), recipe=options.recipe or name,
                  **init_path(options, name))
    if options.export_dir:
        values["export_dir"] = os.path.join(options.export_dir, name)
    of_task = [f"--{flag}={value}" for flag, value in values.items()]
    return [*flags.arguments_of(_OF_A_TASK), *of_task, "--do_train", "--do_eval"]


def init_path(options: Options, name: str) -> dict[str, str]:
    """The flag of the initial weights: for some tasks the best model of MNLI, if there is one."""
    from albert_tf.weights.runs import checkpoint_of

    mnli = checkpoint_of(os.path.join(options.output_dir, "mnli")) if name in FROM_MNLI else None
    weights = dict(init_checkpoint=options.source.init_checkpoint,
                   albert_hub_module_handle=options.source.albert_hub_module_handle)
    return dict(init_checkpoint=mnli) if mnli else {flag: value for flag, value in weights.items() if value}


def score(options: Options, name: str) -> float:
    results = read_json_object(os.path.join(options.output_dir, name, f"{RESULTS}.json"))
    return 100 * results[TASKS[name].metrics[0]]


def chance(options: Options, name: str) -> float:
    """The score of a model that gives every dev example the most frequent label; 0 for correlations."""
    if TASKS[name].metrics[0] != "eval_accuracy":
        return 0.0
    labels = read_label_ids(TASKS[name], options.data_dir, "dev")
    assert labels is not None  # a dev set has them
    return 100 * np.bincount(labels).max() / len(labels)


def table(scores: dict) -> str:
    """The paper's rows and ours: Matthews correlation for CoLA, Pearson's for STS-B, else accuracy (MNLI: matched)."""
    lines = [f"{'':28}" + "".join(f"{name:>8}" for name in COLUMNS)]
    lines += [f"{who:28}" + "".join(f"{value:8.1f}" for value in values) for who, values in PAPER.items()]
    ours = "".join(f"{scores[name]:8.1f}" if name in scores else f"{'-':>8}" for name in COLUMNS)
    return "\n".join([*lines, f"{'this run':28}{ours}"])

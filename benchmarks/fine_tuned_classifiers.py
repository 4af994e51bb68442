"""What faster, int8_tasks and trainable_weights share: flags, fine-tuning runs, and rows for each seed."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Sequence

from absl import flags

from albert_tf import from_pretrained
from albert_tf.commands.command_runs import run_script
from albert_tf.commands.flags import define_required
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import write_csv, write_text
from albert_tf.weights.stored_model import open_model
from benchmarks import common_flags
from benchmarks.computing import use_one_thread
from benchmarks.fine_tuning_settings import SETTINGS

flags.disclaim_key_flags()  # a flag belongs to the benchmark that calls define_flags
FLAGS = flags.FLAGS


def define_flags(tasks: list[str], seeds: list[str]) -> None:
    """Defines the flags of runs and their data. The arguments are the benchmark's defaults."""
    common_flags.define_model()
    define_required("data", "Folder that has glue/.")
    common_flags.define_output_dir()
    flags.DEFINE_list("tasks", tasks, "Names of the tasks.")
    flags.DEFINE_list("seeds", seeds, "Seeds of the runs.")
    flags.DEFINE_integer("steps", 0, "Number of training steps. 0: those of fine_tuning_settings.py.", lower_bound=0)


def write_rows(name: str, columns: Sequence[str], rows_of: Callable[[str, str], list[dict]]) -> list[dict]:
    """Measures each seed of each task on one thread, and writes the rows to NAME.csv in output_dir.

    Args:
      columns: the names of the columns.
      rows_of: measures a task and a seed. A seed whose rows are in a file of output_dir is not measured again.
    """
    use_one_thread()
    rows = []
    for task in FLAGS.tasks:
        for seed in FLAGS.seeds:
            stored = run_folder(task, seed, f"{name}.json")
            if not os.path.exists(stored):
                write_text(stored, json.dumps(dict(rows=rows_of(task, seed))))
            rows += read_json_object(stored)["rows"]
    write_csv(os.path.join(FLAGS.output_dir, f"{name}.csv"),
              [columns, *([row[column] for column in columns] for row in rows)])
    return rows


def run_folder(task: str, seed: str, name: str) -> str:
    return os.path.join(FLAGS.output_dir, f"{task}_{seed}_{name}")


def settings_of_run(task: str, seed: str, name: str) -> dict[str, Any]:
    """The flags that the runs of all tasks have."""
    settings, folder = SETTINGS[task], run_folder(task, seed, name)
    steps = FLAGS.steps or settings.steps
    return dict(output_dir=folder, init_checkpoint=FLAGS.model, seed=seed, do_train=True,
                max_seq_length=settings.length, train_batch_size=settings.batch, train_step=steps,
                warmup_step=steps // 10, save_checkpoints_steps=steps, learning_rate=settings.learning_rate,
                bias_correction=True, precision="mixed_bfloat16", verbosity=-1)


def fine_tuned(task: str, seed: str, name: str, layers: int | None = None, **flag_values) -> AlbertClassifier:
    """Fine-tunes --model as run_classifier does, or continues it, in the folder of the run.

    Args:
      name: the name of the run.
      layers: number of its first layers; None for all.
      flag_values: further flags of run_classifier, or other values.
    """
    folder, config = run_folder(task, seed, name), open_model(FLAGS.model).config
    config_file = f"{folder}.config.json"
    write_text(config_file, config.replace(num_hidden_layers=layers or config.num_hidden_layers).to_json_string())
    values = dict(settings_of_run(task, seed, name), task_name=task, data_dir=os.path.join(FLAGS.data, "glue"),
                  albert_config_file=config_file, cached_dir=os.path.join(FLAGS.output_dir, "cached"))
    run_script("run_classifier", **{**values, **flag_values})
    return from_pretrained(folder, model="classifier")

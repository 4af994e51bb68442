"""Pre-trains a model from raw text by a recipe: vocabulary, records, training, model.

    python -m albert_tf pretrain_from_text --recipe=quick --text=train.txt --dev_text=dev.txt --output_dir=tiny

The recipe `quick` takes minutes, on any text from half a megabyte; `albert_tiny_en` takes hours. A recipe is a JSON
file: runs of the other scripts by name, with their flags. A run with "like" has the flags of an earlier run, and its
own flags replace them. "configs" has presets with changes, which are written into --output_dir with the size of the
recipe's vocabulary.

If the script is started again, it continues where it stopped; if a text was changed in the meantime, this is an error.
So is another text with the same --output_dir, whose vocabulary and records would be replaced.
training.svg in --output_dir is a chart of the evaluations. The recipe `continued` starts from --init_checkpoint and
trains on two texts: a new one, and one like that of the earlier pre-training, so that the model keeps what it knows.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex

from absl import logging

import albert_tf
from albert_tf.commands import flag_fields as fields, shared_flags as shared
from albert_tf.commands.command_runs import Run, arguments, filled, parse_runs, placeholders, run_script
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import fingerprint
from albert_tf.text.pieces import load_model
from albert_tf.utils.charts import Curve, Panel, write_charts
from albert_tf.utils.files import absolute, check_keys, errors_at, read_json_object
from albert_tf.utils.outputs import checked_manifest, manifest_path, write_text

RECIPES = pathlib.Path(albert_tf.__file__).parent / "recipes" / "pretraining"

READERS_OF_TEXTS = ("train_vocabulary", "create_pretraining_data")  # the scripts that have --text_column
PLACES = ("text", "dev_text", "init_checkpoint", "earlier_text", "earlier_dev_text", "output_dir")


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of this command."""

    text: str = fields.required("Path of the text to train on, with one sentence per line and a blank line between "
                                "documents.")
    dev_text: str = fields.required("Path of the text to evaluate on, in the same format as --text.")
    output_dir: str = fields.required("Directory of the vocabulary, the records, the checkpoints and the model.")
    init_checkpoint: str | None = fields.string(
        None, "Weights to start from, for the recipe `continued`: albert_tiny_en, a folder, or a checkpoint. They must "
        "have a SentencePiece model.")
    earlier_text: str | None = fields.string(
        None, "Path of a text like the one that --init_checkpoint was trained on, and as long as --text, for the "
        "recipe `continued`.")
    earlier_dev_text: str | None = fields.string(
        None, "Path of a text to evaluate on, of the same kind as --earlier_text, for the recipe `continued`.")
    text_column: str | None = shared.text_column("document, with a sentence on each line")
    recipe: str = fields.string(
        "albert_tiny_en", "Name of a recipe in albert_tf/recipes/pretraining/, or the path of a JSON file.")


def define_flags() -> None:
    fields.define_fields(Options)


def main() -> None:
    options = fields.from_flags(Options)
    places = {name: getattr(options, name) for name in PLACES if getattr(options, name) is not None}
    configs, recipe = read_recipe(options.recipe)
    for name in placeholders([run.flags for run in recipe.values()]):
        if name not in PLACES:
            raise ValueError(f"the recipe {options.recipe} has an unknown placeholder {{{name}}}; the known ones are "
                             f"{', '.join(PLACES)}")
        if name not in places:
            raise ValueError(f"--{name} is missing: the recipe {options.recipe} uses it")
    planned = [Run(run.script, {name: filled(value, places) for name, value in run.flags.items()})
               for run in recipe.values()]
    for run in planned:
        if options.text_column and run.script in READERS_OF_TEXTS:
            run.flags["text_column"] = options.text_column
    finished = [is_finished(run) for run in planned]  # before anything is written
    stages: list[str] = []
    if all(run.script != "train_vocabulary" for run in planned):
        write_configs(configs, options.output_dir)
    for run, skipped in zip(planned, finished):
        if skipped:
            logging.info("has finished before: %s %s", run.script, shlex.join(arguments(run.flags)))
        else:
            run_script(run.script, **run.flags)
        if run.script == "train_vocabulary":
            pieces = load_model(f"{run.flags['model_prefix']}.model").vocab_size()
            write_configs({name: config.replace(vocab_size=pieces) for name, config in configs.items()},
                          options.output_dir)
        if run.script == "run_pretraining":
            stages.append(run.flags["output_dir"])
            draw_training(stages, os.path.join(options.output_dir, "training.svg"))


def is_finished(run: Run) -> bool:
    """Whether the manifest of a run's output says that it is complete. Commands with an output directory run always.

    These continue what is there, or find that nothing is left to do.
    """
    if run.script not in READERS_OF_TEXTS:
        return False
    output = run.flags.get("output_file") or f"{run.flags['model_prefix']}.model"
    try:
        content = checked_manifest(manifest_path(output))
    except ValueError:  # none, or of an incomplete output
        return False
    made_from = content["made_from"]
    flags = {name: str(value) for name, value in run.flags.items()}
    for name in sorted({*flags, *made_from["flags"]}):
        if len({value and absolute(value) for value in (flags.get(name), made_from["flags"].get(name))}) > 1:
            raise ValueError(f"{output} was made with another --{name}, and would be replaced: choose another "
                             "--output_dir, or repeat the earlier flags")
    for path, digest in made_from["digests"].items():
        if os.path.exists(path) and fingerprint(path) != digest:
            raise ValueError(f"{path} has changed since {output} was made from it: choose another --output_dir, or "
                             "restore the file")
    return True


def write_configs(configs: dict[str, AlbertConfig], directory: str) -> None:
    for name, config in configs.items():
        write_text(os.path.join(directory, f"{name}.json"), config.to_json_string())


def read_recipe(recipe: str) -> tuple[dict[str, AlbertConfig], dict[str, Run]]:
    """The configs and the runs of a recipe, by name."""
    named = RECIPES / f"{recipe}.json"
    path = str(named) if named.is_file() else recipe
    content = check_keys(read_json_object(path), path, dict(runs=dict), dict(configs=dict))
    configs = {name: _changed_preset(config, f"{path}: configs.{name}")
               for name, config in content.get("configs", {}).items()}
    return configs, parse_runs(content["runs"], path)


def _changed_preset(content: dict, place: str) -> AlbertConfig:
    check_keys(content, place, dict(like=str, changes=dict))
    with errors_at(place):
        return AlbertConfig.from_dict({**AlbertConfig.preset(content["like"]).to_dict(), **content["changes"]})


def draw_training(directories: list[str], path: str) -> None:
    """Draws the accuracies of consecutive pre-training runs, over the total number of steps."""
    from albert_tf.pretraining.task import PretrainingTask
    from albert_tf.training.evaluation import read_history

    histories, first_step = {}, 0
    for directory in directories:
        rows = sorted(read_history(directory, PretrainingTask.best_metric), key=lambda row: row["global_step"])
        histories[os.path.basename(directory)] = [dict(row, step=first_step + row["global_step"]) for row in rows]
        first_step += rows[-1]["global_step"] if rows else 0
    metrics = dict(masked_lm_accuracy="masked-LM accuracy", sentence_order_accuracy="sentence-order accuracy")
    write_charts(path, [
        Panel(title, [Curve([(row["step"], row[metric]) for row in rows], name.replace("_", " "))
                      for name, rows in histories.items() if rows and metric in rows[0]], "steps")
        for metric, title in metrics.items()])

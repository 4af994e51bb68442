"""Pre-trains a model from raw text by a recipe: vocabulary, records, training, model.

    python -m albert_tf pretrain_from_text --recipe=quick --text=text.txt --output_dir=tiny

The recipe `quick` takes minutes, on any text from half a megabyte; `albert_tiny_en` takes hours. The last line of
the output compares how well the model fills masks in held-out text with a guess by the frequencies of pieces. Without
--dev_text, a part of --text is held out: --text is split into train.txt and dev.txt in --output_dir.

A recipe is a JSON file: runs of the other scripts by name, with their flags. A run with "like" has the flags of an
earlier run, unless it sets them. "configs" has presets with changes, which are written into --output_dir
with the size of the recipe's vocabulary. mixed_bfloat16 in a recipe becomes float32 on a device without it.

If the script is started again, it continues where it stopped; if a text was changed in the meantime, this is an error.
So is another text with the same --output_dir: it would replace the vocabulary and the records. The recipe `continued`
starts from --init_checkpoint and trains on two texts: a new one, and one like the earlier pre-training's, so that the
model keeps what it knows.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex
from typing import TYPE_CHECKING, Annotated, Iterator

from absl import logging

import albert_tf
from albert_tf.commands import flags
from albert_tf.commands.command_runs import Run, arguments, filled, parse_runs, placeholders, run_script
from albert_tf.config import CONFIG_NAME, AlbertConfig
from albert_tf.data.feature_table import fingerprint
from albert_tf.data.rows import read_document_lines, text_column_help
from albert_tf.devices import fast_precision
from albert_tf.options import Config
from albert_tf.text.pieces import load_model
from albert_tf.utils.files import absolute, check_keys, check_no_wildcard, errors_at, expand_globs, read_json_object
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.manifests import checked_manifest, manifest_path, output_set
from albert_tf.utils.outputs import write_text

if TYPE_CHECKING:
    from albert_tf.pretraining.reading import RecordSet

RECIPES = pathlib.Path(albert_tf.__file__).parent / "recipes" / "pretraining"

READERS_OF_TEXTS = ("train_vocabulary", "create_pretraining_data")  # the scripts that have --text_column
PLACEHOLDERS = ("text", "dev_text", "init_checkpoint", "earlier_text", "earlier_dev_text", "output_dir")
CASING = dict(do_lower_case=True, keep_accents=False)  # flags of the vocabulary, and their defaults
# Without --dev_text, blocks of as many lines are held out of every 200 lines, or of more if that is over 2,000 lines.
HELD_OUT_BLOCK, HELD_OUT_EVERY, HELD_OUT_LINES = 10, 200, 2000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Config):
    text: Annotated[str, "Path of the text to train on, with one sentence per line and a blank line between documents."]
    dev_text: Annotated[
        str | None, "Path of the text to evaluate on, in the same format as --text. Default: 10 of every 200 lines of "
        "--text (at most 2,000 lines in all), which are not trained on."] = None
    output_dir: Annotated[str, "Directory of the vocabulary, the records, the checkpoints and the model."]
    init_checkpoint: Annotated[
        str | None, "Weights to start from, for the recipe `continued`: albert_tiny_en, a folder, or a checkpoint. "
        "They must have a SentencePiece model."] = None
    earlier_text: Annotated[
        str | None, "Path of a text like the one that --init_checkpoint was trained on, and as long as --text, for the "
        "recipe `continued`."] = None
    earlier_dev_text: Annotated[
        str | None, "Path of a text to evaluate on, of the same kind as --earlier_text, for the recipe "
        "`continued`."] = None
    text_column: Annotated[str | None, text_column_help("document, with a sentence on each line")] = None
    do_lower_case: Annotated[bool, "Whether the vocabulary that the recipe makes is lower-cased."] = True
    keep_accents: Annotated[
        bool, "Whether this vocabulary keeps accents, which German, French and most other languages need."] = False
    recipe: Annotated[
        str, "Name of a recipe in albert_tf/recipes/pretraining/, or the path of a JSON file."] = "albert_tiny_en"


def main(options: Options) -> None:
    check_no_wildcard(options.output_dir)
    values = {name: getattr(options, name) for name in PLACEHOLDERS if getattr(options, name) is not None}
    configs, recipe = read_recipe(options.recipe)
    names = placeholders([run.flags for run in recipe.values()])
    split: dict[str, str] = {}  # the files to make of --text
    if options.dev_text is None and "dev_text" in names:
        split = {name: os.path.join(options.output_dir, f"{name}.txt") for name in ("train", "dev")}
        values.update(text=split["train"], dev_text=split["dev"])
    for name in names:
        if name not in PLACEHOLDERS:
            raise ValueError(f"the recipe {options.recipe} has an unknown placeholder {{{name}}}; the known ones are "
                             f"{', '.join(PLACEHOLDERS)}")
        if name not in values:
            raise ValueError(f"--{name} is missing: the recipe {options.recipe} uses it")
    planned = [Run(run.script, {name: filled(value, values) for name, value in run.flags.items()})
               for run in recipe.values()]
    casing = {name: getattr(options, name) for name in CASING if getattr(options, name) != CASING[name]}
    for name in casing if all(run.script != "train_vocabulary" for run in planned) else ():
        raise ValueError(f"--{name} is for a new vocabulary, and the recipe {options.recipe} makes none")
    for run in planned:
        if run.script == "train_vocabulary":
            run.flags.update(casing)
        if options.text_column and not split and run.script in READERS_OF_TEXTS:
            run.flags["text_column"] = options.text_column
        if run.flags.get("precision") == "mixed_bfloat16":
            run.flags["precision"] = fast_precision()
    is_split = not split or is_made(split["train"], dict(text=options.text, text_column=options.text_column))
    finished = [is_finished(run) for run in planned]  # before anything is written
    if not is_split:
        split_text(options, split["train"], split["dev"])
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
    stages = [run.flags for run in planned if run.script == "run_pretraining"]
    if stages and {"input_file", "eval_input_file"} <= stages[-1].keys():
        report(stages[-1])


def split_text(options: Options, train: str, dev: str) -> None:
    """Writes the lines of --text that are trained on, and those that are held out, each block as a document."""
    paths = expand_globs(options.text)

    def lines() -> Iterator[str]:
        return (line for path in paths for line in read_document_lines(path, options.text_column))

    every = max(HELD_OUT_EVERY, sum(1 for _ in lines()) * HELD_OUT_BLOCK // HELD_OUT_LINES)
    with output_set({train: [train, dev]}) as outputs:
        with (tf.io.gfile.GFile(outputs.temporary[train], "w") as training,
              tf.io.gfile.GFile(outputs.temporary[dev], "w") as held_out):
            for number, line in enumerate(lines()):
                (held_out if number % every < HELD_OUT_BLOCK else training).write(f"{line}\n")
                if number % every == HELD_OUT_BLOCK - 1:
                    held_out.write("\n")
                    training.write("\n")
        values = {name: value for name in ("text", "text_column") if (value := getattr(options, name)) is not None}
        outputs.made_from = dict(flags.origin(paths), flags=values)


def is_finished(run: Run) -> bool:
    """Whether the manifest of a run's output says that it is complete."""
    if run.script not in READERS_OF_TEXTS:  # these continue what is there, or find that nothing is left to do
        return False
    return is_made(run.flags.get("output_file") or f"{run.flags['model_prefix']}.model", run.flags)


def is_made(output: str, flag_values: dict) -> bool:
    """Whether an output is complete. Raises ValueError if it was made otherwise, or of files that changed."""
    try:
        content = checked_manifest(manifest_path(output))
    except ValueError:  # none, or of an incomplete output
        return False
    made_from = content["made_from"]
    if not {"flags", "digests"} <= made_from.keys():
        raise ValueError(f"{output} was made from Python and not by a command, and would be replaced: choose another "
                         "--output_dir, or remove it")
    flags = {name: str(value) for name, value in flag_values.items() if value is not None}
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
    configs = {}
    for name, config in content.get("configs", {}).items():
        check_keys(config, f"{path}: configs.{name}", dict(like=str, changes=dict))
        with errors_at(f"{path}: configs.{name}"):
            preset = AlbertConfig.preset(config["like"])
            configs[name] = AlbertConfig.from_dict({**preset.to_dict(), **config["changes"]})
    return configs, parse_runs(content["runs"], path)


def report(flags: dict) -> None:
    """Prints how well a run fills the masks of its first evaluation set, and how well piece frequencies would."""
    from albert_tf.pretraining.pretrain import PretrainingTask
    from albert_tf.pretraining.reading import frequency_baseline, lengths_of_records, open_records
    from albert_tf.training.evaluation import best_of, read_history

    directory, metric = flags["output_dir"], PretrainingTask.best_metric
    best = best_of(read_history(directory, metric), metric)
    if best is None:
        return
    vocab_size = AlbertConfig.from_json_file(os.path.join(directory, CONFIG_NAME)).vocab_size

    def records(value: str | list[str]) -> RecordSet:
        paths = expand_globs(value[0] if isinstance(value, list) else value)
        lengths = lengths_of_records(paths[0])
        assert lengths is not None  # the run has read them
        return open_records(paths, *lengths, vocab_size)

    accuracy, loss = frequency_baseline(records(flags["input_file"]), records(flags["eval_input_file"]), vocab_size)
    print(f"masked pieces of the text to evaluate on: accuracy {best[metric]:.3f} (always the most frequent piece: "
          f"{accuracy:.3f}), cross entropy {best['masked_lm_loss']:.2f} nats (frequencies of pieces: {loss:.2f})")

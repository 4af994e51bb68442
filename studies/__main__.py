"""Runs a study of the ALBERT paper and renders its results.

    python -m studies --list
    python -m studies sentence_objective --text=novels_train.txt --dev_text=novels_dev.txt --glue_dir=glue \\
        --squad_dir=squad --output_dir=studies_output
    python -m studies speed
    python -m studies sizes

A study that is started again continues where it stopped. Models that another study has trained are not trained again.
<output_dir>/NAME.SCALE/results.md and results.svg are written after each model. Commands that run at the same time must
not train the same models.
"""

from __future__ import annotations

import dataclasses
import os

from absl import flags, logging

from albert_tf.commands import app
from albert_tf.utils.files import make_directory
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.outputs import write_text
from studies.finished_runs import FINISHED, ScriptRuns
from studies.planning import Data, Trial, measured_columns, plan
from studies.rendering import descriptions, write_report
from studies.results import collect
from studies.sizes import print_sizes
from studies.speed import print_speed
from studies.study import SCALES, Study, parse_override, read_study

flags.DEFINE_bool("list", False, "Whether to print the question, the paper's answer and the cost of each study.")
flags.DEFINE_enum("scale", "small", SCALES, "Size of the models and runs. small takes hours on two processor cores; "
                  "paper has the paper's hyper-parameters and needs accelerators.")
flags.DEFINE_multi_string("only", None, "Label of a configuration to train, or text in the labels of several. May be "
                          "repeated. Default: all configurations. The report has all configurations that have "
                          "finished.")
flags.DEFINE_multi_string("set", [], "A setting for all configurations: RUN.FLAG=VALUE for a run of the scale, as in "
                          "pretraining.num_train_steps=100, or config.FIELD=VALUE. May be repeated.")
flags.DEFINE_string("output_dir", "studies_output", "Folder of the runs and the reports.")
flags.DEFINE_string("text", None, "Path of the text to train on: one sentence on each line, a blank line between "
                    "documents.")
flags.DEFINE_string("dev_text", None, "Path of the text to evaluate on, in the format of --text.")
flags.DEFINE_string("additional_text", None, "Path of text of other kinds, in the format of --text, for the study "
                    "additional_data.")
flags.DEFINE_string("glue_dir", None, "Folder that has the folders of SST-2, RTE and STS-B. Default: these tasks are "
                    "not measured.")
flags.DEFINE_string("squad_dir", None, "Folder of SQuAD's train-v1.1.json and dev-v1.1.json. Default: SQuAD is not "
                    "measured.")
flags.DEFINE_string("pairs", None, "Minimal pairs, in the format of --pairs of score_sentences. Default: BLiMP is "
                    "not measured.")
FLAGS = flags.FLAGS
PLACES = ("text", "dev_text", "additional_text", "glue_dir", "squad_dir", "pairs")


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of the same names. data has the paths, overrides has the settings of --set, shows_list is --list."""

    shows_list: bool
    scale: str
    only: list[str] | None
    overrides: dict
    data: Data


def options_from_flags() -> Options:
    data = Data(FLAGS.output_dir, {name: FLAGS[name].value for name in PLACES})
    return Options(FLAGS.list, FLAGS.scale, FLAGS.only, dict(map(parse_override, FLAGS.set)), data)


def main(name: str | None = None):
    options = options_from_flags()
    if options.shows_list:
        print_list(options)
    elif name == "speed":
        print_speed()
    elif name == "sizes":
        print_sizes()
    elif name:
        run_study(options, read_study(name, options.scale, options.overrides))
    else:
        raise ValueError("the name of a study is missing: python -m studies NAME; --list prints all studies")


def print_list(options: Options) -> None:
    # The estimates do not depend on the data, so a missing path is replaced by its name. Measured times are found only
    # with the paths of the runs.
    places = {name: place or name for name, place in options.data.places.items()}
    output_dir = options.data.output_dir
    finished = ScriptRuns(output_dir) if tf.io.gfile.exists(os.path.join(output_dir, FINISHED)) else None
    print("\n\n".join(descriptions(options.scale, Data(output_dir, places), finished)))


def run_study(options: Options, study: Study) -> None:
    tf.config.set_visible_devices([], "GPU")  # TensorFlow would reserve memory that the scripts need
    columns = measured_columns(study, options.data)
    trials = plan(study, options.data)
    labels = chosen_labels(list(study.configurations), options.only)
    check_places(options.data)
    chosen = [trial for trial in trials if trial.label in labels]
    directory = os.path.join(options.data.output_dir, f"{study.name}.{study.scale}")
    make_directory(directory)
    runs = ScriptRuns(options.data.output_dir)
    for number, trial in enumerate(chosen, start=1):
        logging.info("%s, %d of %d: %s, seed %d", study.name, number, len(chosen), trial.label, trial.seed)
        if run_trial(trial, runs) or trial is chosen[-1]:
            write_report(study, collect(trials, runs, columns), columns, directory)
    print(f"{directory}/results.md")


def chosen_labels(labels: list[str], only: list[str] | None) -> list[str]:
    """The labels that --only chooses: the label that is equal to its text, else all labels that contain it.

    Raises:
      ValueError: a text chooses nothing.
    """
    if not only:
        return labels
    chosen: list[str] = []
    for text in only:
        matches = [text] if text in labels else [label for label in labels if text in label]
        if not matches:
            raise ValueError(f"--only={text} matches no configuration. The configurations are: {'; '.join(labels)}")
        chosen += matches
    return chosen


def check_places(data: Data) -> None:
    """Checks that the user's data exist, since some are read only after hours of pre-training.

    Raises:
      ValueError: there is nothing at a path; the message has its flag.
    """
    for name, place in data.places.items():
        for path in place.split(",") if place is not None else []:
            if not tf.io.gfile.glob(path):
                raise ValueError(f"--{name}: there is no file or folder {path}")


def run_trial(trial: Trial, runs: ScriptRuns) -> bool:
    """Runs those scripts of a trial that have not finished, and returns whether there were any."""
    for path, config in trial.config_files.items():
        write_text(path, config.to_json_string())
    ran = False
    for run in trial.runs.values():
        make_directory(run.directory)
        ran |= runs.run(run.script, **run.flags)
    return ran


if __name__ == "__main__":
    app.run(main, operands=1)

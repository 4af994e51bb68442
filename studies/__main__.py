"""Runs a study of the ALBERT paper and writes its results.

    python -m studies --list
    python -m studies sentence_objective --text=novels_train.txt --dev_text=novels_dev.txt --glue_dir=glue \\
        --squad_dir=squad --output_dir=studies_output
    python -m studies speed

A study that is started again continues where it stopped. Models that another study has trained are not trained again.
<output_dir>/NAME.SCALE/ gets scores.csv, seeds.csv, differences.csv and results.svg after each model. Commands that run
at the same time must not train the same models.
"""

from __future__ import annotations

import os

from absl import flags, logging

from albert_tf.commands import app
from albert_tf.utils.files import make_directory
from albert_tf.utils.imports import tensorflow as tf
from studies.results import write_results
from studies.study import SCALES, Study, plan, read_study, run_trial, study_names

flags.DEFINE_bool("list", False, "Whether to print the question and the paper's answer of each study.")
flags.DEFINE_enum("scale", "small", SCALES, "Size of the models and runs. small takes hours on two processor cores; "
                  "paper has the paper's hyper-parameters and needs accelerators.")
flags.DEFINE_string("output_dir", "studies_output", "Folder of the runs and the results.")
DATA = {
    "text": "Path of the text to train on: one sentence on each line, a blank line between documents.",
    "dev_text": "Path of the text to evaluate on, in the format of --text.",
    "additional_text": "Path of text of other kinds, in the format of --text, for the study additional_data.",
    "glue_dir": "Folder that has the folders of SST-2, RTE and STS-B. Default: these tasks are not measured.",
    "squad_dir": "Folder of SQuAD's train-v1.1.json and dev-v1.1.json. Default: SQuAD is not measured.",
}
for _name, _help in DATA.items():
    flags.DEFINE_string(_name, None, _help)
FLAGS = flags.FLAGS


def main(name: str | None = None) -> None:
    if FLAGS.list:
        for study in (read_study(each, FLAGS.scale) for each in study_names()):
            paper = study.content["paper"]
            print(f"{study.name}: {study.content['question']}\n    paper: {paper['finding']} ({paper['source']})\n")
    elif name == "speed":
        from studies.speed import print_speed
        print_speed()
    elif name:
        run_study(read_study(name, FLAGS.scale))
    else:
        raise ValueError("the name of a study is missing: python -m studies NAME; --list prints all studies")


def run_study(study: Study) -> None:
    tf.config.set_visible_devices([], "GPU")  # TensorFlow would reserve memory that the commands need
    data = {name: FLAGS[name].value for name in DATA}
    for name, paths in data.items():  # some are read only after hours of pre-training
        for path in paths.split(",") if paths is not None else []:
            if not tf.io.gfile.glob(path):
                raise ValueError(f"--{name}: there is no file or folder {path}")
    trials = plan(study, data, FLAGS.output_dir)
    directory = os.path.join(FLAGS.output_dir, f"{study.name}.{FLAGS.scale}")
    make_directory(directory)
    differences = write_results(study, trials, directory)
    for number, trial in enumerate(trials, start=1):
        logging.info("%s, %d of %d: %s, seed %d", study.name, number, len(trials), trial.label, trial.seed)
        if run_trial(trial):
            differences = write_results(study, trials, directory)
    for _, label, other, title, difference, low, high in differences:
        interval = "one seed, so it may be chance" if low == "" else f"{low:+} to {high:+}"
        print(f"{title}: {label} − {other}: {difference:+} ({interval})")
    print(f"Limits: {study.content['limits']}\nScores, single seeds and a chart are in {directory}")


if __name__ == "__main__":
    app.run(main, operands=1)

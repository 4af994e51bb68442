"""The commands that fine-tune, as tests use them: their flags by task, and one run of each that all tests share.

The fixture `run_of` of tests/commands/conftest.py gives a Run. Its folder must not change: copy it with `run.copy`.
"""

import json
import pathlib
import shutil
from typing import Any, Callable, NamedTuple

import numpy as np
from pretraining_runs import values_of

LABELS = ("calm", "loud", "odd")
MOODS = dict(name="moods", files={split: f"{split}.jsonl" for split in ("train", "dev", "test")},
             columns=dict(text_a="text", label="moods"), labels=LABELS, multi_label=True, class_weights="balanced",
             metrics=["micro_f1", "macro_f1", "average_precision"])
# A place follows "in"; the long sentence is read through windows.
SENTENCES = [["Ada", "lives", "in", "Paris", "."], ["in", "New", "York", "we", "met", "in", "Rome"], ["He", "left"],
             ["kettles", "stand", "in", "Ghent", ","] * 5]
PLACES = {"Paris": "B-place", "New": "B-place", "York": "I-place", "Rome": "B-place", "Ghent": "B-place"}
TAGS = [[PLACES.get(word, "O") for word in sentence] for sentence in SENTENCES]
TEXTS = ["the name of the file", "a kettle stood on the stove", "he sold the boat", "nobody had filled it"]


class Task(NamedTuple):
    """What a run of a task reads, and what it writes.

    Attributes:
      script: the command.
      flags: the files that it reads, with {golden} and {inputs} for the folders, and lengths.
      name: of the task in messages.
      scores: the metrics, the best checkpoint's first.
      answers: files with an answer for each example, of which the first has numbers.
      settings: of the run, each with a value that a user might set by mistake.
      pipeline, datasets: in the model card.
      numbers: function of the folder: the numbers of the first file of answers, for each example; NaN is no answer.
    """

    script: str
    flags: dict[str, Any]
    name: str
    scores: tuple[str, ...]
    answers: tuple[str, ...]
    settings: dict[str, tuple]
    pipeline: str
    datasets: tuple[str, ...]
    numbers: Callable[[pathlib.Path], np.ndarray]


def rows_of(name):
    return lambda folder: np.loadtxt(folder / name, ndmin=2)


def choices(folder):
    rows = [json.loads(line)["probabilities"] for line in (folder / "predictions.jsonl").read_text().splitlines()]
    return np.array([row + [np.nan] * (5 - len(row)) for row in rows])


LENGTH = dict(max_seq_length=(24, 32))
SQUAD = dict(train_file="{inputs}/squad.json", predict_file="{inputs}/squad.json", max_seq_length=64, doc_stride=24,
             max_query_length=16, num_workers=1)
SQUAD_SETTINGS = dict(doc_stride=(24, 12), max_query_length=(16, 9))
GLUE = dict(data_dir="{golden}/glue", max_seq_length=24)
CLASSES = ("eval_accuracy", "eval_loss", "loss")
TASKS = {
    "classification": Task(
        "run_classifier", dict(GLUE, task_name="rte"), "classification", CLASSES,
        ("test_results.tsv", "submit_results.tsv", "test_predictions.csv"), LENGTH, "text-classification",
        ("RTE/train.tsv", "RTE/dev.tsv"), rows_of("test_results.tsv")),
    "labels": Task(
        "run_classifier", dict(data_dir="{inputs}", task_config="{inputs}/moods.json", max_seq_length=24),
        "classification", ("micro_f1", "macro_f1", "average_precision", *CLASSES),
        ("test_results.tsv", "test_predictions.csv"), LENGTH, "text-classification", ("train.jsonl", "dev.jsonl"),
        rows_of("test_results.tsv")),
    "SQuAD 1.1": Task(
        "run_squad", {**SQUAD, "train_file": "{golden}/squad/dev_v1.json", "predict_file": "{golden}/squad/dev_v1.json",
                      "squad_version": "1.1"}, "SQuAD 1.1", ("f1", "exact_match"),
        ("predictions.json", "nbest_predictions.json"), SQUAD_SETTINGS, "question-answering", ("dev_v1.json",), None),
    "SQuAD 2.0": Task(
        "run_squad", dict(SQUAD, squad_version="2.0"), "SQuAD 2.0",
        ("f1", "exact", "total", "null_score_diff_threshold"),
        ("predictions.json", "nbest_predictions.json", "null_odds.json"), SQUAD_SETTINGS, "question-answering",
        ("squad.json",), lambda folder: np.array(list(json.loads((folder / "null_odds.json").read_text()).values()))),
    "multiple choice": Task(
        "run_race", dict(data_dir="{golden}/race", max_seq_length=48, max_qa_length=24), "multiple choice",
        ("eval_accuracy", "middle_accuracy", "high_accuracy", "eval_loss", "loss"), ("predictions.jsonl",),
        dict(max_qa_length=(24, 8)), "multiple-choice", ("RACE/train", "RACE/dev"), choices),
    "tagging": Task(
        "run_tagging", dict(train_file="{inputs}/places.conll", eval_file="{inputs}/places.conll",
                            predict_file="{inputs}/words.conll", max_seq_length=24), "tagging",
        ("f1", "accuracy", "precision", "recall", "f1/place", "eval_loss", "loss"), ("predictions.conll",), LENGTH,
        "token-classification", ("places.conll",), None),
    "sentence vectors": Task(
        "run_sentence_embeddings", dict(GLUE, pooling="max", normalize=True), "sentence vectors",
        ("spearman", "pearson"), ("test_results.tsv", "submit_results.tsv"), dict(pooling=("max", "cls")),
        "sentence-similarity", ("STS-B/train.tsv", "STS-B/dev.tsv"), rows_of("test_results.tsv")),
}
# Of all runs: short, without caches beside the data, and with larger steps than the defaults, so that models differ.
TRAINING = dict(train_batch_size=4, train_step=2, warmup_step=0, save_checkpoints_steps=1, learning_rate=0.01)


def write_inputs(folder, golden):
    """Writes the files of TASKS that are not in golden/."""
    words = "nobody had filled the kettle that stood on the stove".split()
    rows = [dict(text=" ".join(words[i % 5 : i % 5 + 4]), moods=[name for j, name in enumerate(LABELS) if i >> j & 1])
            for i in range(12)]
    for split in ("train", "dev", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "moods.json").write_text(json.dumps(MOODS))
    shutil.copy(golden / "squad/train.json", folder / "squad.json")
    write_tagged(folder / "places.conll", TAGS)
    write_tagged(folder / "words.conll")
    (folder / "lines.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    (folder / "pairs.tsv").write_text("".join(f"{text}\t{text.upper()} again\n" for text in TEXTS))


def write_tagged(path, tags=None):
    """Writes SENTENCES with tags, or the words alone."""
    sentences = zip(SENTENCES, tags or [[None] * len(sentence) for sentence in SENTENCES])
    path.write_text("\n".join("".join(word + (f"\t{tag}\n" if tag else "\n") for word, tag in zip(*each))
                              for each in sentences))


class Run:
    """A trained run. Called with flags, it runs the command with those of the task, and returns what it printed."""

    def __init__(self, task, session, flags, path):
        self.task, self.path, self._session, self._flags = task, path, session, flags

    def __call__(self, expect=0, script=None, **flags):
        return self._session.run(script=script or self.task.script, expect=expect,
                                 **{**({} if script else self._flags), **flags})

    def fails(self, **flags):
        """Runs a command that must fail, and returns its only line of an error."""
        printed = self(expect=1, **flags)
        line, = [line for line in printed.splitlines() if ": error: " in line]
        assert line.startswith(f"{flags.get('script', self.task.script)}: error: ") and "Traceback" not in printed
        return line

    def copy(self, path):
        shutil.copytree(self.path, path)
        return path

    def answers(self, folder=None):
        """The content of the files of answers."""
        return {name: ((folder or self.path) / name).read_text("utf-8") for name in self.task.answers}


def results_of(folder, name="eval_results"):
    return json.loads((folder / f"{name}.json").read_text())


def end_of(folder, step=2):
    """All values of a checkpoint."""
    return values_of(folder / f"model.ckpt-{step}")


def are_equal(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def files_in(folder):
    """The content of the files that describe a run, and of its checkpoints."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and not path.name.startswith(("eval_", "best_trial", "model.ckpt-best"))
            and "events" not in path.name}

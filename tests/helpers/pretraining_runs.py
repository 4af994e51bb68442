"""Runs of run_pretraining.py for tests: a tiny model, with all options whose state a restart must restore. And recipes
of pretrain_from_text that take seconds."""

import dataclasses
import json
import pathlib

import numpy as np
import tensorflow as tf
from script_process import ScriptProcess, deterministic, start
from synthetic_records import VOCAB_SIZE, write_records
from tiny import TINY_TEXT

import albert_tf
from albert_tf.commands.command_runs import parse_runs

CONFIG = TINY_TEXT.replace(vocab_size=VOCAB_SIZE, num_hidden_layers=2, max_position_embeddings=16,
                           hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1).to_dict()
RECIPES = pathlib.Path(albert_tf.__file__).parent / "recipes" / "pretraining"
WORDS = "the old king saw a ship and the young queen sang of a cold sea while no man slept on that long night".split()
# Flags of a recipe's commands.
SHORTER = dict(vocab_size=50, max_seq_length=16, max_predictions_per_seq=5, train_batch_size=4, eval_batch_size=4,
               num_train_steps=2, num_warmup_steps=1, save_checkpoints_steps=1, precision="float32", num_workers=1)


def read_runs(recipe):
    return parse_runs(json.loads((RECIPES / f"{recipe}.json").read_text())["runs"], recipe)


def write_tiny_recipe(recipe: str, path: pathlib.Path) -> dict:
    """Writes one of the package's recipes with a tiny model and two steps in each stage. Returns its commands."""
    content = json.loads((RECIPES / f"{recipe}.json").read_text())
    tiny = {**CONFIG, "vocab_size": 50, "num_hidden_layers": 4, "max_position_embeddings": 100}
    for config in content.get("configs", {}).values():
        config["changes"] = {**tiny, **config["changes"]}
    runs = read_runs(recipe)
    for run in runs.values():
        run.flags.update({name: value for name, value in SHORTER.items() if name in run.flags})
    content["runs"] = {name: dataclasses.asdict(run) for name, run in runs.items()}
    path.write_text(json.dumps(content))
    return runs


def write_synthetic_text(path):
    """Writes ten documents of eight sentences, one a line, to a pathlib.Path, and returns it."""
    sentences = [" ".join(WORDS[(7 * i + j * j) % len(WORDS)] for j in range(i % 5 + 4)) for i in range(80)]
    path.write_text("\n\n".join("\n".join(sentences[start : start + 8]) for start in range(0, 80, 8)))
    return path


class Runs:
    """A folder with a config and records, and runs on them.

    By default 12 steps of 8 examples over 40 records, so that epochs end within batches.
    """

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.flags = dict(
            albert_config_file=self.write_config(),
            input_file=write_records(folder / "train.tfrecord", 40, objective="sop"),
            max_seq_length=16, max_predictions_per_seq=3, train_batch_size=8, eval_batch_size=8, num_train_steps=12,
            num_warmup_steps=2, save_checkpoints_steps=3, learning_rate=0.01)

    def write_config(self, name: str = "config.json", **changes) -> str:
        path = self.folder / name
        path.write_text(json.dumps({**CONFIG, **changes}))
        return str(path)

    def start(self, output_dir: str, environment=None, **flags) -> ScriptProcess:
        flags = {**self.flags, "output_dir": self.folder / output_dir, **flags}
        return start("run_pretraining", flags, environment=environment, merged=True, prepare=deterministic)

    def run(self, output_dir: str, environment=None, expect=0, **flags) -> str:
        """Runs to the end and returns what was printed."""
        with self.start(output_dir, environment, **flags) as process:
            printed, _ = process.communicate()
        assert process.returncode == expect, printed
        return printed

    def end_of(self, output_dir: str, step: int = 12) -> dict[str, np.ndarray]:
        return values_of(self.folder / output_dir / f"model.ckpt-{step}")


def values_of(prefix) -> dict[str, np.ndarray]:
    """All values of a checkpoint."""
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in name}


def assert_bit_equal(a: dict, b: dict) -> None:
    assert a.keys() == b.keys() and len(a) > 50
    different = [name for name in a if not np.array_equal(a[name], b[name])]
    assert not different

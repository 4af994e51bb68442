"""A script reads its flags in one function; every other function takes the options that it returns."""

import ast
import dataclasses

import pytest
from absl import flags
from absl.testing import flagsaver
from in_process import REPOSITORY, loaded

from albert_tf.commands.shared_flags import from_flags, run_options
from albert_tf.commands.usage import NAMES

SCRIPTS = NAMES
COMMANDS = REPOSITORY / "albert_tf/commands"


def readers_of_flags(source: str) -> set:
    """The outermost functions that read FLAGS, and None for the module itself. `FLAGS = flags.FLAGS` does not count."""
    readers = set()
    for statement in ast.parse(source).body:
        is_function = isinstance(statement, (ast.FunctionDef, ast.ClassDef))
        reads = any("FLAGS" in (getattr(node, "id", None), getattr(node, "attr", None)) for node in ast.walk(statement))
        if reads and ast.unparse(statement) != "FLAGS = flags.FLAGS":
            readers.add(statement.name if is_function else None)
    return readers


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_reads_flags_in_one_function(script):
    readers = readers_of_flags((COMMANDS / f"{script}.py").read_text("utf-8"))
    assert readers in ({"options_from_flags"}, {"main"}, set())  # set(): all of them are fields of its options


def test_the_package_reads_flags_in_its_modules_of_flags_alone():
    """app.py reads --verbosity, which is absl's, and usage.py lists the flags without reading their values."""
    readers = {path.name for path in REPOSITORY.glob("albert_tf/**/*.py")
               if path.stem not in NAMES and readers_of_flags(path.read_text("utf-8"))}
    assert readers == {"app.py", "shared_flags.py", "finetuning.py", "usage.py"}


def test_functions_that_read_flags_are_found():
    source = "FLAGS = flags.FLAGS\ndef a(): return FLAGS.x\nclass B:\n  def c(self): return FLAGS['x']\ndef d(): pass\n"
    assert readers_of_flags(source) == {"a", "B"}
    assert readers_of_flags("def e(): return lambda: flags.FLAGS.x\nx = FLAGS.x\n") == {"e", None}


def test_fields_have_the_values_of_the_flags_of_their_names():
    @dataclasses.dataclass(frozen=True)
    class Options:
        verbosity: int
        made: str
        not_a_flag: int = 7

    with flagsaver.flagsaver(verbosity=-1):
        assert from_flags(Options, made="here") == Options(-1, "here", 7)
        assert from_flags(Options, made="here", verbosity=1).verbosity == 1
    with pytest.raises(TypeError, match="made"):
        from_flags(Options)


@pytest.mark.parametrize("arguments, interval", [
    (["--num_train_steps=125000"], 5000), (["--num_train_steps=25000"], 5000), (["--num_train_steps=24000"], 4800),
    (["--num_train_steps=7557"], 1500), (["--num_train_steps=12"], 2), (["--num_train_steps=3"], 1),
    (["--num_train_steps=12", "--save_checkpoints_steps=5000"], 5000),
    (["--num_train_steps=12", "--save_checkpoints_steps=9"], 9)])
def test_a_short_run_is_evaluated_five_times_unless_the_flag_says_otherwise(arguments, interval):
    with loaded("run_pretraining"), flagsaver.flagsaver():
        flags.FLAGS(["run_pretraining", "--output_dir=run", *arguments])
        assert run_options().save_checkpoints_steps == interval


def test_the_interval_of_a_recipe_is_kept():
    with loaded("run_race"), flagsaver.flagsaver():
        flags.FLAGS.set_default("save_checkpoints_steps", 90)
        flags.FLAGS(["run_race", "--output_dir=run"])
        assert run_options(num_train_steps=100).save_checkpoints_steps == 90

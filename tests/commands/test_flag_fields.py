"""Flags as the fields of a dataclass, and the kinds of flags that absl does not have."""

import dataclasses

import pytest
from absl import flags
from absl.testing import flagsaver
from in_process import REPOSITORY, loaded

from albert_tf.commands import flag_fields as fields, run_classifier
from albert_tf.commands.flag_fields import define_float, define_integer, from_flags


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


NOT_FINITE = ["nan", "NaN", "inf", "-inf", "Infinity", "1e999", "1_0.5", float("nan"), float("inf"), 10**400]


@pytest.fixture(scope="module")
def flag():
    define_float("test_rate", 0.5, "A rate.", lower_bound=0.0, upper_bound=2.0)
    return flags.FLAGS["test_rate"]


@pytest.fixture(scope="module")
def count():
    define_integer("test_count", 1, "A count.", 1, 100)
    return flags.FLAGS["test_count"]


@pytest.mark.parametrize("value", NOT_FINITE, ids=lambda value: str(value)[:9])
def test_a_flag_that_is_not_finite_is_refused_on_the_command_line_and_in_a_recipe(flag, value):
    with pytest.raises(flags.IllegalFlagValueError, match="flag --test_rate=.*: expected a finite number"):
        flag.parse(value)
    with pytest.raises(flags.IllegalFlagValueError, match="flag --test_rate=.*: expected a finite number"):
        flags.FLAGS.set_default("test_rate", value)


def test_a_flag_keeps_its_bounds_and_its_text(flag):
    for value in ("-0.1", "2.1"):
        with pytest.raises(flags.IllegalFlagValueError):
            flag.parse(value)
    flag.parse("1e-05")
    assert flag.value == 1e-05 and flag.serialize() == "--test_rate=1e-05"


@pytest.mark.parametrize("value", ["1_0", "0x10", "1e1", "ten"])
def test_a_whole_number_has_digits_alone(count, value):
    with pytest.raises(flags.IllegalFlagValueError, match="flag --test_count=.*: invalid literal for int"):
        count.parse(value)


def test_no_script_defines_a_float_that_may_be_infinite():
    sources = [*REPOSITORY.glob("*.py"), *REPOSITORY.glob("albert_tf/**/*.py"), *REPOSITORY.glob("benchmarks/**/*.py")]
    assert not [path.name for path in sources if "flags.DEFINE_float(" in path.read_text(encoding="utf-8")]


def test_no_command_defines_a_whole_number_that_may_have_an_underscore():
    commands = REPOSITORY.glob("albert_tf/commands/*.py")
    assert not [path.name for path in commands if "flags.DEFINE_integer(" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("script, values, message", [
    ("run_classifier", dict(distillation_alpha=0.9), "--distillation_alpha=0.9 has no effect without --teacher"),
    ("run_tagging", dict(distillation_temperature=2), "--distillation_temperature=2.0 has no effect without --teacher"),
    ("run_squad", dict(distillation_alpha=0), "--distillation_alpha=0.0 has no effect without --teacher_checkpoint"),
    ("run_classifier", dict(max_windows=4), "--max_windows=4 has no effect without --long_texts=mean or max"),
    ("run_classifier", dict(doc_stride=9, long_texts="truncate"), "--doc_stride=9 has no effect without --long_texts="),
    ("run_classifier", dict(threshold_to_export=0.7), "--threshold_to_export=0.7 has no effect without --export_dir"),
    ("run_sentence_embeddings", dict(temperature=0.1),
     "--temperature=0.1 has no effect without --objective=pairs or simcse")])
def test_a_flag_without_effect_is_an_error(script, values, message, tmp_path, capsys):
    of_the_task = dict(task_name="rte") if script == "run_classifier" else {}
    with loaded(script) as run:
        assert run(output_dir=tmp_path, do_train=True, albert_config_file="albert_tiny", **of_the_task, **values) == 1
    assert message in capsys.readouterr().err


def test_a_flag_that_is_set_to_its_default_needs_no_other():
    with loaded("run_classifier"), flagsaver.flagsaver():
        flags.FLAGS(["run_classifier", "--output_dir=out", "--max_windows=8", "--distillation_alpha=0.5"])
        options = fields.from_flags(run_classifier.DistillationOptions)
    assert options.distillation_alpha == 0.5

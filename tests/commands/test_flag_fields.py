"""Flags as the fields of a dataclass, and the kinds of flags that absl does not have."""

import dataclasses

import pytest
from absl import flags
from absl.testing import flagsaver
from in_process import REPOSITORY

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

"""Makes flags of a config, and the config of the flags (albert_tf/options.py).

    flags.define(SquadConfig)                  # before the command line is parsed
    config = flags.read(SquadConfig)           # after it

In the package, only app.py, which handles the command line itself, also reads flags.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import pathlib
import re
from typing import Any, Iterable, Mapping, TypeVar

from absl import flags

from albert_tf.data.feature_table import fingerprint
from albert_tf.options import COMMAS, NO_PATHS, Config, Option, declared
from albert_tf.utils.bounds import Bounds, OneOf, Range
from albert_tf.utils.files import is_remote, read_json_object
from albert_tf.utils.imports import tensorflow as tf

FLAGS = flags.FLAGS
flags.disclaim_key_flags()  # a flag belongs to the command that calls these functions
AnyConfig = TypeVar("AnyConfig", bound=Config)
GROUPS = ("Model", "Runs", "Training", "Teacher", "Devices", "Export")  # titles in --help, after "This command"
RECIPES = pathlib.Path(__file__).parents[1] / "recipes"
# By a recipe's flag: the flags of the command line that it gives way to. Its warm-up belongs to its number of steps.
_REPLACED_BY = {"train_step": ("num_train_epochs",), "num_train_epochs": ("train_step",),
                "warmup_step": ("warmup_proportion", "num_train_epochs", "train_step"),
                "warmup_proportion": ("warmup_step",)}
_HOME = re.compile(r"(^|[,=] *)(~[\w.-]*)(?=[/,]|$)")  # at the start of a path: ~/a,~/b or name=~/a
GROUP_OF: dict[str, str | None] = {}  # the title under which --help lists a flag; None for the command's flags
_ALIASED: dict[str, str] = {}  # the names of flags, by their other names
# absl's messages about a value, and what they mean.
_VALUES = (
    (r"flag --(\w+)=(.*): invalid literal for int\(\).*", r"--\1 must be a whole number. Received: \2"),
    (r"flag --(\w+)=(.*): could not convert string to float.*", r"--\1 must be a number. Received: \2"),
    (r"flag --(\w+)=(.*): \('Non-boolean argument to boolean flag'.*", r"--\1 must be true or false. Received: \2"),
    (r"flag --(\w+)=(.*): value should be one of <(.*)>", r"--\1 must be one of \3. Received: \2"),
    (r"flag --(\w+)=(.*): \S+ is not (an? .*)", r"--\1 must be \3. Received: \2"),
    (r"flag --(\w+)=\S*: it (is required|must not be empty)", r"--\1 \2"),
    (r"Missing value for flag --?(\w+).*", r"--\1 has no value"),
    (r"flag (--\w+=.*)", r"\1"),
)


def define(config_class: type[Config]) -> None:
    """Defines a flag for each option of a config and of its parts, and for each alias."""
    for option, default in declared(config_class):
        _define(option, default)
        GROUP_OF[option.name] = option.group
    for alias, name in config_class.ALIASES.items():
        flags.DEFINE_alias(alias, name)
        GROUP_OF[alias] = GROUP_OF[name]
    _ALIASED.update(config_class.ALIASES)


def define_required(name: str, help: str) -> None:
    """Defines a string flag that must be set, and not be empty as in `--output_dir=$UNSET`."""
    def check(value: str | None) -> bool:
        if not value:
            raise flags.ValidationError("it is required" if value is None else "it must not be empty")
        return True

    flags.DEFINE_string(name, None, help)
    flags.register_validator(name, check)


def define_float(name: str, default: float | None, help: str, lower_bound: float | None = None,
                 upper_bound: float | None = None) -> None:
    """flags.DEFINE_float for finite numbers."""
    flags.DEFINE(_FiniteNumber(lower_bound, upper_bound), name, default, help, serializer=flags.ArgumentSerializer())


def define_integer(name: str, default: int | None, help: str, lower_bound: int, upper_bound: int) -> None:
    """flags.DEFINE_integer for a decimal number."""
    flags.DEFINE(_WholeNumber(lower_bound, upper_bound), name, default, help, serializer=flags.ArgumentSerializer())


def read(config_class: type[AnyConfig]) -> AnyConfig:
    """The config of the flags. Raises ValueError if a value is wrong, or has no effect without another one."""
    recipe = FLAGS.recipe if config_class.HAS_RECIPE else None
    return _config_of_flags(config_class, recipe_values(recipe) if recipe else {})


def expand_home() -> None:
    """Replaces ~ at the start of the paths in flags that are set, since a shell leaves it in --flag=~/path."""
    def expanded(value: Any) -> Any:
        if isinstance(value, list):
            return [expanded(item) for item in value]
        if not isinstance(value, str):
            return value
        return _HOME.sub(lambda match: match[1] + os.path.expanduser(match[2]), value)

    for flag in map(FLAGS.__getitem__, FLAGS):
        if flag.present and getattr(flag, "is_path", True):
            flag.value = expanded(flag.value)


def present() -> dict[str, str]:
    """The flags that are set, as text, by name."""
    return {name: str(flag.value) for name in FLAGS if (flag := FLAGS[name]).present}


def origin(input_files: Iterable[str]) -> dict[str, Any]:
    """Entries of made_from: the flags that are set, as text, and the digests of local input files."""
    return dict(flags=present(), digests={path: fingerprint(path) for path in input_files if not is_remote(path)})


def arguments_of(excluded: Iterable[str]) -> list[str]:
    """The flags that are set, as the arguments of another command, without some."""
    used = (FLAGS[name] for name in FLAGS if FLAGS[name].present)
    return list(dict.fromkeys(flag.serialize() for flag in used if flag.name not in excluded))


def _config_of_flags(config_class: type[AnyConfig], defaults: Mapping[str, Any]) -> AnyConfig:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(config_class):
        name = field.name
        declaration = config_class.DECLARED.get(name)
        if isinstance(declaration, type):
            values[name] = _config_of_flags(declaration, defaults)
        elif declaration:
            value = defaults[name] if name in defaults else FLAGS[name].value
            if isinstance(value, list):
                value = tuple(value)
            values[name] = () if value is None and field.default == () else value
    return config_class(**values)


def recipe_values(recipe: str) -> dict[str, Any]:
    """The values of a recipe, except for flags that the command line sets or replaces."""
    named = RECIPES / f"{recipe.lower()}.json"
    path = str(named) if named.is_file() else recipe
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        names = ", ".join(sorted(file.stem for file in RECIPES.glob("*.json")))
        raise ValueError(f"no recipe {recipe!r}: expected one of {names}, or the path of a JSON file")
    values = {}
    for name, value in read_json_object(path).items():
        if value is None:
            raise ValueError(f"{path}: --{name} has no value")
        if name not in FLAGS:
            unknown = flags.UnrecognizedFlagError(name, suggestions=difflib.get_close_matches(name, FLAGS))
            raise ValueError(f"{path}: {describe_error(unknown)}")
        name = _ALIASED.get(name, name)
        if not any(FLAGS[other].present for other in (name, *_REPLACED_BY.get(name, ()))):
            try:
                values[name] = FLAGS[name].parser.parse(value)
            except (TypeError, ValueError) as error:
                wrong = flags.IllegalFlagValueError(f"flag --{name}={value}: {error}")
                raise ValueError(f"{path}: {describe_error(wrong)}") from error
    return values


def describe_error(error: flags.Error) -> str:
    """What is wrong with the flags, in one line."""
    if isinstance(error, flags.UnrecognizedFlagError):
        suggestions = re.search(r"Did you mean: (.*?) \?", str(error))
        similar = f" (did you mean --{suggestions[1].replace(', ', ' or --')}?)" if suggestions else ""
        return f"unknown flag --{error.flagname.lstrip('-')}{similar}; --help lists all flags"
    message = " ".join(str(error).split())
    for pattern, meaning in _VALUES:
        message, count = re.subn(f"^{pattern}$", meaning, message)
        if count:
            break
    return message


def _define(option: Option, default: Any) -> None:
    """Defines the flag of an option."""
    name, help, limits = option.name, option.help, option.limits
    listed = (list(default) or None) if isinstance(default, tuple) else default
    if default is dataclasses.MISSING:
        define_required(name, help)
    elif isinstance(limits, OneOf):
        (flags.DEFINE_multi_enum if option.is_tuple else flags.DEFINE_enum)(name, listed, limits.values, help)
    elif isinstance(limits, Range):
        define_float(name, default, help, *limits)
    elif isinstance(limits, Bounds) and option.is_tuple:
        flags.DEFINE(_WholeNumbers(limits), name, default, help, serializer=flags.ListSerializer(","))
    elif isinstance(limits, Bounds):
        define_integer(name, default, help, *limits)
    elif option.type is bool:
        flags.DEFINE_bool(name, default, help)
    elif COMMAS in option.marks:
        flags.DEFINE_list(name, listed, help)
    else:
        (flags.DEFINE_multi_string if option.is_tuple else flags.DEFINE_string)(name, listed, help)
    FLAGS[name].is_path = NO_PATHS not in option.marks


class _FiniteNumber(flags.FloatParser):
    """A number. absl itself accepts "nan" and "inf", whatever the bounds."""

    def convert(self, argument: str | float) -> float:
        try:
            value = super().convert(argument)
        except OverflowError:  # a whole number of more than 308 digits
            value = math.inf
        if not math.isfinite(value) or "_" in str(argument):
            raise ValueError("expected a finite number")
        return value


class _WholeNumber(flags.IntegerParser):
    """A decimal number. absl itself reads 1_0 as 10."""

    def convert(self, argument: str | int) -> int:
        if isinstance(argument, str) and not argument.lstrip("+-").isdecimal():
            raise ValueError(f"invalid literal for int(): {argument}")
        return super().convert(argument)


class _WholeNumbers(flags.ArgumentParser):
    syntactic_help = "a comma-separated list of whole numbers"

    def __init__(self, limits: Bounds):
        super().__init__()
        self._limits = limits

    def parse(self, argument: str | Iterable[int]) -> tuple[int, ...]:
        parts = argument.split(",") if isinstance(argument, str) else list(argument)
        parts = [str(part).strip() for part in parts if str(part).strip()]
        if not all(part.isdecimal() and self._limits.lower <= int(part) <= self._limits.upper for part in parts):
            raise ValueError(f"it is not {self.syntactic_help} from {self._limits.lower:,} to {self._limits.upper:,}")
        return tuple(map(int, parts))

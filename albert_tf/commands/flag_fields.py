"""The kinds of flags that absl does not have, and flags that are declared as the fields of a dataclass of options.

A command declares its flags as the fields of its options, which all of its functions take. Flags that commands share
are the fields of a dataclass that the options inherit; its GROUP is their title in --help::

    @dataclasses.dataclass(frozen=True)
    class Options(training_flags.DeviceFlags):
        model: ResolvedModel = fields.made()  # made from several flags
        input_file: str | None = fields.string(None, "Path of the text.")
        top_k: int = fields.integer(5, "Number of pieces to show.", bounds.CANDIDATES)

    def define_flags() -> None:
        fields.define_fields(Options, precision="mixed_bfloat16")  # a default of this command

    def options_from_flags() -> Options:
        return fields.from_flags(Options, model=fields.from_flags(shared_flags.SourceFlags).resolve_model())
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from typing import Any, Callable, Sequence, TypeVar

from absl import flags

from albert_tf.utils import bounds

FLAGS = flags.FLAGS
flags.disclaim_key_flags()  # a flag belongs to the command that calls these functions
AnyOptions = TypeVar("AnyOptions")
FLAG_GROUPS = ("Model", "Runs", "Training", "Devices", "Export")
_GROUP_OF: dict[str, Any] = {}  # by the flag's name
_HOME = re.compile(r"(^|[,=] *)(~[\w.-]*)(?=[/,]|$)")  # at the start of a path: ~/a,~/b or name=~/a


def group_of(flag: str) -> str | None:
    """The title under which --help lists a flag; None for a flag of the command itself."""
    return _GROUP_OF.get(flag)


def define_required(name: str, help: str) -> None:
    """Defines a string flag that must be set to a non-empty value.

    (`--output_dir=$DIRECTORY` is empty if the variable is not set.)
    """
    flags.DEFINE_string(name, None, help)
    require(name)


def require(name: str) -> None:
    """Makes a string flag of another module required."""
    flags.register_validator(name, _is_set)


def define_float(name: str, default: float | None, help: str, lower_bound: float | None = None,
                 upper_bound: float | None = None) -> None:
    """flags.DEFINE_float for finite numbers. absl itself accepts "nan" and "inf", whatever the bounds."""
    parser = _FiniteFloatParser(lower_bound, upper_bound)
    flags.DEFINE(parser, name, default, help, serializer=flags.ArgumentSerializer())


def define_integer(name: str, default: int | None, help: str, lower_bound: int, upper_bound: int) -> None:
    """flags.DEFINE_integer for a decimal number. absl itself reads 1_0 as 10."""
    parser = _DecimalParser(lower_bound, upper_bound)
    flags.DEFINE(parser, name, default, help, serializer=flags.ArgumentSerializer())


def string(default: str | None, help: str, needs: str | None = None) -> Any:
    """A field of options whose flag is a string. See `field` for `needs`."""
    return field(flags.DEFINE_string, default, help, needs=needs)


def texts(help: str) -> Any:
    """A field of options whose flag is a text that is no path and can be repeated."""
    def define(name: str, default: None) -> None:
        flags.DEFINE_multi_string(name, default, help)
        FLAGS[name].is_text = True  # ~ is a letter like others

    return field(define, None)


def strings(default: list[str] | None, help: str) -> Any:
    """A field of options whose flag is a string that can be repeated."""
    return field(flags.DEFINE_multi_string, default, help)


def required(help: str) -> Any:
    """A field of options whose flag is a string that must be set."""
    return field(lambda name, default: define_required(name, help), None)


def names(default: list[str] | None, help: str) -> Any:
    """A field of options whose flag is a comma-separated list of strings."""
    return field(flags.DEFINE_list, default, help)


def choices(default: list[str] | None, values: Sequence[str], help: str) -> Any:
    """A field of options whose flag is one of several values and can be repeated."""
    return field(flags.DEFINE_multi_enum, default, values, help)


def boolean(default: bool | None, help: str, needs: str | None = None) -> Any:
    """A field of options whose flag is true or false."""
    return field(flags.DEFINE_bool, default, help, needs=needs)


def integer(default: int | None, help: str, limits: bounds.Bounds, needs: str | None = None) -> Any:
    """A field of options whose flag is a whole number."""
    return field(define_integer, default, help, *limits, needs=needs)


def whole_numbers(default: tuple[int, ...], help: str, limits: bounds.Bounds, needs: str | None = None) -> Any:
    """A field of options whose flag is a comma-separated list of whole numbers, as a tuple."""
    return field(_define_integers, default, help, limits, needs=needs)


def number(default: float | None, help: str, lower_bound: float | None = None, upper_bound: float | None = None,
           needs: str | None = None) -> Any:
    """A field of options whose flag is a finite number."""
    return field(define_float, default, help, lower_bound, upper_bound, needs=needs)


def choice(default: str | None, values: Sequence[str], help: str, needs: str | None = None) -> Any:
    """A field of options whose flag is one of several values."""
    return field(flags.DEFINE_enum, default, values, help, needs=needs)


def field(define: Callable[..., Any], default: Any, *arguments: Any, needs: str | None = None) -> Any:
    """A field of options.

    Args:
      define: its flag is defined by define(name, default, *arguments).
      *arguments: help, bounds and so on.
      needs: another flag without which this one has no effect, alone ("teacher_checkpoint") or with values
        ("objective=pairs,simcse"). from_flags then refuses any value but the default.
    """
    return dataclasses.field(metadata=dict(
        define=lambda name, default: define(name, default, *arguments), default=default, needs=needs))


def made() -> Any:
    """A field of options that is no flag: from_flags has its value as an argument."""
    return dataclasses.field()


def define_fields(options_class: type, **defaults: Any) -> None:
    """Defines the flags that are declared as fields of an options dataclass, in their order.

    Args:
      options_class: the dataclass. If the class that declares a flag, this one or one that it inherits, has a GROUP,
        --help lists the flag under this title, one of FLAG_GROUPS.
      **defaults: defaults that differ from the declared ones.
    """
    for field in dataclasses.fields(options_class):
        if "define" in field.metadata:
            field.metadata["define"](field.name, defaults.get(field.name, field.metadata["default"]))
            _GROUP_OF[field.name] = next(vars(base).get("GROUP") for base in options_class.__mro__
                                         if field.name in vars(base).get("__annotations__", ()))


def define_alias(name: str, original: str) -> None:
    """Defines another name of a flag, in the same group."""
    flags.DEFINE_alias(name, original)
    _GROUP_OF[name] = _GROUP_OF.get(original)


def present() -> dict[str, str]:
    """The flags that are set, as text, by name."""
    return {name: str(flag.value) for name in FLAGS if (flag := FLAGS[name]).present}


def expand_home() -> None:
    """Replaces ~ at the start of the paths in flags that are set, since a shell leaves it in --flag=~/path."""
    def expanded(value: Any) -> Any:
        if isinstance(value, list):
            return [expanded(item) for item in value]
        if not isinstance(value, str):
            return value
        return _HOME.sub(lambda match: match[1] + os.path.expanduser(match[2]), value)

    for flag in map(FLAGS.__getitem__, FLAGS):
        if flag.present and not hasattr(flag, "is_text"):
            flag.value = expanded(flag.value)


def from_flags(options_class: type[AnyOptions], **values) -> AnyOptions:
    """Makes options from the flags that have the names of the fields; `values` are other fields, or replace flags.

    Raises:
      KeyError: a field is neither a flag nor among the values.
    """
    for field in dataclasses.fields(options_class):  # type: ignore[arg-type]
        needs = field.metadata.get("needs")
        if needs and FLAGS[field.name].value != field.metadata["default"]:
            _check_needed(field.name, needs)
    names = {field.name for field in dataclasses.fields(options_class)} - set(values)  # type: ignore[arg-type]
    return options_class(**values, **{name: FLAGS[name].value for name in names})


def made_from(options_class: type[AnyOptions], options: Any, **values: Any) -> AnyOptions:
    """Makes a dataclass from the attributes of `options` that have the names of its fields, and from other values."""
    names = {field.name for field in dataclasses.fields(options_class)} - set(values)  # type: ignore[arg-type]
    return options_class(**values, **{name: getattr(options, name) for name in names})


def _check_needed(name: str, needs: str) -> None:
    """Raises ValueError if a flag's `needs` are not met (see `field`)."""
    other, _, values = needs.partition("=")
    if FLAGS[other].value not in values.split(",") if values else not FLAGS[other].value:
        raise ValueError(f"--{name}={FLAGS[name].value} has no effect without --{needs.replace(',', ' or ')}")


def _is_set(value: str | None) -> bool:
    if not value:
        raise flags.ValidationError("it is required" if value is None else "it must not be empty")
    return True


def _define_integers(name: str, default: tuple[int, ...], help: str, limits: bounds.Bounds) -> None:
    flags.DEFINE(_IntegersParser(limits), name, default, help, serializer=flags.ListSerializer(","))


class _FiniteFloatParser(flags.FloatParser):
    def convert(self, argument):
        try:
            value = super().convert(argument)
        except OverflowError:  # a whole number of more than 308 digits
            value = math.inf
        if not math.isfinite(value) or "_" in str(argument):
            raise ValueError("expected a finite number")
        return value


class _IntegersParser(flags.ArgumentParser):
    syntactic_help = "a comma-separated list of whole numbers"

    def __init__(self, limits: bounds.Bounds):
        super().__init__()
        self._limits = limits

    def parse(self, argument):
        parts = argument.split(",") if isinstance(argument, str) else list(argument)
        parts = [str(part).strip() for part in parts if str(part).strip()]
        if not all(part.isdecimal() and self._limits.lower <= int(part) <= self._limits.upper for part in parts):
            raise ValueError(f"it is not {self.syntactic_help} from {self._limits.lower:,} to {self._limits.upper:,}")
        return tuple(map(int, parts))

    def flag_type(self):
        return "list of whole numbers"


class _DecimalParser(flags.IntegerParser):
    def convert(self, argument):
        if isinstance(argument, str) and not argument.lstrip("+-").isdecimal():
            raise ValueError(f"invalid literal for int(): {argument}")
        return super().convert(argument)

"""Options: the fields of configs, each with its default, its help and its check.

A config is a frozen dataclass that stands beside what it configures. It knows neither absl nor TensorFlow. Python users
make it like any dataclass, and commands/flags.py makes a flag of each option::

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class SearchConfig(Config):
        vectors: str = required("Path of the vectors.")
        top_k: int = integer(5, "Number of texts to show.", bounds.CANDIDATES)
        devices: Devices = part(Devices, precision="mixed_bfloat16")

    SearchConfig(vectors="texts.npy", top_k=3, devices=Devices(runtime="jax"))
"""

from __future__ import annotations

import dataclasses
import functools
import types
from typing import Any, Callable, ClassVar, Iterator, Mapping, NamedTuple, Sequence

from albert_tf.utils import bounds


@dataclasses.dataclass(frozen=True)
class Option:
    """The declaration of a config's field.

    Args:
      kind: the name of the function below that declares it.
      help: what it is, its unit, and what its default means.
      optional: whether None is a value.
      check: function of name and value that raises ValueError for a wrong value.
      limits: the smallest and the largest number, or the choices.
      needs: another option, without which this one has no effect: its name ("export_dir"), or its name and values
        ("objective=pairs,simcse"). "|" separates several options; the config may lack some of them.
    """

    kind: str
    help: str
    optional: bool
    check: Callable[[str, Any], object]
    limits: Sequence[Any] = ()
    needs: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Base class of configs.

    `group` of a subclass is the title of its own options in --help; None for "This command". ALIASES has further names
    of flags with the names of their options. HAS_RECIPE: whether the option `recipe` names a file with defaults of
    flags.

    Raises:
      ValueError: an option is wrong, or has no effect without another one.
    """

    GROUP: ClassVar[str | None]
    ALIASES: ClassVar[Mapping[str, str]] = types.MappingProxyType({})
    HAS_RECIPE: ClassVar[bool] = False

    def __init_subclass__(cls, group: str | None = None):
        cls.GROUP = group

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            option, value = field.metadata.get("option"), getattr(self, field.name)
            part_class = field.metadata.get("part", object)
            if not isinstance(value, part_class):
                raise ValueError(f"{field.name} must be a {part_class.__name__}. Received: {value!r}")
            if option is None or value is field.default:
                continue
            if value is not None or not option.optional:
                option.check(field.name, value)
                if option.kind == "number":  # albert_tf.json refuses an int
                    object.__setattr__(self, field.name, float(value))
            if option.needs and value != field.default:
                names, _, values = option.needs.partition("=")
                others = [name for name in names.split("|") if hasattr(self, name)]
                if not any(getattr(self, name) in values.split(",") if values else getattr(self, name)
                           for name in others):
                    needed = " or --".join(others) + option.needs[len(names):].replace(",", " or ")
                    raise ValueError(f"--{field.name}={value} has no effect without --{needed}")


class Declared(NamedTuple):
    """An option of a config or of one of its parts; `default` is dataclasses.MISSING for a required one."""

    name: str
    option: Option
    default: Any
    group: str | None


def declared(config_class: type[Config], defaults: Config | None = None) -> Iterator[Declared]:
    """The options of a config and of its parts, in their order.

    Args:
      defaults: an instance with other defaults than the class.
    """
    for field in dataclasses.fields(config_class):
        if "part" in field.metadata:
            yield from declared(field.metadata["part"], field.metadata["make"]())
        elif "option" in field.metadata:
            default = getattr(defaults, field.name) if defaults else field.default
            group = next(vars(base)["GROUP"] for base in reversed(config_class.__mro__)
                         if field.name in vars(base).get("__annotations__", ()))
            yield Declared(field.name, field.metadata["option"], default, group)


def part(config_class: type[Config], **defaults: Any) -> Any:
    """A field that is a config itself, with defaults that differ from its class's."""
    make = functools.partial(config_class, **defaults)
    return dataclasses.field(default_factory=make, metadata=dict(part=config_class, make=make))


def inherited(config_class: type[Config], name: str, default: Any) -> Any:
    """An option of a base class with another default."""
    return dataclasses.field(default=default, metadata=config_class.__dataclass_fields__[name].metadata)


def string(default: str | None, help: str, needs: str | None = None) -> Any:
    """A text."""
    return _option("string", default, help, _check_string, needs=needs)


def required(help: str) -> Any:
    """A text that must be set and not be empty."""
    return _option("required", dataclasses.MISSING, help, _check_required)


def strings(default: tuple[str, ...], help: str) -> Any:
    """Texts; the flag is repeated."""
    return _option("strings", default, help, _each(_check_string))


def texts(help: str) -> Any:
    """Texts that are no paths; the flag is repeated, and none is the default."""
    return _option("texts", (), help, _each(_check_string))


def names(default: tuple[str, ...] | None, help: str) -> Any:
    """Texts without commas; the flag is a comma-separated list."""
    return _option("names", default, help, _each(_check_string))


def choices(default: tuple[str, ...], values: Sequence[str], help: str) -> Any:
    """Some of several names; the flag is repeated."""
    return _option("choices", default, help, _each(_check_choice(values)), values)


def choice(default: str | None, values: Sequence[str], help: str, needs: str | None = None) -> Any:
    """One of several names."""
    return _option("choice", default, help, _check_choice(values), values, needs)


def boolean(default: bool | None, help: str, needs: str | None = None) -> Any:
    """True or false."""
    return _option("boolean", default, help, _check_boolean, needs=needs)


def integer(default: int | None, help: str, limits: bounds.Bounds, needs: str | None = None) -> Any:
    """A whole number."""
    return _option("integer", default, help, limits.check, limits, needs)


def whole_numbers(default: tuple[int, ...], help: str, limits: bounds.Bounds, needs: str | None = None) -> Any:
    """Whole numbers; the flag is a comma-separated list."""
    return _option("whole_numbers", default, help, _each(limits.check), limits, needs)


def number(default: float | None, help: str, lower_bound: float | None = None, upper_bound: float | None = None,
           needs: str | None = None) -> Any:
    """A finite number."""
    check = functools.partial(bounds.check_finite, lower=lower_bound, upper=upper_bound)
    return _option("number", default, help, check, (lower_bound, upper_bound), needs)


def value(default: Any, help: str, check: Callable[[str, Any], object]) -> Any:
    """A value of any other type, which no flag can set."""
    return _option("value", default, help, check)


def _option(kind: str, default: Any, help: str, check: Callable[[str, Any], object], limits: Sequence[Any] = (),
            needs: str | None = None) -> Any:
    option = Option(kind, help, default is None, check, limits, needs)
    return dataclasses.field(default=default, metadata=dict(option=option))


def _check_string(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text. Received: {value!r}")


def _check_required(name: str, value: Any) -> None:
    _check_string(name, value)
    if not value:
        raise ValueError(f"{name} must not be empty")


def _check_boolean(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false. Received: {value!r}")


def _check_choice(values: Sequence[str]) -> Callable[[str, Any], object]:
    return lambda name, value: bounds.check_one_of(name, value, values)


def _each(check: Callable[[str, Any], object]) -> Callable[[str, Any], None]:
    """A check of a tuple by a check of its elements."""
    def check_all(name: str, values: Any) -> None:
        if not isinstance(values, tuple):
            raise ValueError(f"{name} must be a tuple. Received: {values!r}")
        for value in values:
            check(name, value)

    return check_all

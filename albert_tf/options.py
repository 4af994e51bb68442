"""Options: the fields of configs, each with its type, limits, help and default.

A config is a frozen dataclass that stands beside what it configures. It knows neither absl nor TensorFlow. Python users
make it like any dataclass, and commands/flags.py makes a flag of each option::

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class SearchConfig(Config):
        vectors: Annotated[str, "Path of the vectors."]
        top_k: Annotated[int, bounds.CANDIDATES, "Number of texts to show."] = 5
        devices: Devices = Devices(precision="mixed_bfloat16")

    SearchConfig(vectors="texts.npy", top_k=3, devices=Devices(runtime="jax"))

A field with a help is an option. A text without a default must be set, and not be empty. A field that is a config is a
part: its options are flags, too. A subclass changes only a default by `top_k: int = 10`.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from typing import Any, Callable, ClassVar, Iterable, Iterator, Mapping, NamedTuple, Protocol

from albert_tf.utils.bounds import Range

# Marks of options of several texts.
COMMAS = "comma-separated"  # the flag is a comma-separated list, and is not repeated
NO_PATHS = "no paths"  # in which ~ is a letter like others


class Limits(Protocol):
    """What values are allowed: Bounds of whole numbers, Range, OneOf, Checked."""

    @property
    def check(self) -> Callable[[str, Any], object]:
        """A function of name and value that raises ValueError for a wrong value."""


class Checked(NamedTuple):
    """The check of a whole value. No flag can set a value that a config declares with it."""

    check: Callable[[str, Any], object]


@dataclasses.dataclass(frozen=True)
class Option:
    """The declaration of an option.

    Args:
      type: of its value, or of each element of a tuple (is_tuple). A value that is Checked has no elements.
      marks: COMMAS, NO_PATHS, or marks of subclasses.
      group: the title of the option in --help; None for "This command".
    """

    name: str
    type: type
    is_tuple: bool
    is_optional: bool
    limits: Limits
    marks: tuple[Any, ...]
    help: str
    group: str | None

    def checked(self, value: Any) -> Any:
        """The value, a float if it is a number. Raises ValueError if it is wrong."""
        if value is None and self.is_optional:
            return None
        if self.is_tuple and not isinstance(value, tuple):
            raise ValueError(f"{self.name} must be a tuple. Received: {value!r}")
        for each in value if self.is_tuple else (value,):
            self.limits.check(self.name, each)
        return float(value) if self.type is float and not self.is_tuple else value  # albert_tf.json refuses an int


class Requirement(NamedTuple):
    """What some options need to have an effect, such as ("top_k",), bool(self.vectors), "--vectors"."""

    options: tuple[str, ...]
    is_met: bool
    needed: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Base class of configs.

    `group` of a subclass is the title of its options in --help; None for "This command". ALIASES has further names
    of flags with the names of their options. HAS_RECIPE: whether the option `recipe` names a file with defaults of
    flags. DECLARED has the options, and the classes of the parts, by the name of the field.

    Raises:
      ValueError: an option is wrong, or has no effect without another one.
    """

    ALIASES: ClassVar[Mapping[str, str]] = types.MappingProxyType({})
    HAS_RECIPE: ClassVar[bool] = False
    DECLARED: ClassVar[Mapping[str, Option | type[Config]]] = types.MappingProxyType({})

    def __init_subclass__(cls, group: str | None = None):
        declared: dict[str, Option | type[Config]] = {}
        for base in reversed(cls.__bases__):
            declared.update(getattr(base, "DECLARED", {}))
        for name, hint in inspect.get_annotations(cls, eval_str=True).items():
            if isinstance(hint, type) and issubclass(hint, Config):
                declared[name] = hint
            elif typing.get_origin(hint) is typing.Annotated:
                earlier = declared.get(name)
                declared[name] = _option(name, hint, earlier.group if isinstance(earlier, Option) else group)
        cls.DECLARED = declared

    def __post_init__(self) -> None:
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name, declaration in self.DECLARED.items():
            value = getattr(self, name)
            if isinstance(declaration, Option):
                if value is not defaults[name]:
                    object.__setattr__(self, name, declaration.checked(value))
                if value == "" and defaults[name] is dataclasses.MISSING:
                    raise ValueError(f"{name} must not be empty")
            elif not isinstance(value, declaration):
                raise ValueError(f"{name} must be a {declaration.__name__}. Received: {value!r}")
        for options, is_met, needed in self.requirements():
            for name, default in [(name, defaults[name]) for name in options]:
                if not is_met and getattr(self, name) != default:
                    raise ValueError(f"--{name}={getattr(self, name)} has no effect without {needed}")

    def requirements(self) -> Iterable[Requirement]:
        """What options need to have an effect. A subclass adds to super().requirements()."""
        return ()


def declared(config_class: type[Config], defaults: Config | None = None) -> Iterator[tuple[Option, Any]]:
    """The options of a config and of its parts, in their order, with their defaults.

    Args:
      defaults: an instance with other defaults than the class. dataclasses.MISSING is the default of a required option.
    """
    for field in dataclasses.fields(config_class):
        declaration = config_class.DECLARED.get(field.name)
        default: Any = getattr(defaults, field.name) if defaults else field.default
        if isinstance(declaration, Option):
            yield declaration, default
        elif declaration:
            yield from declared(declaration, default)


def _option(name: str, hint: Any, group: str | None) -> Option:
    """The option of a hint: Annotated[TYPE, LIMITS, MARKS, "help"]. Raises TypeError if TYPE needs limits."""
    value_type, *marks, help = typing.get_args(hint)
    alternatives = typing.get_args(value_type) if isinstance(value_type, types.UnionType) else (value_type,)
    some_type, = (each for each in alternatives if each is not types.NoneType)
    limits = next((mark for mark in marks if hasattr(mark, "check")), None)
    is_tuple = typing.get_origin(some_type) is tuple and not isinstance(limits, Checked)
    element = typing.get_args(some_type)[0] if is_tuple else some_type
    limits = limits or _LIMITS.get(element)
    if limits is None:
        raise TypeError(f"{name} needs limits")
    others = tuple(mark for mark in marks if mark is not limits)
    return Option(name, element, is_tuple, len(alternatives) > 1, limits, others, help, group)


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text. Received: {value!r}")


def _check_boolean(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false. Received: {value!r}")


# By the type of a value or element, if an option names no limits. A whole number always has bounds.
_LIMITS: dict[Any, Limits] = {str: Checked(_check_text), bool: Checked(_check_boolean), float: Range()}

"""The arguments of models: what a model is told besides its config. Each is declared once, in the model's class::

    class AlbertMultipleChoice(ConfiguredModel):
        num_choices: int = whole_number(4, bounds.CANDIDATES)

The declaration makes the constructor's argument and the attribute. Files of settings, from_pretrained, ensembles and
exported models read it.

PredictingModel is what functions that predict from text need of a model. A Keras model of this package has it, and so
has an exported file in its runtime (export/onnx/session.py). So one function classifies texts, fills masks or answers
questions with either.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any, Callable, Collection, Mapping, Protocol, Sequence

from albert_tf.config import AlbertConfig
from albert_tf.utils.bounds import Bounds, check_one_of
from albert_tf.utils.files import check_one_line

REQUIRED = inspect.Parameter.empty


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of a model.

    Args:
      default: its default; REQUIRED if it has none.
      check: function of name and value that raises ValueError for a wrong value, and returns the right one. It is not
        called for None if this is the default.
      is_stored: whether it is in the file of settings beside weights.
      is_compared: whether models whose predictions are averaged must agree in it.
    """

    default: Any
    check: Callable[[str, Any], Any]
    is_stored: bool = True
    is_compared: bool = True

    def checked(self, name: str, value: Any) -> Any:
        """The value; raises ValueError if it is wrong."""
        return None if value is None and self.default is None else self.check(name, value)


class Arguments:
    """Base class of what has declared arguments: a model."""

    @classmethod
    def arguments(cls) -> dict[str, Argument]:
        """The arguments by name, those of the class itself before those of its base classes."""
        declared: dict[str, Argument] = {}
        for base in cls.__mro__:
            for name, value in vars(base).items():
                if isinstance(value, Argument):
                    declared.setdefault(name, value)
        return declared

    @classmethod
    def checked(cls, positional: Sequence, keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The value of each argument by name, and the keywords that are no arguments."""
        parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=argument.default)
                      for name, argument in cls.arguments().items()]
        parameters.sort(key=lambda parameter: parameter.default is not REQUIRED)
        others = inspect.Parameter("keywords", inspect.Parameter.VAR_KEYWORD)
        bound = inspect.Signature([*parameters, others]).bind(*positional, **keywords)
        bound.apply_defaults()
        values = {name: argument.checked(name, bound.arguments[name]) for name, argument in cls.arguments().items()}
        return values, bound.arguments["keywords"]


def whole_number(default: Any, bounds: Bounds, **options) -> Any:
    """A whole number within bounds."""
    def check(name: str, value: Any) -> int:
        bounds.check(name, value)
        return value

    return Argument(default, check, **options)


def whole_numbers(bounds: Bounds, **options) -> Any:
    """Whole numbers within bounds; none by default."""
    def check(name: str, values: Any) -> tuple[int, ...]:
        for value in _sequence(name, values):
            bounds.check(f"a number in {name}", value)
        return tuple(values)

    return Argument((), check, **options)


def real_number(default: Any, lower: float = -math.inf, upper: float = math.inf, **options) -> Any:
    """A number from `lower` to `upper`."""
    return Argument(default, lambda name, value: _number(name, value, lower, upper), **options)


def real_numbers(lower: float, upper: float, **options) -> Any:
    """Numbers from `lower` to `upper`; None by default."""
    return Argument(None, lambda name, values: tuple(
        _number(f"a number in {name}", value, lower, upper) for value in _sequence(name, values)), **options)


def names(**options) -> Any:
    """Names without line breaks; None by default."""
    def check(name: str, values: Any) -> tuple[str, ...]:
        for value in _sequence(name, values):
            if not isinstance(value, str):
                raise ValueError(f"{name} must be a list of names. Received: {value!r}")
            check_one_line(value, f"a name in {name}")
        return tuple(values)

    return Argument(None, check, **options)


def texts_by_name(**options) -> Any:
    """Texts by name: a dict or pairs, of which the pairs are kept; None by default, and for an empty one."""
    def check(name: str, values: Any) -> tuple[tuple[str, str], ...] | None:
        pairs = list(values.items()) if isinstance(values, Mapping) else list(_sequence(name, values))
        for pair in pairs:
            if not (isinstance(pair, (list, tuple)) and len(pair) == 2 and all(isinstance(each, str) for each in pair)):
                raise ValueError(f"{name} must be texts by name. Received: {pair!r}")
            check_one_line(pair[0], f"a name in {name}")
        return tuple((key, text) for key, text in pairs) or None

    return Argument(None, check, **options)


def optional_name(**options) -> Any:
    """A name; None by default, and for ""."""
    def check(name: str, value: Any) -> str | None:
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a name. Received: {value!r}")
        return value or None

    return Argument(None, check, **options)


def boolean(**options) -> Any:
    """True or false; false by default."""
    def check(name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false. Received: {value!r}")
        return value

    return Argument(False, check, **options)


def choice(default: Any, choices: Collection[str], **options) -> Any:
    """One of several names."""
    def check(name: str, value: Any) -> str:
        check_one_of(name, value, choices)
        return value

    return Argument(default, check, **options)


def _number(name: str, value: Any, lower: float, upper: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not lower <= value <= upper or (
            not math.isfinite(value)):
        raise ValueError(f"{name} must be a number from {lower:g} to {upper:g}. Received: {value!r}")
    return value


def _sequence(name: str, values: Any) -> Sequence:
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"{name} must be a list. Received: {values!r}")
    return values


class PredictingModel(Protocol):
    """A model that is called with token ids and returns its outputs."""

    @property
    def config(self) -> AlbertConfig:
        """The model's config."""

    @property
    def row_length(self) -> int:
        """The largest number of tokens of a row."""

    def __getattr__(self, name: str) -> Any:
        """An argument that the model's class declares."""

    def __call__(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The outputs by name, arrays or tensors, for int32 inputs by name, [batch, seq] each."""

"""The space of search_settings: a command, its fixed flags, and the values that other flags may have."""

from __future__ import annotations

import dataclasses
import reprlib
from typing import Any, Mapping

from albert_tf.commands import usage
from albert_tf.commands.finetuning_flags import read_recipe
from albert_tf.utils.bounds import check_one_of
from albert_tf.utils.json_files import check_keys, read_json_object

# The flags that the search sets itself.
_OWN_FLAGS = ("output_dir", "do_train", "do_eval", "seed", "random_seed")
_STEPS, _RUNS, _BATCH = "train_step", "num_runs", "train_batch_size"


@dataclasses.dataclass(frozen=True)
class Range:
    """A range of numbers, both ends included; whole numbers if both ends are.

    Args:
      low, high: the ends.
      log: whether the logarithm is uniform.
      step: the distance of values; None for 1 or, for other numbers, any value.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the values are whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)


@dataclasses.dataclass(frozen=True)
class SearchSpace:
    """What is searched.

    Args:
      script: a fine-tuning command.
      metric: the result that is to be as high as possible, a key of eval_results.json.
      flags: the flags of all trials.
      space: by the name of a flag its values, a list or a range.
    """

    script: str
    metric: str
    flags: Mapping[str, Any]
    space: Mapping[str, list | Range]

    @property
    def recipe(self) -> dict[str, Any]:
        """The flags of the recipe that the flags name; empty without a recipe."""
        recipe = self.flags.get("recipe")
        return read_recipe(None if recipe is None else str(recipe))[1]

    @property
    def steps(self) -> tuple[int, int]:
        """The fewest and the most training steps of a trial, over all of its runs.

        Raises:
          ValueError: nothing sets --train_step.
        """
        steps, runs = self._ends(_STEPS, None), self._ends(_RUNS, 1)
        if steps[0] is None:
            raise ValueError(f"set {_STEPS} in \"flags\" or in \"space\": without it, the search's cost is unknown")
        return steps[0] * runs[0], steps[1] * runs[1]

    @property
    def batch_sizes(self) -> tuple[int, int]:
        """The smallest and the largest batch of a step; 32, the commands' usual default, if nothing sets it."""
        return self._ends(_BATCH, 32)

    def _ends(self, name: str, default: Any) -> tuple[Any, Any]:
        values = self.space.get(name)
        if isinstance(values, Range):
            return values.low, values.high
        if values is not None:
            return min(values), max(values)
        value = self.flags.get(name, self.recipe.get(name, default))
        return value, value


def read_space(path: str) -> SearchSpace:
    """Reads a space from a JSON file::

        {"script": "run_classifier", "metric": "eval_accuracy",
         "flags": {"task_name": "rte", "data_dir": "glue", "init_checkpoint": "albert_base_v2", "recipe": "rte"},
         "space": {"learning_rate": {"low": 1e-5, "high": 1e-4, "log": true}, "train_batch_size": [16, 32],
                   "train_step": {"low": 200, "high": 800, "step": 200}}}

    Raises:
      ValueError: a key is missing, unknown or of another type, the script is not one that fine-tunes, or a flag stands
        in both places or is one that the search sets; the message has the path.
    """
    content = check_keys(read_json_object(path), path, dict(script=str, metric=str, space=dict), dict(flags=dict))
    flags, space = content.get("flags", {}), content["space"]
    scripts = [name for name in usage.COMMANDS["Fine-tuning"] if name not in ("run_glue", "search_settings")]
    check_one_of(f"{path}: script", content["script"], scripts)
    if not space:
        raise ValueError(f"{path}: space is empty: there is nothing to search")
    for name in (*flags, *space):
        if name in _OWN_FLAGS:
            raise ValueError(f"{path}: {name} is set by the search itself: remove it")
        if name in flags and name in space:
            raise ValueError(f"{path}: {name} stands both in \"flags\" and in \"space\": remove one of them")
    return SearchSpace(content["script"], content["metric"], flags, {
        name: _values(values, f"{path}: space.{name}") for name, values in space.items()})


def _values(content: Any, place: str) -> list | Range:
    if isinstance(content, list):
        if not content or not all(isinstance(value, (str, int, float, bool)) for value in content):
            raise ValueError(f"{place} must be a list of values, or a range. Received: {reprlib.repr(content)}")
        return content
    if not isinstance(content, dict):
        raise ValueError(f"{place} must be a list of values, or a range such as {{\"low\": 1e-5, \"high\": 1e-4, "
                         f"\"log\": true}}. Received: {reprlib.repr(content)}")
    unknown = [key for key in content if key not in ("low", "high", "log", "step")]
    if unknown or "low" not in content or "high" not in content:
        raise ValueError(f"{place} must have low and high, and can have log or step. Received: {reprlib.repr(content)}")
    numbers = [content[key] for key in ("low", "high", "step") if key in content]
    if not all(type(number) in (int, float) for number in numbers) or not isinstance(content.get("log", False), bool):
        raise ValueError(f"{place}: low, high and step are numbers, and log is true or false. "
                         f"Received: {reprlib.repr(content)}")
    values = Range(**content)
    is_log_of_0 = values.log and (values.low <= 0 or values.step is not None)
    if values.low > values.high or is_log_of_0 or values.step is not None and values.step <= 0:
        raise ValueError(f"{place}: low must be at most high, step above 0, and with log, low above 0 and no step. "
                         f"Received: {reprlib.repr(content)}")
    return values

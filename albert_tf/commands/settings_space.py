"""The space of search_settings: a command, its fixed flags, and the values that other flags may have."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import reprlib
import warnings
from typing import TYPE_CHECKING, Any, Mapping

from albert_tf.commands import usage
from albert_tf.commands.finetuning_flags import read_recipe
from albert_tf.utils.bounds import check_one_of
from albert_tf.utils.files import check_keys, read_json_object

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_EXAMPLE = '{"type": "float", "low": 1e-5, "high": 1e-4, "log": true} or {"type": "categorical", "choices": [16, 32]}'
# The flags that the search sets itself.
_OWN_FLAGS = ("output_dir", "do_train", "do_eval", "seed", "random_seed")
_STEPS, _RUNS, _BATCH = "train_step", "num_runs", "train_batch_size"


@dataclasses.dataclass(frozen=True)
class SearchSpace:
    """What is searched.

    Args:
      metric: the result that is to be as high as possible, a key of eval_results.json.
      flags: the flags of all trials.
      space: by the name of a flag the distribution of its values.
    """

    script: str
    metric: str
    flags: Mapping[str, Any]
    space: Mapping[str, BaseDistribution]

    @property
    def recipe(self) -> dict[str, Any]:
        """The flags of the recipe that the flags name; empty without a recipe."""
        recipe = self.flags.get("recipe")
        return read_recipe(None if recipe is None else str(recipe))[1]

    @property
    def steps(self) -> tuple[int, int]:
        """The fewest and the most training steps of a trial, over all of its runs."""
        steps, runs = self._ends(_STEPS, None), self._ends(_RUNS, 1)
        if steps[0] is None:
            raise ValueError(f"set {_STEPS} in \"flags\" or in \"space\": without it, the search's cost is unknown")
        return steps[0] * runs[0], steps[1] * runs[1]

    @property
    def batch_sizes(self) -> tuple[int, int]:
        """The smallest and the largest batch of a step; 32, the commands' usual default, if nothing sets it."""
        return self._ends(_BATCH, 32)

    def _ends(self, name: str, default: Any) -> tuple[Any, Any]:
        if name in self.space:
            values = self.space[name]._asdict()
            ends = values.get("choices") or (values["low"], values["high"])
            return min(ends), max(ends)
        value = self.flags.get(name, self.recipe.get(name, default))
        return value, value


def read_space(path: str) -> SearchSpace:
    """Reads a space from a JSON file::

        {"script": "run_classifier", "metric": "eval_accuracy",
         "flags": {"task_name": "rte", "data_dir": "glue", "init_checkpoint": "albert_base_v2", "recipe": "rte"},
         "space": {"learning_rate": {"type": "float", "low": 1e-5, "high": 1e-4, "log": true},
                   "train_batch_size": {"type": "categorical", "choices": [16, 32]},
                   "train_step": {"type": "int", "low": 200, "high": 800, "step": 200}}}
    """
    if importlib.util.find_spec("optuna") is None:
        raise ValueError("search_settings needs the package optuna: pip install optuna")
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
        name: _distribution(values, f"{path}: space.{name}") for name, values in space.items()})


def _distribution(content: Any, place: str) -> BaseDistribution:
    """The distribution that Optuna makes of JSON; what it only warns of is an error here."""
    from optuna.distributions import json_to_distribution

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            distribution = json_to_distribution(json.dumps(content))
        unknown = sorted(content.keys() - {"type", *distribution._asdict()})
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}")
    except (KeyError, TypeError, ValueError, UserWarning) as error:
        raise ValueError(f"{place} must be a distribution of Optuna, such as {_EXAMPLE}. Received: "
                         f"{reprlib.repr(content)} ({error})") from None
    return distribution

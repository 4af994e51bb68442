"""Imports modules when they are first used: `albert_tf.text.lines` after `import albert_tf`, and large packages."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Mapping

from albert_tf.utils import quiet


def loader_of(package: str) -> Callable[[str], ModuleType]:
    """Returns a module-level __getattr__ for a package, which imports the module with the attribute's name.

    Raises (the function that is returned):
      AttributeError: the package has no such module.
    """

    def load(name: str) -> ModuleType:
        wanted = f"{package}.{name}"
        try:
            with quiet.importing():
                return importlib.import_module(wanted)
        except ModuleNotFoundError as error:
            if error.name != wanted:  # the module exists, but a module that it imports does not
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    return load


def names_of(package: str, module_of: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a module-level __getattr__ for a package with public names, which imports the module of a name.

    Args:
      package: the package.
      module_of: the module of each name, within the package. Other names are those of modules, as for loader_of.
    """
    load_module = loader_of(package)

    def load(name: str) -> Any:
        return getattr(load_module(module_of[name]), name) if name in module_of else load_module(name)

    return load


class LazyModule:
    """A module that is imported when one of its names is first used."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        with quiet.importing():
            return getattr(importlib.import_module(self._name), name)


# tensorflow is lazy for modules that worker processes import and that use tf.io.gfile only in the main process: an
# import takes seconds and hundreds of megabytes per worker (albert_tf/data/worker_pool.py). The other packages are
# needed only for scores or exports at the end of a script, and took a fifth of the time of its imports.
if TYPE_CHECKING:
    import scipy.sparse as scipy_sparse
    import scipy.stats as scipy_stats
    import sklearn.metrics as sklearn_metrics
    import tensorflow
    import tensorflow_text  # noqa: F401
else:
    scipy_sparse = LazyModule("scipy.sparse")
    scipy_stats = LazyModule("scipy.stats")
    sklearn_metrics = LazyModule("sklearn.metrics")
    tensorflow = LazyModule("tensorflow")
    tensorflow_text = LazyModule("tensorflow_text")

"""The models that come with the package: models/ in a checkout, albert_tf/models/ in an installed package."""

from __future__ import annotations

import pathlib

_PACKAGE = pathlib.Path(__file__).parents[1]
FOLDERS = (_PACKAGE / "models", _PACKAGE.parent / "models")


def shipped_models() -> list[str]:
    """The names of the models that come with the package."""
    folder = next(filter(pathlib.Path.is_dir, FOLDERS))
    return sorted(model.name for model in folder.iterdir() if model.is_dir())


def shipped_model(path: str) -> str | None:
    """The folder of a model that comes with the package, if `path` is its name and there is no such file or folder.

    Args:
      path: see from_pretrained: "albert_tiny_en".
    """
    if not path.isidentifier() or pathlib.Path(path).exists():
        return None
    return next((str(folder / path) for folder in FOLDERS if (folder / path).is_dir()), None)

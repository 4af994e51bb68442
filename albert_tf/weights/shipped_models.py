"""The models that come with the package, in albert_tf/models/."""

from __future__ import annotations

import pathlib

FOLDER = pathlib.Path(__file__).parents[1] / "models"


def shipped_models() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(model.name for model in FOLDER.iterdir() if model.is_dir())


def shipped_model(path: str) -> str | None:
    """The folder of a model that comes with the package, if `path` is its name and there is no such file or folder.

    Args:
      path: see from_pretrained: "albert_tiny_en".
    """
    if not path.isidentifier() or pathlib.Path(path).exists():
        return None
    return str(FOLDER / path) if (FOLDER / path).is_dir() else None

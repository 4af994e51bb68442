"""The commands by group, and how a user has started one.

    python run_squad.py    python -m albert_tf run_squad    albert-tf run_squad
"""

from __future__ import annotations

import ast
import difflib
import pathlib
import re
import sys

GROUPS = {
    "Pre-training": ("train_vocabulary", "create_pretraining_data", "run_pretraining", "pretrain_from_text"),
    "Fine-tuning": ("run_classifier", "run_glue", "run_squad", "run_race", "run_tagging", "run_sentence_embeddings"),
    "Use of a model": ("fill_mask", "score_sentences", "extract_embeddings", "search_sentences", "serve"),
    "Conversion and export": ("convert_checkpoint", "export_to_tfhub", "export_to_onnx", "export_to_tflite"),
    "Analysis": ("model_sizes", "layer_distances"),
}
NAMES = tuple(name for names in GROUPS.values() for name in names)
_FOLDER = pathlib.Path(__file__).parent
_MODULE = "python -m albert_tf"
_INSTALLED = "albert-tf"


def find(name: str) -> str:
    """The name of a command as its module has it; "-" stands for "_".

    Raises:
      ValueError: there is no such command.
    """
    found = name.replace("-", "_")
    if found not in NAMES:
        close = difflib.get_close_matches(found, NAMES, n=1)
        raise ValueError(f"there is no command {name!r}" + (f"; did you mean {close[0]}?" if close else "")
                         + f" `{starter()}` lists the commands")
    return found


def summary(name: str) -> str:
    """The first line of a command's docstring. The module is not imported."""
    docstring = ast.get_docstring(ast.parse((_FOLDER / f"{name}.py").read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def listing() -> str:
    """All commands in groups, with one line each."""
    width = max(map(len, NAMES))
    sections = ["\n".join([f"{title}:", *(f"  {name:{width}}  {summary(name)}" for name in names)])
                for title, names in GROUPS.items()]
    return "\n\n".join([f"Usage: {starter()} COMMAND --flag=value ...", *sections,
                        f"`{starter()} COMMAND --help` lists the flags of a command."])


def starter() -> str:
    """What a user types before a command's name: `albert-tf` in an installed package, else `python -m albert_tf`."""
    return _INSTALLED if pathlib.Path(sys.argv[0]).name.split(" ")[0] == _INSTALLED else _MODULE


def program(started: str) -> str:
    """What a user has typed before the flags, such as `python run_squad.py` or `albert-tf serve`.

    Args:
      started: sys.argv[0].
    """
    if " " in started:  # set by albert_tf.__main__
        return started
    path = pathlib.Path(started)
    if path.name == "__main__.py":
        return f"python -m {path.parent.name}"
    return f"python {path.name}" if path.suffix == ".py" else path.name


def command(started: str) -> str:
    """The name at the start of an error message: that of the command, such as "run_squad", or of another program.

    Args:
      started: sys.argv[0].
    """
    return program(started).split(" ")[-1].removesuffix(".py")


def as_started(text: str) -> str:
    """A text such as a docstring with its commands as an installed package has them, if this is one."""
    if starter() != _INSTALLED:
        return text
    text = re.sub(rf"\b{_MODULE} (?=\w)", f"{_INSTALLED} ", text)
    return re.sub(rf"\bpython ({'|'.join(NAMES)})\.py\b", rf"{_INSTALLED} \1", text)

"""What users read about the commands: their list, and the text of --help.

    python run_squad.py    python -m albert_tf run_squad    albert-tf run_squad

--help shows what a command does, an example, and its flags in groups with their defaults. Flags that the command itself
defines come first. Only --helpfull lists the flags of libraries.
"""

from __future__ import annotations

import ast
import difflib
import pathlib
import re
import shlex
import sys

from absl import flags

from albert_tf.commands.flags import GROUP_OF, GROUPS

COMMANDS = {
    "Pre-training": ("train_vocabulary", "phonemize", "create_pretraining_data", "run_pretraining",
                     "pretrain_from_text"),
    "Fine-tuning": ("run_classifier", "run_glue", "run_squad", "run_race", "run_tagging", "run_sentence_embeddings",
                    "bert_to_albert"),
    "Use of a model": ("fill_mask", "score_sentences", "extract_embeddings", "search_sentences", "serve"),
    "Conversion and export": ("convert_checkpoint", "export_to_tfhub", "export_to_onnx", "export_to_tflite"),
}
NAMES = tuple(name for names in COMMANDS.values() for name in names)
_FOLDER = pathlib.Path(__file__).parent
_MODULE = "python -m albert_tf"
_INSTALLED = "albert-tf"


def find_command(name: str) -> str:
    """The name of a command as its module has it; "-" stands for "_"."""
    module = name.replace("-", "_")
    if module not in NAMES:
        close = difflib.get_close_matches(module, NAMES, n=1)
        raise ValueError(f"there is no command {name!r}" + (f"; did you mean {close[0]}?" if close else ".")
                         + f" `{launcher()}` lists the commands")
    return module


def summary(name: str) -> str:
    """The first line of a command's docstring. The module is not imported."""
    docstring = ast.get_docstring(ast.parse((_FOLDER / f"{name}.py").read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def listing() -> str:
    """All commands in groups, with one line each."""
    width = max(map(len, NAMES))
    sections = ["\n".join([f"{title}:", *(f"  {name:{width}}  {summary(name)}" for name in names)])
                for title, names in COMMANDS.items()]
    return "\n\n".join([f"Usage: {launcher()} COMMAND --flag=value ...", *sections,
                        f"`{launcher()} COMMAND --help` lists the flags of a command."])


def launcher() -> str:
    """What a user types before a command's name: `albert-tf` in an installed package, else `python -m albert_tf`."""
    return _INSTALLED if pathlib.Path(sys.argv[0]).name.split(" ")[0] == _INSTALLED else _MODULE


def typed_command(started: str) -> str:
    """What a user has typed before the flags, such as `python run_squad.py` or `albert-tf serve`."""
    if " " in started:  # set by albert_tf.__main__
        return started
    path = pathlib.Path(started)
    if path.name == "__main__.py":
        return f"python -m {path.parent.name}"
    return f"python {path.name}" if path.suffix == ".py" else path.name


def command_line() -> str:
    """The command line that started this command."""
    return f"{typed_command(sys.argv[0])} {shlex.join(sys.argv[1:])}".rstrip()


def command_name(started: str) -> str:
    """The name of a command, such as "run_squad", or of another program, at the start of an error message."""
    return typed_command(started).split(" ")[-1].removesuffix(".py")


def as_started(text: str) -> str:
    """A text such as a docstring with its commands as an installed package has them, if this is one."""
    if launcher() != _INSTALLED:
        return text
    return re.sub(rf"\b{_MODULE} (?=\w)", f"{_INSTALLED} ", text)


def help_text(description: str, module: str) -> str:
    """The text that --help prints."""
    own = "This command"
    sections: dict[str, list[flags.Flag]] = {title: [] for title in (own, *GROUPS)}
    by_module = flags.FLAGS.flags_by_module_dict()
    of_package = [name for name in by_module if name.startswith("albert_tf.")]
    for name in dict.fromkeys((module, sys.argv[0], *of_package)):  # sys.argv[0]: a program such as `python -m studies`
        for flag in by_module.get(name, []):
            sections[GROUP_OF.get(flag.name) or own].append(flag)
    lines = [as_started(description).strip(), ""]
    for title, members in sections.items():
        if members:
            lines += [f"{title}:", *map(_help_of, members), ""]
    return "\n".join([*lines, "--helpfull also lists the flags of the libraries."])


def _help_of(flag: flags.Flag) -> str:
    """A flag with its help and default, as wrapped lines."""
    name = f"[no]{flag.name}" if flag.boolean else flag.name
    default = "" if flag.default is None else flag.default_as_str.strip("'")
    text = f"--{name}: {flag.help}" + (f" (default: {default})" if default else "")
    return flags.text_wrap(text, length=100, indent="      ", firstline_indent="  ")

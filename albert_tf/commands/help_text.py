"""The text of --help: what a script does, an example, and its flags in groups with their defaults.

    @help_text.group("Devices")
    def define_device_flags(): ...

Flags that the script itself defines come first. Only --helpfull lists the flags of libraries.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Iterator

from absl import flags

_OWN = "This command"
GROUPS = ("Model", "Runs", "Training", "Devices", "Export")
_GROUP_OF: dict[str, str] = {}  # by the flag's name
# absl answers --helpshort without the flags of the package, which are most of them.
_REQUESTS = {"--help", "-help", "-h", "--helpshort", "-helpshort"}


def group(title: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a function that defines flags. --help lists these flags under `title`, one of GROUPS."""

    def decorate(define: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(define)
        def defining(*args: Any, **kwargs: Any) -> None:
            before = set(flags.FLAGS)
            define(*args, **kwargs)
            _GROUP_OF.update(dict.fromkeys(set(flags.FLAGS) - before, title))

        return defining

    return decorate


def is_requested(arguments: list[str]) -> bool:
    """Whether a command line has --help or --helpshort."""
    return not _REQUESTS.isdisjoint(arguments)


def help_text(description: str, module: str) -> str:
    """The text that --help prints.

    Args:
      description: the command's docstring.
      module: the name of its module.
    """
    sections: dict[str, list[flags.Flag]] = {title: [] for title in (_OWN, *GROUPS)}
    for flag in _flags_of(module):
        sections[_GROUP_OF.get(flag.name, _OWN)].append(flag)
    lines = [description.strip(), ""]
    for title, members in sections.items():
        if members:
            lines += [f"{title}:", *map(_described, members), ""]
    return "\n".join([*lines, "--helpfull also lists the flags of the libraries."])


def _flags_of(module: str) -> Iterator[flags.Flag]:
    """The flags that a command, albert_tf and a program such as `python -m studies` define, in this order."""
    by_module = flags.FLAGS.flags_by_module_dict()
    of_package = [name for name in by_module if name.startswith("albert_tf.") and name != module]
    of_program = [name for name in by_module if name == sys.argv[0]]
    for name in dict.fromkeys((module, *of_program, *of_package)):
        yield from by_module.get(name, [])


def _described(flag: flags.Flag) -> str:
    """A flag with its help and default, as wrapped lines."""
    name = f"[no]{flag.name}" if flag.boolean else flag.name
    default = "" if flag.default is None else flag.default_as_str.strip("'")
    text = f"--{name}: {flag.help}" + (f" (default: {default})" if default else "")
    return flags.text_wrap(text, length=100, indent="      ", firstline_indent="  ")

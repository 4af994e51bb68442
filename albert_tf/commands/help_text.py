"""The text of --help: what a script does, an example, and its flags in groups with their defaults.

    @help.group("Devices")
    def define_device_flags(): ...

Flags that the script itself defines come first. Only --helpfull lists the flags of libraries.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterator

from absl import flags

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


def help_text(description: str, script: str) -> str:
    """The text that --help prints.

    Args:
      description: the script's docstring.
      script: its path, as in sys.argv.
    """
    sections: dict[str, list[flags.Flag]] = {title: [] for title in ("This script", *GROUPS)}
    for flag in _flags_of(script):
        sections[_GROUP_OF.get(flag.name, "This script")].append(flag)
    lines = [description.strip(), ""]
    for title, members in sections.items():
        if members:
            lines += [f"{title}:", *map(_described, members), ""]
    return "\n".join([*lines, "--helpfull also lists the flags of the libraries."])


def _flags_of(script: str) -> Iterator[flags.Flag]:
    """The flags that a script, the scripts that it imports, and albert_tf define, in this order."""
    modules = flags.FLAGS.flags_by_module_dict()
    of_package = [module for module in modules if module.startswith("albert_tf.")]
    of_scripts = [module for module in modules if module == script or "." not in module]
    for module in (*of_scripts, *of_package):
        yield from modules[module]


def _described(flag: flags.Flag) -> str:
    """A flag with its help and default, as wrapped lines."""
    name = f"[no]{flag.name}" if flag.boolean else flag.name
    default = "" if flag.default is None else flag.default_as_str.strip("'")
    text = f"--{name}: {flag.help}" + (f" (default: {default})" if default else "")
    return flags.text_wrap(text, length=100, indent="      ", firstline_indent="  ")

"""The release's names of the variables in a transformer block: bert/encoder/transformer/group_0/inner_group_0/..."""

from __future__ import annotations

import re
from typing import NamedTuple

_BLOCK = re.compile(r"bert/encoder/transformer/group_(\d+)/inner_group_(\d+)/(.+)")


class BlockVariable(NamedTuple):
    """A variable of a block: its group, its inner group, and the rest of its name."""

    group: int
    inner: int
    name: str


def block_scope(group: int, inner: int = 0) -> str:
    """The scope of a block's variables."""
    return f"bert/encoder/transformer/group_{group}/inner_group_{inner}"


def block_variable(name: str) -> BlockVariable | None:
    """The parts of a variable's name; None if the variable is not in a block."""
    match = _BLOCK.fullmatch(name)
    return BlockVariable(int(match[1]), int(match[2]), match[3]) if match else None

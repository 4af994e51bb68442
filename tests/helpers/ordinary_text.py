"""Ordinary English sentences with quotes, brackets, dashes and currency signs, from our pages and Python's own."""

import itertools
import pathlib
import re
from pydoc_data.topics import topics

REPOSITORY = pathlib.Path(__file__).parents[2]
SPECIAL = ("[CLS]", "[SEP]", "[MASK]", "<pad>", "<unk>")
_CURRENCIES = ["It costs £5 (about €6) – not $7.", "“A £1,000 coat?” – “No, €1,250.50.”", "He owes me ¥900, or 5 ¢."]


def sentences(count: int) -> list[str]:
    """`count` different sentences, of which most have a mark. None has a special token in it."""
    paths = sorted((REPOSITORY / "docs").glob("*.md")) + [REPOSITORY / "README.md", REPOSITORY / "LICENSE"]
    ours, pythons = "\n\n".join(path.read_text("utf-8") for path in paths), "\n\n".join(map(topics.get, sorted(topics)))
    mixed = itertools.chain.from_iterable(zip(_split(ours), _split(pythons)))
    return [*_CURRENCIES, *itertools.islice(mixed, count - len(_CURRENCIES))]


def _split(text: str) -> list[str]:
    """The sentences of a text with a quote, a bracket or a dash."""
    lines = (" ".join(line.split()) for line in re.split(r"\n\s*\n|(?<=[.!?])\s", text))
    return [line for line in dict.fromkeys(lines)
            if len(line) > 20 and re.search("[-–\"'()\\[\\]$]", line) and not any(map(line.__contains__, SPECIAL))]

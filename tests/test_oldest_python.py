"""The sources run on Python 3.9, the oldest version, although tests mostly run on a later one."""

import ast
import pathlib

REPOSITORY = pathlib.Path(__file__).parents[1]
FOLDERS = ("albert_tf", "benchmarks", "demo", "studies", "tests")
OLDEST = (3, 9)
# What later versions added to functions and modules of 3.9 (ruff and mypy do not look for it).
LATER_ARGUMENTS = {("zip", "strict"), ("dataclass", "slots"), ("dataclass", "kw_only"), ("glob", "root_dir"),
                   ("bisect_left", "key"), ("bisect_right", "key")}
LATER_NAMES = {"pairwise", "batched", "bit_count", "StrEnum", "NoneType", "UnionType", "file_digest", "add_note",
               "aclosing", "get_annotations", "orig_argv", "stdlib_module_names"}


def later_than_oldest(source: str) -> list[str]:
    """What a source uses that Python 3.9 lacks, as "line: name"."""
    later = []
    for node in ast.walk(ast.parse(source, feature_version=OLDEST)):
        if isinstance(node, ast.Call):
            function = getattr(node.func, "attr", getattr(node.func, "id", None))
            later += [f"{node.lineno}: {function}({argument.arg}=)" for argument in node.keywords
                      if (function, argument.arg) in LATER_ARGUMENTS]
        elif getattr(node, "attr", None) in LATER_NAMES:
            later.append(f"{node.lineno}: {node.attr}")
        elif isinstance(node, ast.ImportFrom):
            later += [f"{node.lineno}: {name.name}" for name in node.names if name.name in LATER_NAMES]
    return later


def test_no_source_uses_what_python_3_9_lacks():
    sources = [path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.py")]
    assert len(sources) > 300
    later = {str(path): later_than_oldest(path.read_text(encoding="utf-8"))
             for path in [*sources, *REPOSITORY.glob("*.py")]}
    assert not {path: uses for path, uses in later.items() if uses}


def test_later_uses_are_seen():
    source = "from itertools import pairwise\nzip(a, b, strict=True)\nitertools.batched(a, 2)\n"
    assert sorted(later_than_oldest(source)) == ["1: pairwise", "2: zip(strict=)", "3: batched"]

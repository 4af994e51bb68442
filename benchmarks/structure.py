"""Counts what a reader has to open: files, lines, imports, and the files that three flows of data enter.

    python -m benchmarks.structure

The flows: raw text to the first update of the weights, a question of SQuAD to predictions.json, and an archive of the
release to a model. A profile function lists the files of albert_tf whose functions are called, by package. Each flow
and each import runs in a process of its own. Lines of code are those that are not blank and not in a comment, a
docstring or an import.
"""

from __future__ import annotations

import ast
import collections
import functools
import inspect
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import tokenize
from typing import Iterable, Iterator

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "albert_tf"
# Each package imports only from those before it.
LAYERS = ("utils", "config", "keras", "devices", "text", "data", "modeling", "training", "weights", "export",
          "pretraining", "tasks", "server", "beam", "commands")
SIZES = dict(vocab_size=30000, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
             intermediate_size=16, max_position_embeddings=64)
SENTENCES = "\n".join(f"{name} sold the {thing} to a man from the north ."
                      for name in ("Ann", "Bob", "Cid") for thing in ("boat", "house", "red car", "kettle")) + "\n"
# By title: the pattern of a setting's names, and the folder of its task.
SETTINGS = {"single_texts": (r"\bsingle_texts\b", "tasks/classification/"),
            "early exit": (r"early_exit|\bexit_", "modeling/early_exit.py")}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
QUESTIONS = {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "Ann sold the boat to Bob.", "qas": [
    {"id": "q", "question": "Who sold the boat?", "answers": [{"text": "Ann", "answer_start": 0}]}]}]}]}

_IMPORTS = """
import sys, time
import tensorflow
from albert_tf import keras
keras.Model
start = time.perf_counter()
import albert_tf
albert_tf.from_pretrained("albert_tiny_en")
seconds = time.perf_counter() - start
print(*sorted(name for name in sys.modules if name.partition(".")[0] == "albert_tf"))
print(round(seconds, 2))
"""
_TRACE = """
import sys
from benchmarks.structure import recording
with recording({until!r}) as files:
    {call}
print("\\n".join(sorted(files)))
"""


class recording:
    """A context whose value is the set of albert_tf's files whose functions are called in it, by any thread.

    What runs while a module is imported does not count, nor do comprehensions, which are functions up to Python 3.11.

    Args:
      until: name of the function of albert_tf at whose first call the recording ends; None for the end of the block.
    """

    def __init__(self, until: str | None = None):
        self._until = until

    def __enter__(self) -> set[str]:
        files: set[str] = set()

        def note(frame, event, _):
            code = frame.f_code
            is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.endswith(("comp>", "genexpr>"))
            if event == "call" and is_function and code.co_filename.startswith(f"{PACKAGE}/"):
                if code.co_name == self._until:
                    self.__exit__()
                    return
                name = code.co_filename[len(f"{PACKAGE}/"):]
                if name not in files and not _is_importing(frame):
                    files.add(name)

        threading.setprofile(note)
        sys.setprofile(note)
        return files

    def __exit__(self, *_) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def _is_importing(frame) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(f"{PACKAGE}/"):
            return True
        frame = frame.f_back
    return False


def run_command(name: str, **flag_values) -> None:
    """Runs a command in this process, as its users start it."""
    from absl import flags

    from albert_tf.commands import app

    flags.FLAGS.remove_flag_values(set(flags.FLAGS) - _flags_of_libraries())
    flags.FLAGS.unparse_flags()
    sys.argv = [f"python -m albert_tf {name}", *(f"--{flag}={value}" for flag, value in flag_values.items())]
    try:
        app.run_command(name)
    except SystemExit as end:
        if end.code:
            raise


@functools.lru_cache(maxsize=None)
def _flags_of_libraries() -> frozenset[str]:
    from absl import flags

    return frozenset(flags.FLAGS)


def text_to_update(folder: str) -> None:
    """Makes a vocabulary and records from text, and takes one step of pre-training."""
    path = pathlib.Path(folder)
    (path / "text.txt").write_text(SENTENCES * 30)
    (path / "config.json").write_text(json.dumps(dict(SIZES, vocab_size=36)))
    records = str(path / "train.tfrecord")
    run_command("train_vocabulary", input_file=path / "text.txt", model_prefix=path / "spm", vocab_size=36)
    run_command("create_pretraining_data", input_file=path / "text.txt", output_file=records, dupe_factor=1,
                spm_model_file=path / "spm.model", max_seq_length=32, max_predictions_per_seq=5, num_workers=1)
    run_command("run_pretraining", input_file=records, output_dir=path / "run", albert_config_file=path / "config.json",
                max_seq_length=32, max_predictions_per_seq=5, train_batch_size=8, num_train_steps=1, num_warmup_steps=0,
                spm_model_file=path / "spm.model")


def question_to_predictions(folder: str) -> None:
    """Predicts a question of SQuAD with a model that has the head."""
    path = pathlib.Path(folder)
    (path / "dev.json").write_text(json.dumps(QUESTIONS))
    run_command("run_squad", predict_file=path / "dev.json", init_checkpoint=path / "span", output_dir=path / "squad",
                do_predict=True, max_seq_length=48, doc_stride=16, max_query_length=16, num_workers=1)


def archive_to_model(folder: str) -> None:
    """Loads an archive of the release."""
    import albert_tf

    albert_tf.from_pretrained(f"{folder}/released.tar.gz", model="pretrainer")


# By title: the flow, and the function of albert_tf at whose first call it ends.
FLOWS = {"raw text to the first update": (text_to_update, "on_train_batch_end"),
         "question to predictions.json": (question_to_predictions, None),
         "archive to model": (archive_to_model, None)}


def prepare(folder: str) -> None:
    """Makes a model with a span head, and an archive of the release."""
    import tarfile

    import albert_tf

    path, shipped = pathlib.Path(folder), PACKAGE / "models" / "albert_tiny_en" / "spiece.model"
    config = albert_tf.AlbertConfig(**SIZES)
    tokenizer = albert_tf.FullTokenizer(spm_model_file=str(shipped))
    config = config.replace(vocab_size=tokenizer.vocab_size)
    albert_tf.save_pretrained(albert_tf.AlbertSpan(config), str(path / "span"), tokenizer=tokenizer)
    albert_tf.save_pretrained(albert_tf.AlbertPretrainer(config), str(path / "released"), to="tf1", tokenizer=tokenizer)
    with tarfile.open(path / "released.tar.gz", "w:gz") as archive:
        archive.add(path / "released", "albert_base")


def modules() -> dict[str, pathlib.Path]:
    """The modules of albert_tf by dotted name."""
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
            for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(path: pathlib.Path, known: dict[str, pathlib.Path]) -> Iterator[str]:
    """The modules of albert_tf that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in known or node.module in known:
                    yield name if name in known else node.module


def import_graph() -> dict[str, set[str]]:
    """The imports of each module."""
    known = modules()
    return {name: set(imports_of(path, known)) - {name, "albert_tf"} for name, path in known.items()}


def upward_imports() -> list[tuple[str, str]]:
    """Pairs of a module and one that it imports from a package below its own in LAYERS."""
    def layer(module: str) -> int:
        package = module.split(".")[1] if "." in module else ""
        return LAYERS.index(package) if package in LAYERS else len(LAYERS)

    return [(module, other) for module, others in import_graph().items() for other in sorted(others)
            if layer(other) > layer(module)]


def cycles() -> list[set[str]]:
    """Groups of modules that import each other."""
    graph = import_graph()

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for other in graph[waiting.pop()] - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    reach = {module: reachable(module) for module in graph}
    groups = {frozenset(other for other in reach[module] if module in reach[other]) for module in graph}
    return sorted((set(group) for group in groups if group), key=sorted)


def imported_by_from_pretrained() -> tuple[list[str], float]:
    """The modules of albert_tf that from_pretrained("albert_tiny_en") imports in a process of its own, and its seconds.

    The time begins when TensorFlow and Keras are imported.
    """
    names, seconds = _output(_IMPORTS)[-2:]
    return names.split(), float(seconds)


def lines(paths: Iterable[pathlib.Path]) -> int:
    """All lines, as `wc -l` counts them."""
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


def code_lines(path: pathlib.Path) -> int:
    """Lines of code, as the module's docstring defines them."""
    with tokenize.open(path) as file:
        tokens = [token for token in tokenize.generate_tokens(file.readline)
                  if token.string.strip() and token.type != tokenize.COMMENT]
    numbers = {number for token in tokens for number in range(token.start[0], token.end[0] + 1)}
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED):
            node = node.body[0] if ast.get_docstring(node) is not None else None
        elif not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        if node:
            numbers -= set(range(node.lineno, node.end_lineno + 1))
    return sum(bool(line.strip()) and number in numbers for number, line in enumerate(text.splitlines(), start=1))


def files_that_name(setting: str) -> list[str]:
    """The files of albert_tf that have one of a setting's names, outside of its task."""
    pattern, task = SETTINGS[setting]
    names = {str(path.relative_to(PACKAGE)): path for path in modules().values()}
    return [name for name, path in names.items()
            if not name.startswith(task) and re.search(pattern, path.read_text(encoding="utf-8"))]


def _output(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout.splitlines()


def main() -> None:
    for folder in ("albert_tf", "tests", "benchmarks", "studies"):
        files = list((ROOT / folder).rglob("*.py"))
        print(f"{folder}/: {len(files)} files, {lines(files):,} lines, {sum(map(code_lines, files)):,} of them code")
    for setting in SETTINGS:
        print(f"{setting}: named in {len(files_that_name(setting))} files outside its task: "
              f"{' '.join(files_that_name(setting))}")
    print(f"imports that run upward: {upward_imports() or 'none'}; cycles: {cycles() or 'none'}")
    for task in sorted(path for path in (PACKAGE / "tasks").iterdir() if (path / "__init__.py").is_file()):
        print(f"tasks/{task.name}: {len(list(task.glob('*.py'))) - 1} files, {lines(task.glob('*.py')):,} lines")
    names, seconds = imported_by_from_pretrained()
    print(f"from_pretrained(\"albert_tiny_en\"): {len(names)} modules, {seconds} s after TensorFlow's import")
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        for title, (flow, until) in FLOWS.items():
            call = f"import benchmarks.structure as s; s.{flow.__name__}({folder!r})"
            entered = [line for line in _output(_TRACE.format(call=call, until=until)) if line.endswith(".py")]
            print(f"{title}: {len(entered)} files")
            packages = collections.defaultdict(list)
            for name in entered:
                packages[name.rpartition("/")[0]].append(name)
            for names in packages.values():
                print(f"  {len(names)}: {' '.join(names)}")


if __name__ == "__main__":
    main()

"""The packages import in one direction, and a reader finds few files at the top."""

import ast
import pathlib
import re
import tokenize

from albert_tf.commands.usage import NAMES
from benchmarks import structure

# Programs of the release, SQuAD and Hugging Face that docstrings and comments name.
OF_OTHERS = {"run_squad_v1.py", "run_squad_v2.py", "classifier_utils.py", "race_utils.py", "squad_utils.py",
             "optimization.py", "lamb_optimizer.py", "evaluate-v1.1.py", "evaluate-v2.0.py", "run_qa.py",
             "run_qa_beam_search.py", "run_swag.py", "run_ner.py"}


def test_packages_import_only_from_those_above_them():
    assert structure.upward_imports() == []


def test_an_import_that_runs_upward_is_found(tmp_path, monkeypatch):
    package = tmp_path / "albert_tf"
    files = {"text/a.py": "from albert_tf.tasks import b\n", "tasks/b.py": "import albert_tf.text.a\n"}
    for name, content in files.items():
        (package / name).parent.mkdir(parents=True)
        (package / name).write_text(content)
    monkeypatch.setattr(structure, "ROOT", tmp_path)
    monkeypatch.setattr(structure, "PACKAGE", package)
    assert structure.upward_imports() == [("albert_tf.text.a", "albert_tf.tasks.b")]
    assert structure.cycles() == [{"albert_tf.text.a", "albert_tf.tasks.b"}]


def test_no_modules_import_each_other():
    assert structure.cycles() == []


def test_files_that_docstrings_and_comments_name_exist():
    files = [path for folder in ("albert_tf", "benchmarks", "demo", "studies", "tests")
             for path in (structure.ROOT / folder).rglob("*.py")] + list(structure.ROOT.glob("*.py"))
    parts = [path.relative_to(structure.ROOT).parts for path in files]
    known = {"/".join(path[start:]) for path in parts for start in range(len(path))} | OF_OTHERS
    missing = [f"{path.relative_to(structure.ROOT)}: {name}" for path in files for text in prose_of(path)
               for name in re.findall(r"(?<![\w./*-])[a-z_][\w/.-]*\.py\b", text) if name not in known]
    assert not missing


def prose_of(path):
    """The docstrings and the comments of a file."""
    with tokenize.open(path) as file:
        comments = [token.string for token in tokenize.generate_tokens(file.readline) if token.type == tokenize.COMMENT]
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef)
    return comments + [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(path.read_text("utf-8")))
                       if isinstance(node, nodes)]


def test_few_files_lie_at_the_top():
    assert {path.name for path in structure.PACKAGE.glob("*.py")} == {
        "__init__.py", "__main__.py", "config.py", "devices.py", "keras.py"}
    scripts = {path.stem for path in pathlib.Path(structure.ROOT).glob("*.py")}
    assert len(scripts) == 8 and scripts < set(NAMES)


def test_a_profile_lists_the_files_whose_functions_are_called():
    from albert_tf.utils import bounds

    with structure.recording() as files:
        bounds.check_one_of("a", 1, (1, 2))
    assert files == {"utils/bounds.py"}


def test_a_model_of_the_package_imports_only_the_modules_of_its_format():
    names, _ = structure.imported_by_from_pretrained()
    assert len(names) <= 50
    assert "albert_tf.weights.hugging_face.reading" in names
    others = ("archive", "download", "tf1", "tf_hub")
    assert not set(names) & {f"albert_tf.weights.{other}" for other in others}

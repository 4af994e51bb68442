"""The packages import in one direction, and the counts of benchmarks.structure are right."""

from benchmarks import structure


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


def test_lines_of_code_have_no_blank_line_comment_docstring_or_import(tmp_path):
    file = tmp_path / "module.py"
    file.write_text('''"""A module
of two lines."""

import os
from os.path import (
    join,
)

# a comment
TEXT = """one

two"""  # three lines, of which one is blank


def name(a,  # a comment
         b):
    """A docstring."""
    return join(a, b)
''')
    assert (structure.lines([file]), structure.code_lines(file)) == (18, 5)


def test_a_setting_is_counted_by_the_files_that_name_it_outside_its_task():
    assert "modeling/classifier.py" in structure.files_that_name("single_texts")
    assert not any(name.startswith("tasks/classification/") for name in structure.files_that_name("single_texts"))
    assert "training/callbacks.py" not in structure.files_that_name("early exit")  # __exit__


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

"""The packages import in one direction, and a reader finds few files at the top."""

import pathlib

from albert_tf.commands.usage import NAMES
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
    assert structure.circles() == [{"albert_tf.text.a", "albert_tf.tasks.b"}]


def test_no_modules_import_each_other():
    assert structure.circles() == []


def test_few_files_lie_at_the_top():
    assert {path.name for path in structure.PACKAGE.glob("*.py")} == {
        "__init__.py", "__main__.py", "config.py", "devices.py", "keras.py"}
    scripts = {path.stem for path in pathlib.Path(structure.ROOT).glob("*.py")}
    assert len(scripts) == 8 and scripts < set(NAMES)


def test_a_profile_lists_the_files_whose_functions_are_called():
    from albert_tf.modeling import sizes

    with structure.recording() as files:
        sizes.published({})
    assert files == {"modeling/sizes.py"}


def test_a_model_of_the_package_imports_only_the_modules_of_its_format():
    names, _ = structure.imported_by_from_pretrained()
    assert len(names) <= 50
    assert "albert_tf.weights.hugging_face.reading" in names
    others = ("archive", "download", "tf1", "tf_hub")
    assert not set(names) & {f"albert_tf.weights.{other}" for other in others}

"""The names of `import albert_tf`, which imports nothing until they are used."""

import importlib
import pkgutil
import re
import subprocess
import sys

from script_session import REPOSITORY

import albert_tf
from albert_tf.weights.heads import HEAD_NAMES, settings_class

# Neither packages nor the version.
CALLABLE = [name for name in albert_tf.__all__ if callable(getattr(albert_tf, name))]


def test_every_public_name_is_there():
    for name in albert_tf.__all__:
        assert getattr(albert_tf, name) is not None
    assert albert_tf.AlbertClassifier.__name__ == "AlbertClassifier"


def test_the_reference_has_the_public_names_alone_where_they_are_defined():
    reference = (REPOSITORY / "docs/reference.rst").read_text("utf-8")
    shown = re.findall(r"^\.\. autoapi(?:class|function):: (.+)$", reference, re.MULTILINE)
    defined = {f"{getattr(albert_tf, name).__module__}.{name}" for name in CALLABLE}
    settings = {f"{each.__module__}.{each.__name__}" for each in map(settings_class, HEAD_NAMES)
                if len(each.__annotations__) > 1}  # not the name of the head alone
    results = {"albert_tf.tasks.masked_lm.Filling", "albert_tf.tasks.classification.answers.Label",
               "albert_tf.tasks.squad.answers.TextAnswer", "albert_tf.export.onnx.session.OnnxModel"}
    bases = {f"albert_tf.modeling.settings.{name}" for name in ("Settings", "LabelSettings")}
    assert len(defined) > 20 and sorted(shown) == sorted(defined | results | settings | bases)


def test_importing_the_package_imports_no_tensorflow_and_modules_are_reached_by_their_path():
    program = ("import sys, albert_tf; print('tensorflow' in sys.modules, albert_tf.__version__, "
               "albert_tf.modeling.classifier.AlbertClassifier is albert_tf.AlbertClassifier, "
               "albert_tf.text.packing.PairPacker.__name__, albert_tf.training.optimizer.__name__, "
               "albert_tf.weights.heads.head_named('span').model is albert_tf.AlbertSpan)")
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.split() == [
        "False", albert_tf.__version__, "True", "PairPacker", "albert_tf.training.optimizer", "True"]


def test_packages_have_the_names_that_they_list_and_an_unknown_one_is_an_attribute_error():
    packages = [found.name for found in pkgutil.walk_packages(albert_tf.__path__, "albert_tf.") if found.ispkg]
    assert len(packages) > 10
    for package in (albert_tf, *map(importlib.import_module, packages)):
        assert not hasattr(package, "no_such_name")
        assert all(hasattr(package, name) for name in getattr(package, "__all__", ()))

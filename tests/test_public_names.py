"""The names of `import albert_tf`, which imports nothing until they are used."""

import importlib
import subprocess
import sys

import albert_tf


def test_every_public_name_is_there():
    for name in albert_tf.__all__:
        assert getattr(albert_tf, name) is not None
    assert albert_tf.AlbertClassifier.__name__ == "AlbertClassifier"


def test_modules_are_reached_by_their_path_without_an_import():
    program = ("import albert_tf; "
               "print(albert_tf.modeling.classifier.AlbertClassifier is albert_tf.AlbertClassifier, "
               "albert_tf.text.packing.PairPacker.__name__, albert_tf.training.optimizer.__name__, "
               "albert_tf.weights.heads.head_named('span').model is albert_tf.AlbertSpan)")
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["True", "PairPacker", "albert_tf.training.optimizer", "True"]


def test_importing_the_package_does_not_import_tensorflow():
    program = "import sys, albert_tf; print('tensorflow' in sys.modules, albert_tf.__version__)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["False", albert_tf.__version__]


def test_an_unknown_name_is_an_attribute_error():
    for package in (albert_tf, importlib.import_module("albert_tf.modeling")):
        assert not hasattr(package, "no_such_name")

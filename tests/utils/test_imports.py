"""A program that imports albert_tf does not see the log messages of TensorFlow's C++ code, unless it asks for them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from albert_tf.utils import imports

pytestmark = pytest.mark.both_stacks

REPOSITORY = Path(__file__).parents[2]
FIRST_PROGRAM = re.search(r"```python\n([^`]*text_vectors.*?)```", (REPOSITORY / "README.md").read_text(), re.S)[1]
FITTING = """
import numpy as np
from albert_tf import keras
encoder = albert_tf.from_pretrained("albert_tiny_en", "classifier", num_labels=2)
encoder.compile("adam", "mse")
encoder.fit(tokenizer(["Yes."]), np.ones([1, 2]), verbose=0)
"""
REDUCTION = """
import tensorflow as tf
from albert_tf.modeling.operations import compiled
x = tf.ones([8, 48, 224])
compiled(lambda x, y: (x + y) * tf.reduce_mean(x + y, -1, keepdims=True))(x, x)
"""


def printed_by(program, level=None):
    """stdout and stderr of a program in a new process, with this value of TF_CPP_MIN_LOG_LEVEL (None: not set)."""
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    environment.update(dict(TF_CPP_MIN_LOG_LEVEL=level) if level else {})
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, env=environment, capture_output=True,
                          text=True, check=True)
    return done.stdout, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("level", [None, "3"])
def test_the_first_program_and_a_fit_print_no_message_of_tensorflow(level):
    stdout, stderr = printed_by(FIRST_PROGRAM + FITTING, level)
    assert stdout == "The boat was sold in May.\n"
    assert [line for line in stderr.splitlines() if "albert_tiny_en has no weights" not in line] == []


@pytest.mark.long
def test_the_first_program_and_a_fit_need_no_extra():
    """The modules of all extras are blocked, as if only the dependencies of the package were installed."""
    blocked = [name for name in imports._EXTRAS if name != "apache_beam"] + ["jax"]
    block = f"import sys; sys.modules.update(dict.fromkeys({blocked}))\n"
    assert printed_by(block + FIRST_PROGRAM + FITTING)[0] == "The boat was sold in May.\n"


def test_xla_makes_no_fusions_that_two_threads_cannot_start_at_once_and_keeps_the_users_flags(tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_text")
    stdout, _ = printed_by(REDUCTION + "import os; print(os.environ['XLA_FLAGS'])")
    assert stdout.strip() == os.environ["XLA_FLAGS"]
    programs = [path.read_text() for path in tmp_path.glob("*cpu_after_optimizations.txt")]
    assert any("reduce" in program for program in programs)
    assert not any("ynn_fusion" in program for program in programs)


def test_a_missing_module_is_told_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    for use in (lambda: imports.check_installed("--export_dir", "sys", "tensorflow_text"),
                lambda: imports.LazyModule("tensorflow_text", "--export_dir").SentencepieceTokenizer):
        with pytest.raises(ValueError, match="^--export_dir needs the package tensorflow-text, .*: "
                           "pip install tensorflow-text, .*\\[text]'$"):
            use()


@pytest.mark.parametrize("route", [
    "from albert_tf import keras; keras.Model", "import albert_tf; albert_tf.AlbertModel",
    "import albert_tf; albert_tf.training.optimizer",
    "from albert_tf.utils.imports import tensorflow; tensorflow.constant"])
def test_each_way_to_tensorflow_is_quiet(route, tmp_path, monkeypatch):
    """A stub replaces TensorFlow. It writes what TensorFlow 2.21 writes when it is imported, whatever the level is."""
    stub = "import os; os.write(2, b'I0000 00:00:17.6 port.cc:153] on\\n'); constant = 1"
    (tmp_path / "tensorflow.py").write_text(stub)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(REPOSITORY)]))
    program = f"import contextlib\nwith contextlib.suppress(AttributeError, ImportError):\n    {route}"
    assert printed_by(program)[1] == ""
    assert "port.cc" in printed_by(program, "0")[1]


def test_an_import_keeps_the_users_own_level_and_works_without_stderr():
    program = "import os, albert_tf; print(os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    assert [printed_by(program, level)[0] for level in ("1", None)] == ["1\n", "3\n"]
    program = "import os; os.close(2); import albert_tf.utils.imports as q\nwith q.quietly(): print('imported')"
    assert printed_by(program)[0] == "imported\n"

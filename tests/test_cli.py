"""How a script starts and ends: its own lines only, and one for a mistake."""

import pytest
import tensorflow as tf
from absl import app, logging

from albert_tf import cli


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a script's main() in this process; returns (exit status, what was printed on stderr)."""
    monkeypatch.setattr(app, "run", lambda main: main(["script.py"]))
    verbosity = logging.get_verbosity()

    def run(main):
        try:
            cli.run(main)
        except SystemExit as end:
            return end.code, capsys.readouterr().err
        return 0, capsys.readouterr().err

    yield run
    logging.set_verbosity(verbosity)


def test_an_error_of_tensorflow_is_one_line_without_the_names_of_its_ops(run):
    def main():
        raise tf.errors.OutOfRangeError(
            None, None, "{{function_node __wrapped__SaveV2_device_/job:a}} x.data;\nFile too large [Op:SaveV2]")

    assert run(main) == (1, "script.py: error: x.data; File too large\n")

"""What CONTRIBUTING.md adds to the package works in a copy of it: a metric, a head and a weight format."""

import os
import shutil
import subprocess
import sys

import pytest
from documentation import Page
from script_session import REPOSITORY

# Where the blocks go that are not whole files, by the section of the page: the file, and the line before it.
AFTER = {"Add a metric": [("tasks/classification/metrics.py", "_METRICS = {\n")],
         "Add a head": [("weights/heads.py", "HEADS = (\n"), ("export/onnx/writing.py", "    return vectors\n")],
         "Add a weight format": [("weights/stored_model.py", "_FORMATS = {\n")]}


@pytest.fixture
def copy(tmp_path):
    """A folder with a copy of the package that has the page's additions."""
    shutil.copytree(REPOSITORY / "albert_tf", tmp_path / "albert_tf", ignore=shutil.ignore_patterns("__pycache__"))
    blocks = [block for block in Page(REPOSITORY / "CONTRIBUTING.md").blocks if block.section in AFTER]
    for block in blocks:
        if block.file:
            (tmp_path / block.file).write_text(block.text)
    for section, rows in AFTER.items():
        parts = [block.text for block in blocks if block.section == section and not block.file]
        assert len(rows) == len(parts)
        for (file, line), block in zip(rows, parts):
            replace(tmp_path / "albert_tf" / file, line, line + block)
    replace(tmp_path / "albert_tf/tasks/classification/table_format.py", "\nCLASSIFICATION_METRICS = (",
            '\nCLASSIFICATION_METRICS = ("precision", ')
    return tmp_path


def replace(path, line, text):
    content = path.read_text()
    assert content.count(line) == 1, (path, line)
    path.write_text(content.replace(line, text))


@pytest.mark.long
def test_the_metric_the_head_and_the_format_of_the_page_work(copy):
    done = subprocess.run([sys.executable, REPOSITORY / "tests/helpers/additions_client.py", copy / "out"],
                          env=dict(os.environ, PYTHONPATH=str(copy)), cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(copy / "albert_tf/__init__.py")]

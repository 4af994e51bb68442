"""The two requirement files, and the stack that each Python version uses."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

REPOSITORY = Path(__file__).parents[1]


def pins(file: str, python: str) -> dict[str, str]:
    """The version of each package, as this Python reads the file."""
    lines = [line.split(" #")[0].strip() for line in (REPOSITORY / file).read_text().splitlines()]
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    chosen = [requirement for requirement in requirements
              if requirement.marker is None or requirement.marker.evaluate(dict(python_version=python))]
    versions = {requirement.name: str(requirement.specifier) for requirement in chosen}
    assert len(versions) == len(chosen), "a package stands twice"
    return versions


@pytest.mark.parametrize("python, tensorflow", [
    ("3.10", "==2.15.1"), ("3.11", "==2.15.1"), ("3.12", "==2.21.0"), ("3.13", "==2.21.0")])
def test_the_version_of_python_chooses_tensorflow(python, tensorflow):
    chosen = pins("requirements.txt", python)
    assert chosen["tensorflow"] == tensorflow
    assert ("tensorflow-addons" in chosen) == (tensorflow == "==2.15.1") == ("tf-keras" not in chosen)


@pytest.mark.parametrize("python", ["3.12", "3.13"])
def test_both_files_have_the_same_newest_stack(python):
    assert pins("requirements.txt", python) == pins("requirements-newest.txt", python)


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
@pytest.mark.parametrize("file", ["requirements.txt", "requirements-beam.txt"])
def test_every_version_is_pinned(file, python):
    assert pins(file, python)
    assert all(version.startswith("==") for version in pins(file, python).values())


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_beam_can_be_installed_after_tensorflow_2_15(python):
    """proto-plus 1.29 needs protobuf 6.33; then TensorFlow 2.15, which needs less than 5, cannot be imported."""
    version = pins("requirements-beam.txt", python)["proto-plus"].removeprefix("==")
    assert Version(version) < Version("1.29")
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = {each.name: each for each in map(Requirement, project["optional-dependencies"]["beam"])}
    assert version in extra["proto-plus"].specifier and "1.29.0" not in extra["proto-plus"].specifier

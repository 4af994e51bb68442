"""One session of commands, and one trained run of each task, for all tests of this folder."""

import functools

import pytest
from script_session import ScriptSession
from tuning import TASKS, TRAINING, Run, write_inputs


@pytest.fixture(scope="session")
def session():
    """A session in which training steps are not traced, unless eagerly=False says so."""
    with ScriptSession(eagerly=True) as session:
        yield session


@pytest.fixture(scope="session")
def inputs(tmp_path_factory, golden):
    """The folder of the files of tuning.TASKS."""
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder, golden)
    return folder


@pytest.fixture(scope="session")
def command_of(session, inputs, golden, config_file, tiny_spm, tmp_path_factory):
    """A function from the name of a task to a Run, which calls its command, and has not been trained."""
    folder = tmp_path_factory.mktemp("runs")

    def command_of(name):
        task = TASKS[name]
        flags = {flag: value.format(golden=golden, inputs=inputs) if isinstance(value, str) else value
                 for flag, value in task.flags.items()}
        model = dict(albert_config_file=config_file, spm_model_file=tiny_spm, cached_dir=folder / "cached")
        if task.script == "run_race":  # whose defaults these are not
            flags.update(do_train=False, do_eval=False)
        return Run(task, session, {**model, **TRAINING, **flags}, folder / name.replace(" ", "_"))

    return command_of


@pytest.fixture(scope="session")
def run_of(command_of):
    """A function from the name of a task to its Run, which was trained in graphs, evaluated, and has predicted."""
    @functools.cache
    def run_of(name):
        run = command_of(name)
        run.printed = run(output_dir=run.path, do_train=True, do_eval=True, do_predict=True, eagerly=False)
        return run

    return run_of

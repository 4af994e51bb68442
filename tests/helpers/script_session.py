"""Many runs (in_process.py) of our commands in a process (script_process.py) that all sessions of the tests share:

    with ScriptSession("run_classifier") as session:
        printed = session.run(task_name="rte", do_train=True)
        error = session.run(expect=1, task_name="no such task")
        printed = session.run(script="fill_mask", init_checkpoint="rte", text="a [MASK]")

Files at ram:// are the process' own: every script of the session sees them, and session.copy fills and reads them.
"""

import faulthandler
import json
import os
import sys
import tempfile

from script_process import REPOSITORY, arguments_of, start

# By their environment. A process is started by the first session, ends with the tests, and is replaced if a run has
# ended it.
_processes = {}


class ScriptSession:
    """A session, as the test uses it. Its runs start in the working directory that the test has then.

    Args:
      script: its name in the repository; None if every run names its own.
      eagerly: whether tf.functions run without being traced first. A few training steps cost less then, and give the
        same but for rounding.
      environment: variables of the process, besides those of this one.
      **flags: of every run, where the run does not give them itself.
    """

    def __init__(self, script: str = None, eagerly: bool = False, environment: dict = None, **flags):
        self._script, self._eagerly, self._flags = script, eagerly, flags
        self._environment = environment or {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """The process stays for the next session."""

    def run(self, expect: int = 0, script: str = None, eagerly: bool = None, **flags) -> str:
        """Runs a script with flags (see arguments_of) and returns its output."""
        answer = self._ask(script or self._script, arguments_of({**self._flags, **flags}),
                           self._eagerly if eagerly is None else eagerly)
        assert answer["status"] == expect, answer["printed"]
        return answer["printed"]

    def run_command(self, command: list) -> int:
        """Runs a command of albert_tf/commands/command_runs.py: [python, -m, albert_tf, script, --name=value, ...].

        Prints its output, and returns its exit status.
        """
        answer = self._ask(command[3], command[4:], self._eagerly)
        print(answer["printed"])
        return answer["status"]

    def copy(self, source, target) -> None:
        """Copies a file or a folder. Source and target may be at ram://."""
        self._ask(None, [str(source), str(target)], False)

    def _ask(self, *request) -> dict:
        process = _processes.get(str(self._environment))
        if process is None or process.returncode is not None:
            process = start(__file__, [], input=None, environment=self._environment)
            _processes[str(self._environment)] = process
        with tempfile.NamedTemporaryFile("r", errors="replace") as printed:
            print(json.dumps([os.getcwd(), printed.name, *request]), file=process.stdin, flush=True)
            answer = process.readline()
            if not answer:
                raise AssertionError(f"the process ended with status {process.wait()} in the run that printed: "
                                     f"{printed.read()}")
            return dict(json.loads(answer), printed=printed.read())


def serve() -> None:
    """The process of the session: runs a script, or copies a file, for each line on stdin."""
    sys.path.insert(0, str(REPOSITORY))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    answers = os.fdopen(os.dup(1), "w")
    import tensorflow as tf
    from in_process import loaded

    faulthandler.enable()
    for line in sys.stdin:
        folder, path, script, arguments, eagerly = json.loads(line)
        os.chdir(folder)
        tf.config.run_functions_eagerly(eagerly)
        if script is None:
            copy(*arguments)
            print(json.dumps({}), file=answers, flush=True)
            continue
        with open(path, "w") as printed, loaded(script) as run:
            os.dup2(printed.fileno(), 1), os.dup2(printed.fileno(), 2)
            status = run.arguments(arguments)
            sys.stdout.flush(), sys.stderr.flush()
        print(json.dumps(dict(status=status)), file=answers, flush=True)


def copy(source: str, target: str) -> None:
    import tensorflow as tf

    if not tf.io.gfile.isdir(source):
        tf.io.gfile.makedirs(os.path.dirname(target))
        tf.io.gfile.copy(source, target, overwrite=True)
        return
    for name in tf.io.gfile.listdir(source):
        if tf.io.gfile.exists(os.path.join(source, name)):  # ram:// lists assets.extra as assets/.extra, too
            copy(os.path.join(source, name), os.path.join(target, name))


if __name__ == "__main__":
    serve()

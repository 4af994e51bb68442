"""Many runs of one script of ours in one process, so that TensorFlow is loaded once. For tests:

    with ScriptSession("run_classifier.py") as session:
        printed = session.run(task_name="rte", do_train=True)
        error = session.run(expect=1, task_name="no such task")
"""

import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).parent.parent


class ScriptSession:
    """The test's side.

    Args:
      script: its name in the repository.
      **flags: of every run, where the run does not give them itself.
    """

    def __init__(self, script: str, **flags):
        self._flags = flags
        self._process = subprocess.Popen([sys.executable, __file__, script], text=True, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()

    def run(self, expect: int = 0, **flags) -> str:
        """Runs the script; flags that are None are left out. Returns what it printed."""
        given = {name: value for name, value in {**self._flags, **flags}.items() if value is not None}
        print(json.dumps([f"--{name}={value}" for name, value in given.items()]), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        assert answer["status"] == expect, answer["printed"]
        return answer["printed"]


def serve(script: str) -> None:
    """The other side: runs the script for each line of arguments on stdin."""
    sys.path.insert(0, str(REPOSITORY))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    answers = os.fdopen(os.dup(1), "w")
    from absl.testing import flagsaver

    from albert_tf import cli

    main = runpy.run_path(str(REPOSITORY / script))["main"]
    for line in sys.stdin:
        sys.argv = [script, *json.loads(line)]
        with tempfile.TemporaryFile("w+") as printed, flagsaver.flagsaver():
            os.dup2(printed.fileno(), 1), os.dup2(printed.fileno(), 2)
            status = status_of(cli.run, main)
            sys.stdout.flush(), sys.stderr.flush()
            printed.seek(0)
            print(json.dumps(dict(status=status, printed=printed.read())), file=answers, flush=True)


def status_of(run, main) -> int:
    from albert_tf import keras

    try:
        run(main)
    except SystemExit as end:
        return end.code or 0
    finally:
        keras.mixed_precision.set_global_policy("float32")
        keras.backend.clear_session()
    return 0


if __name__ == "__main__":
    serve(sys.argv[1])

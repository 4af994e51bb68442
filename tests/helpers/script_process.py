"""Runs Python scripts for tests, each in a new process that has TensorFlow loaded from the start.

A server process, which imports no module of this repository, imports TensorFlow once and forks for every run
(multiprocessing's "forkserver").

    done = run("create_pretraining_data", dict(input_file=text, output_file=path))
    with start("run_pretraining", flags, merged=True) as process:  # for signals, and for several processes at once
        process.wait_for("training from step 0")
        process.send_signal(signal.SIGTERM)

Many runs that train or predict are faster in one process: see script_session.py.
"""

import atexit
import contextlib
import itertools
import multiprocessing
import os
import pathlib
import resource
import runpy
import selectors
import signal
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).parents[2]
TIMEOUT = 600  # seconds
PRELOADED = ["tensorflow", "tensorflow_text", "sklearn.metrics", "scipy.stats"]

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(PRELOADED)


def preload(*modules):
    """Adds modules to PRELOADED, which the server imports. Call it before the first run."""
    _server.set_forkserver_preload([*PRELOADED, *modules])


def start(script, flags=(), **options):
    """Starts a script.

    Args:
      script: name of a command, or the path of a program in the repository.
      flags: {name: value}, as arguments_of takes them, or a list of arguments.
      **options: of ScriptProcess.
    """
    arguments = arguments_of(flags) if isinstance(flags, dict) else list(map(str, flags))
    if not str(script).endswith(".py"):
        script, arguments = "albert_tf/__main__.py", [script, *arguments]
    return ScriptProcess(str(REPOSITORY / script), arguments, **options)


def run(script, flags=(), timeout=TIMEOUT, **options):
    """Runs a script to its end. Arguments are those of `start`; the result is a subprocess.CompletedProcess."""
    with start(script, flags, **options) as process:
        stdout, stderr = process.communicate(timeout)
    return subprocess.CompletedProcess(script, process.returncode, stdout, stderr)


def deterministic():
    """Prepares a script: its results are equal bit for bit. Environment variables make it differ.

    DEVICES is the number of logical CPU devices. KILL_AT_RENAME=n ends the process by SIGKILL just before it renames
    its n-th file, so in the middle of a save.
    """
    import tensorflow as tf

    tf.config.experimental.enable_op_determinism()
    cpu, = tf.config.list_physical_devices("CPU")
    devices = [tf.config.LogicalDeviceConfiguration()] * int(os.environ.get("DEVICES", 1))
    tf.config.set_logical_device_configuration(cpu, devices)
    replace, renames = os.replace, itertools.count(1)

    def counted_replace(*args, **kwargs):
        if next(renames) == int(os.environ.get("KILL_AT_RENAME", 0)):
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*args, **kwargs)

    os.replace = counted_replace


def arguments_of(flags):
    """{name: value} -> ["--name=value", ...]. A flag is repeated for each value of a list, and left out for None."""
    return [f"--{name}={value}" for name, values in flags.items()
            for value in (values if isinstance(values, list) else [values]) if value is not None]


class ScriptProcess:
    """A running script, with a part of subprocess.Popen's interface.

    Args:
      script, arguments: its path and command line.
      environment: variables that are set besides those of this process.
      cwd: the working directory; by default that of this process.
      input: text for its standard input; None for a pipe, `stdin`, that stays open.
      merged: whether its standard error goes to its standard output.
      max_file_size: bytes of the largest file that it may write, as on a disk that is full.
      session: whether it leads a session of its own, so that os.killpg reaches it and all that it starts.
      prepare: a function without arguments that the new process calls before the script.
    """

    def __init__(self, script, arguments, environment=None, cwd=None, input="", merged=False, max_file_size=None,
                 session=False, prepare=None):
        variables = {**os.environ, **{name: str(value) for name, value in (environment or {}).items()}}
        pipes = [_server.Pipe(duplex=False) for _ in range(1 if merged else 2)]
        stdin = _server.Pipe(duplex=False) if input is None else (input, None)
        options = dict(environment=variables, cwd=str(cwd or os.getcwd()), max_file_size=max_file_size, session=session,
                       stdin=stdin[0], stdout=pipes[0][1], stderr=pipes[-1][1], prepare=prepare)
        self._process = _server.Process(target=_run_script, args=(script, arguments), kwargs=options)
        self._process.start()
        for _, writer in pipes:
            writer.close()
        self.stdin = None
        if input is None:
            stdin[0].close()
            self.stdin = open(os.dup(stdin[1].fileno()), "w", buffering=1, encoding="utf-8")
            stdin[1].close()
        self._readers = [reader for reader, _ in pipes]
        self._unread = [b""] * len(pipes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Kills the script if it still runs."""
        self.kill()
        self._process.join()
        for pipe in (*self._readers, *([self.stdin] if self.stdin else [])):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    @property
    def pid(self):
        return self._process.pid

    @property
    def returncode(self):
        """The exit status, -SIGNAL after a signal; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number):
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self):
        self._process.kill()

    def wait(self, timeout=TIMEOUT):
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout)
        return self.returncode

    def readline(self, timeout=TIMEOUT):
        """The next line of standard output; "" at the end."""
        self._read(timeout, until=b"\n")
        line, newline, self._unread[0] = self._unread[0].partition(b"\n")
        return (line + newline).decode("utf-8", "replace")

    def wait_for(self, *texts, timeout=TIMEOUT):
        """Reads standard output up to a line with one of the texts, and returns the line; fails if there is none."""
        lines = []
        for line in iter(lambda: self.readline(timeout), ""):
            lines.append(line)
            if any(text in line for text in texts):
                return "".join(lines)
        raise AssertionError(f"none of {texts} was printed: {''.join(lines)}")

    def close_stdout(self):
        """Ends the reading of standard output, as `head` does after its lines."""
        self._readers[0].close()

    def communicate(self, timeout=TIMEOUT):
        """Reads to the end and waits. Returns (stdout, stderr) from where `readline` stopped; stderr None if merged."""
        end = time.monotonic() + timeout
        self._read(timeout)
        self.wait(max(0, end - time.monotonic()))
        printed = [text.decode("utf-8", "replace") for text in self._unread]
        return printed[0], printed[1] if len(printed) > 1 else None

    def _read(self, timeout, until=None):
        end = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for which, reader in enumerate(self._readers):
                if not reader.closed:
                    selector.register(reader, selectors.EVENT_READ, which)
            while selector.get_map() and (until is None or until not in self._unread[0]):
                events = selector.select(max(0, end - time.monotonic()))
                if not events:
                    raise subprocess.TimeoutExpired(self._process.name, timeout, b"".join(self._unread))
                for key, _ in events:
                    block = os.read(key.fd, 2**16)
                    self._unread[key.data] += block
                    if not block:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()


def _run_script(script, arguments, environment, cwd, max_file_size, session, stdin, stdout, stderr, prepare):
    """Does in the new process what `python SCRIPT ARGUMENTS` does."""
    if session:
        os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # that of the server's environment
    os.chdir(cwd)
    with _as_file(stdin) as file:
        os.dup2(file.fileno(), 0)
    os.dup2(stdout.fileno(), 1)
    os.dup2(stderr.fileno(), 2)
    for pipe in {stdout, stderr}:
        pipe.close()  # the end of the script's own 1 and 2 is the end of the pipes
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs, such as pytest, ignore it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup makes pytest ignore it
    sys.argv = [script, *arguments]
    of_environment = [path for path in sys.path if not path.startswith(str(REPOSITORY)) or path.startswith(sys.prefix)]
    sys.path = [str(REPOSITORY), os.path.dirname(script), *of_environment]
    if max_file_size is not None:
        sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"] = True, "1"  # it would be cut, and read later
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_size, max_file_size))
    if prepare:
        prepare()
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # a process of multiprocessing leaves them out


def _as_file(stdin):
    """Returns a pipe unchanged, and a text as a file with this content."""
    if not isinstance(stdin, str):
        return stdin
    file = tempfile.TemporaryFile()
    file.write(stdin.encode("utf-8"))
    file.seek(0)
    return file


def _kill_what_still_runs():
    for process in multiprocessing.active_children():
        process.kill()


if multiprocessing.parent_process() is None:  # in pytest, and not in what it runs
    atexit.register(_kill_what_still_runs)

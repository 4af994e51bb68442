"""Start and end of a script: its output has only its own lines, and one line for a mistake of the user."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import script_process
import tensorflow as tf
from absl import app, flags, logging
from absl.testing import flagsaver

from albert_tf.commands import app as cli


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a script's main() in this process; returns (exit status, what was printed on stderr)."""
    command = ["script.py"]
    monkeypatch.setattr(app, "run", lambda main, **_: main(command))
    logger, verbosity = logging.get_absl_logger(), logging.get_verbosity()
    level, filters = logger.level, list(logger.filters)

    def run(main, *argv, **options):
        command[:] = argv or ["script.py"]
        try:
            cli.run(main, **options)
        except SystemExit as end:
            return end.code, capsys.readouterr().err
        return 0, capsys.readouterr().err

    yield run
    logging.set_verbosity(verbosity)
    logger.setLevel(level)
    logger.filters[:] = filters


def test_a_package_that_is_run_has_its_name_in_errors_and_may_take_an_operand(run):
    def main(name="nothing"):
        raise ValueError(f"no study {name}")

    assert run(main, "/x/studies/__main__.py", "sharing", operands=1) == (1, "studies: error: no study sharing\n")
    assert run(main, "/x/studies/__main__.py", operands=1) == (1, "studies: error: no study nothing\n")
    hint = "The value of a flag follows =, as in --flag=value"
    assert run(main, "/x/studies/__main__.py", "sharing", "more", operands=1) == (
        1, f"studies: error: unexpected argument: more. {hint}\n")
    assert run(main, "script.py", "sharing") == (1, f"script: error: unexpected argument: sharing. {hint}\n")


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&- <&-"])
def test_a_closed_stream_is_no_file_of_the_command(tmp_path, closed):
    program = ("import os, sys; from albert_tf.commands import app; file = open('file', 'w'); file.write('text'); "
               "os.write(1, b'printed'); os.write(2, b'printed'); print('printed'); sys.stdout.flush()")
    (tmp_path / "tensorflow.py").write_text("")  # a stub
    done = subprocess.run(["bash", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program],
                          cwd=tmp_path, env=dict(os.environ, PYTHONPATH=str(Path(__file__).parents[2])), timeout=100)
    assert (tmp_path / "file").read_text() == "text" and done.returncode == 0


# For each command, in its own process: its status and what it prints for a flag, and the libraries that it imports.
TELLING = """
import contextlib, io, json, os, sys
from albert_tf.commands import app

for name in sys.argv[1:]:
    for flag in ("--no_such_flag", "--verbosity=loud", "--help"):
        if os.fork():
            os.wait()
            continue
        sys.argv, printed, status = ["python -m albert_tf " + name, flag], io.StringIO(), None
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                app.run_command(name)
            except SystemExit as end:
                status = end.code
        imported = {"tensorflow", "keras", "tensorflow_text"}.intersection(sys.modules)
        os.write(1, (json.dumps([name, flag, status, printed.getvalue(), sorted(imported)]) + "\\n").encode())
        os._exit(0)
"""


@pytest.mark.both_stacks
def test_a_wrong_flag_and_help_are_told_before_tensorflow_is_imported():
    done = subprocess.run([sys.executable, "-c", TELLING, *cli.NAMES], cwd=Path(__file__).parents[2],
                          capture_output=True, text=True, check=True)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == 3 * len(cli.NAMES), done.stderr
    for name, flag, status, printed, imported in told:
        assert imported == [], name
        if flag == "--help":
            assert status == 0 and cli.summary(name) in printed
            continue
        message = {"--no_such_flag": "unknown flag --no_such_flag; --help lists all flags",
                   "--verbosity=loud": "--verbosity must be a whole number. Received: loud"}[flag]
        assert (status, printed) == (1, f"{name}: error: {message}\n")


@pytest.mark.parametrize("program, number, status, line", [
    (["-m", "albert_tf", "run_squad"], "SIGINT", 130, "interrupted\n"),
    (["run_squad.py"], "SIGTERM", 143, "ended by SIGTERM\n")], ids=["module", "script"])
def test_a_signal_during_the_import_of_tensorflow_is_one_line(tmp_path, program, number, status, line):
    """A stub replaces TensorFlow, and sends the signal."""
    (tmp_path / "tensorflow.py").write_text(f"import os, signal\nos.kill(os.getpid(), signal.{number})\n")
    done = subprocess.run(
        [sys.executable, *program, f"--output_dir={tmp_path}"], cwd=Path(__file__).parents[2], text=True,
        env=dict(os.environ, PYTHONPATH=str(tmp_path)), capture_output=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # which background jobs of a shell ignore
    assert (done.returncode, done.stderr) == (status, line)


def test_commands_are_listed_and_an_unknown_one_is_named_with_the_nearest(capsys):
    done = script_process.run("albert_tf/__main__.py", ["--help"])
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0] == "Usage: python -m albert_tf COMMAND --flag=value ..."
    assert {line.split()[0] for line in lines if line.startswith("  ")} == set(cli.NAMES)
    assert f"  serve                    {cli.summary('serve')}" in lines
    done = script_process.run("albert_tf/__main__.py", ["run-squat"])
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: there is no command 'run-squat'; did you mean run_squad?" in done.stderr


@pytest.mark.parametrize("verbosity, printed", [(None, ["told"]), (-1, []), (1, ["hidden", "told"])])
def test_info_is_logged_unless_the_user_says_otherwise(run, caplog, verbosity, printed):
    def main():
        logging.debug("hidden")
        logging.info("told")

    with flagsaver.flagsaver():
        flags.FLAGS["verbosity"].present = 0
        logging.set_verbosity(logging.WARNING)  # absl's default
        if verbosity is not None:
            flags.FLAGS(["script.py", f"--verbosity={verbosity}"])
        status, _ = run(main)
    assert status == 0
    assert sorted(record.message for record in caplog.records) == printed


@pytest.mark.parametrize("argument, message", [
    ("--topk=3", "unknown flag --topk (did you mean --top_k?); --help lists all flags"),
    ("--batch=3", "unknown flag --batch; --help lists all flags"),
    ("--top_k=many", "--top_k must be a whole number. Received: many"),
    ("--top_k=0", "--top_k must be a positive integer. Received: 0"),
    ("--rate=-1", "--rate must be a non-negative number. Received: -1"),
    ("--do_train=5", "--do_train must be true or false. Received: 5"),
    ("--model=spam", "--model must be one of span|classifier. Received: spam"),
    ("--top_k", "--top_k has no value")])
def test_a_wrong_flag_is_one_line(monkeypatch, capsys, argument, message):
    values = flags.FlagValues()
    flags.DEFINE_integer("top_k", 5, "", lower_bound=1, flag_values=values)
    flags.DEFINE_bool("do_train", False, "", flag_values=values)
    flags.DEFINE_float("rate", 1.0, "", lower_bound=0.0, flag_values=values)
    flags.DEFINE_enum("model", "span", ["span", "classifier"], "", flag_values=values)
    monkeypatch.setattr(flags, "FLAGS", values)
    with pytest.raises(SystemExit, match="1"):
        cli._parse_flags(["script.py", argument])
    assert capsys.readouterr().err == f"script: error: {message}\n"


_PRINTS = """
import dataclasses
from typing import Annotated
from albert_tf.commands import app, flags
from albert_tf.options import COMMAS, NO_PATHS, Config

@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Config):
    files: Annotated[tuple[str, ...], COMMAS, "Paths."] = ()
    model: Annotated[tuple[str, ...], "NAME=PATH."] = ()
    text: Annotated[tuple[str, ...], NO_PATHS, "Texts."] = ()

flags.define(Options)
app._import_tensorflow, app._run = lambda: None, lambda main, argv: main()
flags.flags.DEFINE_string("x", None, "A flag of no config.")
app.run(lambda: print(flags.FLAGS.x, *(options := flags.read(Options)).files, *options.model, *options.text, sep="|"))
"""


@pytest.mark.parametrize("environment", [
    {}, dict(PYTHONIOENCODING="latin-1"), dict(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")])
def test_arguments_are_utf8_and_a_tilde_is_home_whatever_the_terminal_is(environment):
    def run(*arguments):
        return subprocess.run([sys.executable, "-c", _PRINTS, *arguments], capture_output=True,
                              env={**os.environ, "HOME": "/h", **environment})

    ended = run("--x=~/r.json", "--files=~/é 日,/x/~/y, ~/z", "--model=a=~/m", "--model=~", "--text=~/é",
                "--text", "\U0001F600")
    texts = "/h/r.json|/h/é 日|/x/~/y|/h/z|a=/h/m|/h|~/é|\U0001F600\n"
    encoding = environment.get("PYTHONIOENCODING", "ascii" if "PYTHONUTF8" in environment else "utf-8")
    assert ended.stdout == texts.encode(encoding, "backslashreplace"), ended.stderr
    ended = run(b"--text=caf\xe9")
    assert ended.returncode == 1 and ended.stderr == b"-c: error: an argument is not UTF-8: '--text=caf\\udce9'\n"


START_UP = b"""WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795285292.661818   31256 port.cc:153] oneDNN custom operations are on.
"""


@pytest.mark.parametrize("level, start_up, end", [
    (None, b"", ""), ("0", START_UP, ""), (None, b"", "raise ImportError('no wheel')")])
def test_start_up_messages_are_dropped_and_all_else_is_kept(tmp_path, level, start_up, end):
    """A stub replaces TensorFlow. It writes what TensorFlow 2.21 writes when it is imported."""
    (tmp_path / "tensorflow.py").write_text(f"import os; os.write(2, {START_UP!r} + b'out of memory\\n')\n{end}")
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    environment.update(dict(PYTHONPATH=str(tmp_path)), **(dict(TF_CPP_MIN_LOG_LEVEL=level) if level else {}))
    program = "from albert_tf.commands import app; app._import_tensorflow()"
    run = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], env=environment,
                         capture_output=True)
    assert run.stderr.startswith(start_up + b"out of memory\n")
    assert run.stderr.endswith(b"ImportError: no wheel\n" if "raise" in end else b"out of memory\n")


# As two workers of TensorFlow 2.15 raised them.
LOST_WORKER = """Graph execution error:

Detected at node CollectiveReduceV2 defined at (most recent call last):
  File "/a/run_classifier.py", line 123, in <module>

  File "/a/albert_tf/training/trainer.py", line 97, in _step_on_replicas

Collective ops is aborted by: Error reported from /job:worker/task:1: Task /job:worker/replica:0/task:1 heartbeat \
timeout.
The error could be from a previous operation. Restart your program to reset.
\t [[{{node CollectiveReduceV2}}]] [Op:__inference__step_on_replicas_3379]"""
LOST_CHIEF = """Collective ops is aborted by: Deadline Exceeded
Additional GRPC error information from remote target /job:worker/replica:0/task:0 while calling \
/tensorflow.CoordinationService/Heartbeat:"""


@pytest.mark.parametrize("error, status, line", [
    (KeyboardInterrupt(), 130, "interrupted"), (BrokenPipeError(32, "Broken pipe"), 1, "error: [Errno 32] Broken pipe"),
    (MemoryError("Unable to allocate 7. GiB for an array"), 1,
     "error: not enough memory. Unable to allocate 7. GiB for an array"),
    (ValueError("x.json: unknown key: \x1b[2J\u202e\u00e4"), 1, "error: x.json: unknown key: \\x1b[2J\\u202e\u00e4"),
    (FileNotFoundError(2, "No such file", "a\n\x1b[2J"), 1, "error: a\\n\\x1b[2J: No such file"),
    (tf.errors.OutOfRangeError(
        None, None, "{{function_node __wrapped__SaveV2_device_/job:a}} x.data;\nFile too large [Op:SaveV2] name: "), 1,
     "error: x.data; File too large"),
    (tf.errors.UnavailableError(None, None, "Graph execution error:\n\nDetected at node Read defined at:\n"
                                '  File "/a/b.py", line 1, in f\n\ngs://a/b cannot be reached'), 1,
     "error: gs://a/b cannot be reached"),
    (tf.errors.UnavailableError(None, None, LOST_WORKER), 1, "error: worker 1 (10.0.0.2:2222) no longer answers: "),
    (tf.errors.DeadlineExceededError(None, None, LOST_CHIEF), 1,
     "error: worker 0 (10.0.0.1:2222) no longer answers: "),
    (tf.errors.AbortedError(None, None, "Collective ops is aborted by: Connection reset"), 1,
     "error: another worker no longer answers: ")],
    ids=["Ctrl-C", "pipe", "memory", "others' key", "others' name", "full disk",
         "connection", "a worker", "the chief", "not named"])
def test_an_error_is_one_line_without_the_names_of_tensorflows_ops(run, monkeypatch, error, status, line):
    cluster = dict(worker=["10.0.0.1:2222", "10.0.0.2:2222"])
    monkeypatch.setenv("TF_CONFIG", json.dumps(dict(cluster=cluster, task=dict(type="worker", index=0))))

    def main():
        raise error

    ended, printed = run(main)
    assert ended == status and printed.count("\n") == 1
    assert printed.removeprefix("script: ").startswith(line if "answers" in line else f"{line}\n")


@pytest.mark.parametrize("arguments", [
    ["--init_checkpoint=albert_tiny_en", "--text=a [MASK]", "--verbosity=-1"], ["--help"]])
def test_a_script_ends_quietly_when_the_reader_of_its_output_has_ended(arguments):
    with script_process.start("fill_mask", arguments) as process:
        process.close_stdout()
        _, printed = process.communicate()
        assert (process.returncode, printed) == (128 + 13, "")


def test_the_log_has_no_control_characters_of_others_files():
    record = logging.get_absl_logger().makeRecord("absl", 20, "x.py", 7, "not used: %s\n%s", ("\x1b[2J\u202e", "ä"),
                                                    None)
    assert cli._LINE.format(record).partition("] ")[2] == "not used: \\x1b[2J\\u202e\nä"

"""Starts a command of albert_tf in an empty folder, disturbs it, runs it again, and compares what it has left.

A run is a fork of a process that has imported TensorFlow (script_process.py). Where the kernel allows it, the calls by
which it writes are watched (calls.py).
"""

import collections
import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import signal
import string
import struct
import subprocess
import time

import calls
import script_process
from calls import cpu_seconds
from scenarios import SCENARIOS, write_data

# What commands import besides script_process.PRELOADED.
PRELOADED = ["filelock", "huggingface_hub", "matplotlib.backends.backend_svg", "matplotlib.figure", "safetensors.numpy",
             "sentencepiece", "tensorboard.summary", "tqdm", "yaml"]
OUTLIVES = 30  # seconds that the workers of a killed command may take to end
LIMIT = 300  # seconds of a run
CHANGES = ("rename", "link", "unlink", "rmdir", "mkdir")  # of names
SHUTDOWN = 0x8004587D  # a file system's: the power goes
DISK = 400 << 20  # bytes
TEMPORARY = re.compile(r"\.(tmp|lock)\b")
# Event files have the time in their names; TensorFlow 2.21 draws a SavedModel's fingerprint; temporary files are
# reported apart.
NOT_COMPARED = re.compile(rf"events\.out\.tfevents|fingerprint\.pb|{TEMPORARY.pattern}")
# In the list of an export's files: the size of what TensorFlow 2.21 draws.
FINGERPRINT = re.compile(rb'"fingerprint\.pb": \{[^}]*\}')


@dataclasses.dataclass
class Ended:
    """A run's exit status (-SIGNAL after a signal, None if it had to be ended), what it printed, its CPU seconds."""

    status: int
    printed: str
    cpu: float

    @property
    def error(self):
        """The line of a refusal, for messages."""
        return next((line for line in reversed(self.printed.splitlines()) if "error" in line.lower()), "")[-300:]

    def problems(self, allowed):
        """What is wrong with the way in which it ended."""
        found = ["traceback: " + self.printed.strip().splitlines()[-1]] if "Traceback" in self.printed else []
        return found + ([] if self.status in allowed else [f"status {self.status}: {self.error}"])


Undisturbed = collections.namedtuple("Undisturbed", "status files cpu changes calls")


class Workplace:
    """The folders of the drills, and the undisturbed runs that they compare with.

    Args:
      folder: an empty folder.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.data, self.out, self.temporary, self.finished = (
            self.folder / name for name in ("data", "out", "tmp", "finished"))
        for path in (self.data, self.finished):
            path.mkdir(parents=True)
        write_data(self.data)
        self.watch, self.left_out = None, {}
        self.is_watched, self.disks = self._can("exact kills and failing calls", calls.why_not()), [
            kind for kind in ("ext4", "xfs") if self._can(f"power cuts of {kind}", self._why_no_disk(kind))]
        script_process.preload(*PRELOADED)
        self._undisturbed = {}

    def _can(self, what, why_not):
        if why_not:
            self.left_out[what] = why_not
        return not why_not

    def _why_no_disk(self, kind):
        """Why the output folder cannot be a file system of its own; "" if it can."""
        if os.geteuid() or not shutil.which(f"mkfs.{kind}"):
            return f"it needs root and mkfs.{kind}"
        try:
            with self.disk(kind):
                return ""
        except subprocess.CalledProcessError as error:
            return str(error)

    @contextlib.contextmanager
    def disk(self, kind):
        """A block in which the output folder is on a file system of its own, in a file."""
        image = self.folder / f"{kind}.image"
        with open(image, "wb") as file:
            file.truncate(DISK)
        self.out.mkdir(exist_ok=True)
        subprocess.run([f"mkfs.{kind}", "-q", image], check=True, capture_output=True)
        self._mount(kind)
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", self.out], check=True)
            image.unlink()

    def _mount(self, kind):
        image = self.folder / f"{kind}.image"
        subprocess.run(["mount", "-o", "loop", image, self.out], check=True, capture_output=True)

    def cut_power(self, kind, has_names):
        """Loses what the disk's file system has in memory: files, and names and sizes unless has_names."""
        descriptor = os.open(self.out, os.O_RDONLY)
        fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", 1 if has_names else 2))
        os.close(descriptor)
        subprocess.run(["umount", self.out], check=True, capture_output=True)
        self._mount(kind)

    def clear(self, name=None):
        """Empties the output folder, or fills it with what an undisturbed run has left."""
        for path in (self.out, self.temporary):
            shutil.rmtree(path, ignore_errors=True)
        self.temporary.mkdir()
        self.out.mkdir(exist_ok=True)  # where a disk is mounted, it stays
        if name:
            shutil.copytree(self.finished / name, self.out, dirs_exist_ok=True)

    def start(self, command, is_watched=True, **disturbance):
        """Starts a command. The disturbance is that of calls.Watch; `watch` has its calls."""
        environment = dict(TMPDIR=self.temporary, XDG_CACHE_HOME=self.temporary, TF_CPP_MIN_LOG_LEVEL=3,
                           OMP_NUM_THREADS=1, PYTHONHASHSEED=0, CUDA_VISIBLE_DEVICES="")
        words = string.Template(command.replace("OUT", str(self.out))).substitute(
            {name: self.finished / name for name in SCENARIOS}).split()
        ours, theirs = multiprocessing.Pipe()
        is_watched &= self.is_watched
        process = script_process.start(words[0], words[1:], environment=environment, cwd=self.data, merged=True,
                                       session=True, prepare=functools.partial(calls.install, theirs) if is_watched
                                       else None)
        theirs.close()
        if is_watched:
            self.watch = calls.Watch(ours, self.folder, **disturbance)
        return process

    def run(self, command, number=None, is_group=True, at=None, action="kill", lasting=(), **when):
        """Runs a command to its end, which a signal `number` brings at the time `when` (see `wait`) or at a call."""
        with self.start(command, at=at, action=action, lasting=lasting) as process:
            if number and not at and self.wait(process, **when):
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(-process.pid if is_group else process.pid, number)
            return end(process)

    def wait(self, process, cpu=0.0, after=None, delay=0.0):
        """Waits until a process has used CPU seconds, and for a delay after a call. False if it ended before."""
        while process.returncode is None:
            if cpu_seconds(process.pid) >= cpu and (not after or after in self.watch.calls):
                time.sleep(delay)
                return process.returncode is None
            wait_for_end(process, 0.005)
        return False

    def undisturbed(self, name, command=None, earlier=None):
        """The status, files, CPU seconds, changes of names in the output folder and calls of an undisturbed run.

        Args:
          name: of the run, under which its output folder is kept.
          command: by default that of the scenario of this name.
          earlier: name of the run whose output is in the folder at the start.
        """
        if name not in self._undisturbed:
            command = command or SCENARIOS[name].command
            ended = self._run_in(earlier, command)
            problems = ended.problems([0, 1] if earlier else [0]) + self.leftovers()
            if problems:
                raise RuntimeError(f"{name}, undisturbed: {problems}\n{ended.printed[-3000:]}")
            shutil.rmtree(self.finished / name, ignore_errors=True)
            shutil.copytree(self.out, self.finished / name)
            if name == "vocabulary":
                shutil.copy(self.out / "v.model", self.data / "vocabulary.model")
            called = list(self.watch.calls.values()) if self.watch else []
            changes = [call for call in called if re.match(rf"({'|'.join(CHANGES)}) out/", call.at[0])]
            self._undisturbed[name] = Undisturbed(ended.status, files(self.out), ended.cpu, changes, called)
            reader = name in SCENARIOS and SCENARIOS[name].reader
            if reader and self._run_in(name, reader).status:
                raise RuntimeError(f"{reader} does not read what {name} has left")
        return self._undisturbed[name]

    def _run_in(self, earlier, command):
        """Runs a command in the folder that an undisturbed run has left, or an empty one."""
        for needed in re.findall(r"\$(\w+)", command):
            self.undisturbed(needed)
        self.clear(earlier)
        return self.run(command)

    def leftovers(self, number=None):
        """Temporary files of the output folder and, unless it was a kill, of the system's folder for them.

        A process that was ended by a signal may leave an empty lock.
        """
        found = [path for path in self.out.rglob("*") if TEMPORARY.search(path.name)
                 and (number is None or path.suffix != ".lock")]
        found += [] if number == signal.SIGKILL else self.temporary.iterdir()
        return [f"{path.relative_to(self.folder)} is left" for path in found]


def wait_for_end(process, seconds):
    """Waits some seconds for the end of a process."""
    try:
        process.communicate(seconds)
    except subprocess.TimeoutExpired:
        pass


def end(process, limit=LIMIT):
    """Waits for the end of a process and of its workers."""
    until, cpu = time.monotonic() + limit, 0.0
    while True:
        cpu = max(cpu, cpu_seconds(process.pid))
        try:
            printed, _ = process.communicate(timeout=0.05)
            return Ended(process.returncode, printed, cpu)
        except subprocess.TimeoutExpired:
            if process.returncode is not None:
                until = min(until, time.monotonic() + OUTLIVES)
            if time.monotonic() > until:
                status = process.returncode
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                return Ended(None, process.communicate()[0] + f"\nerror: still running (status {status})", cpu)


def files(folder):
    """{relative path: digest} of the files of a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not NOT_COMPARED.search(name):
            found[name] = hashlib.sha256(FINGERPRINT.sub(b"", path.read_bytes())).hexdigest()[:16]
    return found


def differences(expected, found):
    """The files that differ, are missing or are too many."""
    return [f"{name} is {'missing' if name not in found else 'too many' if name not in expected else 'different'}"
            for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]


def unreadable(folder):
    """JSON files that cannot be parsed, and checkpoints with an index and no data."""
    found = []
    for path in folder.rglob("*"):
        if TEMPORARY.search(str(path.relative_to(folder))) or not path.is_file():
            continue
        try:
            if path.suffix == ".json":
                json.loads(path.read_text())
            elif path.suffix == ".jsonl":
                [json.loads(line) for line in path.read_text().splitlines()]
            elif path.suffix == ".index" and not path.with_suffix(".data-00000-of-00001").exists():
                found.append(f"{path.name} without data")
        except ValueError:
            found.append(f"{path.name} is not JSON")
    return found

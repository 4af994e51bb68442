"""Watches the system calls by which a process writes, and lets one of them fail, wait or be the last one.

A process calls `install`. From then on, each of its calls in CALLS, and of those of all threads and processes that it
starts, waits until a `Watch` in another process has answered it (seccomp's user notification, Linux 5.19 on x86-64).
So calls of C and C++ libraries are seen, too.
"""

import ctypes
import fcntl
import os
import pathlib
import platform
import re
import select
import struct
import threading
from multiprocessing.reduction import recv_handle, send_handle
from typing import NamedTuple

CALLS = {  # number: operation, and the arguments of each path: its directory and its name, or a descriptor alone
    1: ("write", [(0,)]), 18: ("write", [(0,)]), 20: ("write", [(0,)]), 296: ("write", [(0,)]), 328: ("write", [(0,)]),
    2: ("create", [(None, 0)]), 85: ("create", [(None, 0)]), 257: ("create", [(0, 1)]),
    74: ("fsync", [(0,)]), 75: ("fsync", [(0,)]),
    82: ("rename", [(None, 0), (None, 1)]), 264: ("rename", [(0, 1), (2, 3)]), 316: ("rename", [(0, 1), (2, 3)]),
    86: ("link", [(None, 0), (None, 1)]), 265: ("link", [(0, 1), (2, 3)]), 88: ("link", [(None, 1)]),
    87: ("unlink", [(None, 0)]), 263: ("unlink", [(0, 1)]), 84: ("rmdir", [(None, 0)]),
    83: ("mkdir", [(None, 0)]), 258: ("mkdir", [(0, 1)]),
    76: ("truncate", [(None, 0)]), 77: ("truncate", [(0,)]), 285: ("allocate", [(0,)]),
    73: ("lock", [(0,)]), 40: ("copy", [(0,)]), 326: ("copy", [(2,)]),
}
OPEN_FLAGS = {2: 1, 257: 2}  # the argument with the flags: only calls that create or truncate are watched
CREATES = os.O_CREAT | os.O_TRUNC
UNLINKAT, REMOVES_FOLDER, FLOCK, UNLOCKS = 263, 0x200, 73, 8
# Temporary files of TensorFlow and phonemizer, whose removal at the exit may end in a traceback of theirs.
SPARED = re.compile("__autograph|libespeak|rmdir tmp/tmp#")
NEVER_RANDOM = re.compile(r"(?<=tmp)\w{8}\b|(?<=generated_file)\w{8}|[0-9a-f]{16}|\d+")

# The names of the kernel's headers.
SET_NO_NEW_PRIVILEGES, SECCOMP, SET_FILTER, NEW_LISTENER, WAIT_KILLABLE = 38, 317, 1, 1 << 3, 1 << 5
LOAD, EQUALS, HAS_BIT, RETURN, NOTIFY, ALLOW, CONTINUE = 0x20, 0x15, 0x45, 0x06, 0x7FC00000, 0x7FFF0000, 1
RECEIVE, SEND, NOTICE, ANSWER = 0xC0502100, 0xC0182101, struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
ARGUMENTS = 16  # their place in what the filter sees


class Call(NamedTuple):
    """A call: its kind is the operation and its paths without numbers; `at` is the kind and the how-manieth of it."""

    at: tuple
    cpu: float

    @property
    def operation(self):
        return self.at[0].partition(" ")[0]


def install(connection):
    """Lets the Watch at the other end of a connection answer the calls of this process."""
    listener = _listener()
    send_handle(connection, listener, None)
    os.close(listener)  # so that calls fail, and do not wait forever, if the Watch's process ends
    connection.close()


def _listener():
    """Installs the filter. Returns the descriptor that notifies of calls."""
    program = [(LOAD, 0, 0, 0)]
    for number in CALLS:
        if number in OPEN_FLAGS:
            program += [(EQUALS, 0, 4, number), (LOAD, 0, 0, ARGUMENTS + 8 * OPEN_FLAGS[number]),
                        (HAS_BIT, 0, 1, CREATES), (RETURN, 0, 0, NOTIFY), (RETURN, 0, 0, ALLOW)]
        else:
            program += [(EQUALS, 0, 1, number), (RETURN, 0, 0, NOTIFY)]
    program = b"".join(struct.pack("HBBI", *line) for line in (*program, (RETURN, 0, 0, ALLOW)))
    code = ctypes.create_string_buffer(program, len(program))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    descriptor = libc.syscall(SECCOMP, SET_FILTER, NEW_LISTENER | WAIT_KILLABLE,
                              struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code)))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor


def why_not():
    """Why calls cannot be watched here; "" if they can."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return "this is no Linux on x86-64"
    if child := os.fork():
        is_possible = os.waitpid(child, 0)[1] == 0
        return "" if is_possible else "seccomp does not notify (Linux 5.19 or newer, and a sandbox that allows it)"
    try:
        os._exit(_listener() < 0)
    except OSError:
        os._exit(1)


class Watch:
    """The calls of a process that has called `install`, on paths below a folder.

    Args:
      connection: the other end of the process's one.
      folder: paths are relative to it.
      at: the `at` of a call that is disturbed.
      action: what is done before it: "kill" (the process group), "hold" (until `release`), or an errno that it has.
      lasting: operations of which all later calls have the errno, too.

    Attributes:
      calls: {at: Call}.
    """

    def __init__(self, connection, folder, at=None, action=None, lasting=()):
        self.folder, self.at, self.action, self.lasting = f"{folder}/", at, action, lasting
        self.calls, self._counts, self._held = {}, {}, []
        self._listener = recv_handle(connection)
        connection.close()
        threading.Thread(target=self._answer_all, daemon=True).start()

    def release(self):
        while self._held:
            self._send(self._held.pop())

    def _answer_all(self):
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while poll.poll()[0][1] & select.POLLIN:  # or the last of the processes has ended
            notice = bytearray(NOTICE.size)
            try:
                fcntl.ioctl(self._listener, RECEIVE, notice)
            except (FileNotFoundError, InterruptedError):  # the process was killed
                continue
            identity, pid, _, number, _, _, *arguments = NOTICE.unpack(notice)
            try:
                error = self._error(pid, number, arguments)
            except (OSError, ValueError):  # it was killed now
                error = 0
            if error == "hold":
                self._held.append(identity)
            else:
                self._send(identity, error)
        os.close(self._listener)

    def _send(self, identity, error=0):
        try:
            fcntl.ioctl(self._listener, SEND, ANSWER.pack(identity, 0, -error, 0 if error else CONTINUE))
        except FileNotFoundError:  # the process was killed
            pass

    def _error(self, pid, number, arguments):
        """Adds a call to `calls`. Returns its errno, 0, or "hold"."""
        operation, places = CALLS[number]
        paths = [_path(pid, *(None if each is None else arguments[each] for each in place)) for place in places]
        if not paths[0].startswith(self.folder) or number == FLOCK and arguments[1] & UNLOCKS:
            return 0
        if number == UNLINKAT and arguments[2] & REMOVES_FOLDER:
            operation = "rmdir"
        kind = NEVER_RANDOM.sub("#", " ".join([operation, *(path.removeprefix(self.folder) for path in paths)]))
        self._counts[kind] = self._counts.get(kind, 0) + 1
        call = Call((kind, self._counts[kind]), cpu_seconds(pid))
        self.calls[call.at] = call
        if call.at == self.at and self.action == "kill":
            os.killpg(os.getpgid(pid), 9)
        elif call.at == self.at or self.at in self.calls and operation in self.lasting and not SPARED.search(kind):
            return self.action
        return 0


def _path(pid, directory, name=False):
    """A path that a process has: that of a descriptor, or a name and its directory's descriptor (None: its own)."""
    if name is False:
        return os.readlink(f"/proc/{pid}/fd/{directory & 0xFFFFFFFF}").removesuffix(" (deleted)")
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        memory.seek(name)
        path = os.fsdecode(memory.read(4096).partition(b"\0")[0])
    here = directory is None or directory & 0xFFFFFFFF == 0xFFFFFF9C  # AT_FDCWD
    return os.path.join(os.readlink(f"/proc/{pid}/cwd" if here else f"/proc/{pid}/fd/{directory & 0xFFFFFFFF}"), path)


def cpu_seconds(pid):
    """The CPU seconds of a process so far; 0 if it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

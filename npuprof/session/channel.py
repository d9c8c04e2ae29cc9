"""The channel between a kernel and workers that outlive its cells: sockets in a private folder, and two commands.

A worker listens on a socket of mode 0o600 in a folder of mode 0o700, on a thread of its own, and answers users of its
own number alone. A request is one short line of JSON that names a command and the folder of a job; an answer is a line
of words. The file ``job`` in the folder names the job of the cell that runs now, for processes that begin meanwhile.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import stat
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from npuprof import threads
from npuprof.files import atomic
from npuprof.recordings import job_folder

START, STOP = "start", "stop"
RECORDING, NOTHING, WRITTEN, BUSY = "recording", "nothing", "written", "busy"
"""The answers: it records or will with its next task; it has nothing; it has written; it cannot be interrupted."""
_COMMANDS = (START, STOP)
_PREFIX, _CURRENT, _MARK = "npuprof-workers-", "job", ".known"
_MOST_BYTES = 8192
_MOST_PATH_BYTES = 80  # of the folder: an address has at most 104 bytes on macOS, 108 on Linux
_PATIENCE_S = 1.0  # for one request, which is sent at once
_HEARD, _HEARD_S = b".", 2.0  # is sent before the answer; who does not send it in time cannot
_BACKLOG = 16
_PAUSE_S = 0.05  # after a failure to accept, as when all file numbers are taken

_SYSTEMS = ("linux", "darwin")  # which tell the user at the other end

Answer = Callable[[str, Path], str]


def make_folder(lost: Path | None = None) -> Path | None:
    """Create the folder of workers, where a lost one was; None if it fails, or users cannot be told apart."""
    if not hasattr(socket, "AF_UNIX") or sys.platform not in _SYSTEMS:
        return None
    if lost is not None:  # a fork server tells its workers of it
        with suppress(OSError):
            lost.mkdir(0o700)
            return lost
    _remove_old()
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp makes a private folder
        if len(os.fsencode(parent)) > _MOST_PATH_BYTES - 40:
            continue
        with suppress(OSError):
            return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
    return None


def _remove_old() -> None:
    """Remove the folders of this user's processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        number = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if number.isascii() and number.isdigit() and job_folder.is_private(folder) and not _exists(int(number)):
            remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Remove the folder, whose processes nobody calls any more."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    except OverflowError:
        return False
    return True


def set_current(folder: Path, job: Path | None) -> None:
    """Write which job records now; None ends it."""
    path = folder / _CURRENT
    with suppress(OSError):
        if job is None:
            path.unlink(missing_ok=True)
            return
        atomic.write(path, os.fsencode(job.absolute()))


def current_job(folder: Path) -> Path | None:
    """Return the folder of the job that records now; None without one."""
    if not job_folder.is_private(folder):
        return None
    try:
        name = (folder / _CURRENT).read_bytes()[:_MOST_BYTES]
    except OSError:
        return None
    return Path(os.fsdecode(name)) if name and b"\0" not in name else None


def listed(folder: Path) -> dict[int, Path]:
    """Return the sockets of the workers that listen, by the numbers of their processes; those that died are removed."""
    found: dict[int, Path] = {}
    with suppress(OSError):
        for entry in os.scandir(folder):
            if not (entry.name.isascii() and entry.name.isdigit() and len(entry.name) <= 10):
                continue
            with suppress(OSError):
                if not stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                    continue
                if _exists(int(entry.name)):
                    found[int(entry.name)] = Path(entry.path)
                else:
                    Path(entry.path).unlink()
    return found


def mark(folder: Path) -> None:
    """Note that this process is known, and listens once it has imported a front end."""
    with suppress(OSError):
        (folder / f"{os.getpid()}{_MARK}").touch(0o600)


def marked(folder: Path) -> set[int]:
    """Return the numbers of the processes that :func:`mark` noted."""
    names = [path.name.removesuffix(_MARK) for path in folder.glob(f"*{_MARK}")]
    return {int(name) for name in names if name.isascii() and name.isdigit()}


def _user_of(connected: socket.socket) -> int | None:
    """Return the number of the user at the other end; None if the system does not tell."""
    system: str = sys.platform
    try:
        if system == "linux":
            size = struct.calcsize("3i")
            return int(struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1])
        if system == "darwin":
            return int(struct.unpack_from("II", connected.getsockopt(0, 1, 76))[1])  # LOCAL_PEERCRED: struct xucred
    except (OSError, struct.error):
        return None
    return None


class Listener:
    """The socket of this process, and the thread that answers."""

    def __init__(self, folder: Path, answer: Answer) -> None:
        if not job_folder.is_private(folder):
            raise PermissionError(f"{folder} is open to others")
        self._path, self._answer, self._pid = folder / str(os.getpid()), answer, os.getpid()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._path.unlink(missing_ok=True)  # of a process that had the number before
            self._socket.bind(str(self._path))
            self._path.chmod(0o600)
            self._socket.listen(_BACKLOG)
            threads.start(threading.Thread(target=self._serve, name="npuprof-worker", daemon=True))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Listen no more; in a forked child, leave the socket of the parent as it is."""
        if os.getpid() == self._pid:
            with suppress(OSError):
                self._path.unlink()
        with suppress(OSError):
            self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connected, _ = self._socket.accept()
            except OSError:
                if self._socket.fileno() == -1:
                    return
                time.sleep(_PAUSE_S)
                continue
            with connected, suppress(Exception):  # whatever a peer does ends its own connection only
                if _user_of(connected) == os.geteuid():
                    self._serve_one(connected)

    def _serve_one(self, connected: socket.socket) -> None:
        request = json.loads(_line_of(connected))
        command, job = (request.get(name) if isinstance(request, Mapping) else None for name in ("command", "job"))
        if command not in _COMMANDS or not isinstance(job, str) or "\0" in job:
            return
        connected.settimeout(_PATIENCE_S)
        with suppress(OSError):  # who has given up waiting is obeyed all the same
            connected.sendall(_HEARD)
        text = self._answer(command, Path(job))
        connected.sendall(text.replace("\n", " ").encode(errors="replace")[: _MOST_BYTES - 1] + b"\n")


def _line_of(connected: socket.socket) -> bytes:
    """Return the line that a peer sends at once; an incomplete or too long one raises an error."""
    deadline, line = time.monotonic() + _PATIENCE_S, b""
    while not line.endswith(b"\n"):
        connected.settimeout(max(deadline - time.monotonic(), 0.001))
        part = connected.recv(_MOST_BYTES)
        line += part
        if not part or len(line) > _MOST_BYTES or time.monotonic() > deadline:
            raise OSError("no line")
    return line


@dataclass
class _Call:
    """One worker that is called: its socket, and what it has sent."""

    connected: socket.socket
    received: bytearray = field(default_factory=bytearray)


def ask(sockets: Mapping[int, Path], command: str, job: Path, patience_s: float) -> dict[int, str]:
    """Send a command to workers, and return the answers by process; empty where one did not answer in time."""
    answers = dict.fromkeys(sockets, "")
    request = json.dumps({"command": command, "job": str(job.absolute())}).encode() + b"\n"
    with selectors.DefaultSelector() as waiting:
        for pid, path in sockets.items():
            call = _Call(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            call.connected.setblocking(False)
            try:
                call.connected.connect(str(path))
                if _user_of(call.connected) != os.geteuid():
                    raise PermissionError("another user's")
                call.connected.sendall(request)
                waiting.register(call.connected, selectors.EVENT_READ, (pid, call))
            except OSError as error:
                call.connected.close()
                if isinstance(error, ConnectionRefusedError):  # the process has ended, and left its socket
                    with suppress(OSError):
                        path.unlink()
        began_s = time.monotonic()
        try:
            while calls := [key.data[1] for key in waiting.get_map().values()]:
                longest_s = patience_s if any(call.received for call in calls) else min(patience_s, _HEARD_S)
                if (left_s := began_s + longest_s - time.monotonic()) <= 0:
                    break
                for key, _ in waiting.select(min(left_s, _HEARD_S)):
                    pid, call = key.data
                    if _receive(call):
                        answers[pid] = bytes(call.received[len(_HEARD) :]).partition(b"\n")[0].decode(errors="replace")
                        waiting.unregister(call.connected)
                        call.connected.close()
        finally:
            for key in list(waiting.get_map().values()):
                key.data[1].connected.close()
    return answers


def _receive(call: _Call) -> bool:
    """Take what has come; return whether the answer is complete, or nothing more comes."""
    try:
        part = call.connected.recv(_MOST_BYTES)
    except BlockingIOError:
        return False
    except OSError:
        part = b""
    call.received += part
    return not part or b"\n" in part or len(call.received) > _MOST_BYTES

"""The folder of a job: the processes that a cell started, their recordings, and their facts.

Beside a recording for each process, the folder has ``processes.json``, written when the cell begins and when it ends,
and ``processes.jsonl``, to which each process appends a line when it begins, records, stops and ends.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from npuprof.files import atomic
from npuprof.recordings.recording import Recording
from npuprof.words.texts import repaired

FILE_NAME, LOG_NAME, WATCHED_NAME = "processes.json", "processes.jsonl", "watched"
_FORMAT = "npuprof-processes"
_MAX_BYTES, _MAX_LOG_BYTES = 1 << 20, 16 << 20
_STARTED = 19  # the field behind the name, in a process's state
_LEAST_AGE_NS = 2_000_000_000  # a process that has just appended a line may not have ended yet


@dataclass
class JobFile:
    """What ``processes.json`` has."""

    # name, options, cell: as in `Recording`; `options` are those that differ from the defaults.
    name: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    cell: dict[str, str] = field(default_factory=dict)
    # host, pid: of the process whose cell it is.
    host: str = ""
    pid: int = 0
    # started_ns, ended_ns: UTC epoch nanoseconds; `ended_ns` is 0 while the cell runs.
    started_ns: int = 0
    ended_ns: int = 0
    unknown: int = 0  # how many Python processes were seen that did not tell of themselves
    problems: list[str] = field(default_factory=list)  # what failed, in sentences
    # notebook, notebook_worked: the directory of the recording of the process whose cell it is, and whether it used a
    # front end itself; None before that is known.
    notebook: str = ""
    notebook_worked: bool | None = None

    def write(self, folder: Path) -> None:
        """Write it into a folder."""
        plain = {"format": _FORMAT, "version": 1, **repaired(asdict(self))}
        atomic.write(folder / FILE_NAME, json.dumps(plain, indent=1).encode())

    @classmethod
    def read(cls, folder: Path) -> JobFile | None:
        """Return the file of a folder; None if it has none that npuprof wrote."""
        from npuprof.files.small_files import read_fields, read_json  # takes a while to import

        path = folder / FILE_NAME
        try:
            plain = read_json(path, _MAX_BYTES) if path.is_file() else None
        except (OSError, ValueError):
            return None
        if not isinstance(plain, dict) or plain.get("format") != _FORMAT:
            return None
        return cls(**read_fields(cls, {each.name: plain[each.name] for each in fields(cls) if each.name in plain})[0])


@dataclass
class Process:
    """A process of a job, from its lines in the log."""

    # pid, host: its number, and the machine that it runs on.
    pid: int
    host: str = ""
    arguments: list[str] = field(default_factory=list)  # the words with which it was started, as far as they are known
    rank: int | None = None  # the rank that its launcher gave it; None without one
    path: str = ""  # the directory of its newest recording; empty without one
    unprofiled: str = ""  # why nothing is recorded of it; empty otherwise
    module: str = ""  # the module of a front end that it imported; empty if it imported none
    # stops, ended: whether it has begun to write its recording, and has ended that.
    stops: bool = False
    ended: bool = False
    last_ns: int = 0  # when it wrote its last line

    @property
    def title(self) -> str:
        """Its rank and number, in words."""
        return f"process {self.pid}" if self.rank is None else f"rank {self.rank} (process {self.pid})"

    def is_alive(self, host: str) -> bool:
        """Return whether it runs on this machine; False if it is of another."""
        if self.host not in ("", host):
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # a process of another user has taken its number
            return False
        return not _is_dead(self.pid)


def _is_dead(pid: int) -> bool:
    """Return whether a process has ended, and its parent has not asked how yet."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    return False


def born() -> list[int]:
    """Return what orders processes as they were started: the tick of the system's clock, and the process's number.

    Numbers rise, and wrap rarely; the ticks, of hundredths of a second, are those of the start, whatever it runs later.
    """
    with suppress(OSError, IndexError, ValueError):
        return [int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[_STARTED]), os.getpid()]
    return [0, os.getpid()]


def append(folder: Path, what: str, **facts: Any) -> None:
    """Append a line to the log; a failure is ignored, since the recording tells most of it, too."""
    line = json.dumps(repaired({"pid": os.getpid(), "at_ns": time.time_ns(), "what": what, **facts}))
    with suppress(OSError):
        number = os.open(folder / LOG_NAME, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.write(number, f"{line}\n".encode())
        finally:
            os.close(number)


def processes(folder: Path) -> list[Process]:
    """Return the processes that appended to a folder's log, in order of their begin."""
    newest: dict[int, Process] = {}  # the newest of each number, which may be given again
    listed: list[Process] = []
    for line in _lines(folder):
        pid, what = line.get("pid"), line.get("what")
        if not isinstance(pid, int) or not isinstance(what, str):
            continue
        if pid not in newest or (what == "began" and newest[pid].path):
            newest[pid] = Process(pid)
            listed.append(newest[pid])
        _take(newest[pid], what, line)
    return listed


def _take(process: Process, what: str, line: Mapping[str, Any]) -> None:
    kinds = {"host": str, "rank": int, "path": str, "module": str, "arguments": list}
    for name, kind in kinds.items():
        if isinstance(line.get(name), kind):
            setattr(process, name, line[name])
    if isinstance(line.get("at_ns"), int):
        process.last_ns = line["at_ns"]
    if what == "unprofiled":
        process.unprofiled = str(line.get("why", ""))
    elif what in ("recording", "stopping", "ended"):
        process.stops, process.ended = what != "recording", what == "ended"


def _lines(folder: Path) -> Iterator[Mapping[str, Any]]:
    try:
        with (folder / LOG_NAME).open("rb") as file:
            content = file.read(_MAX_LOG_BYTES)
    except OSError:
        return
    for text in content.splitlines():
        with suppress(ValueError, RecursionError):
            line = json.loads(text)
            if isinstance(line, dict):
                yield line


def python_processes_below(pid: int) -> set[int]:
    """Return the numbers of the Python processes that a process started, directly or not; empty where none are seen."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            children.setdefault(int(entry.read_bytes().rpartition(b")")[2].split()[1]), []).append(int(entry.parts[2]))
    pythons: set[int] = set()
    pending = list(children.get(pid, ()))
    while pending:
        each = pending.pop()
        pending += children.pop(each, ())
        if is_python(each):
            pythons.add(each)
    return pythons


def is_python(pid: int) -> bool:
    """Return whether a process runs Python now; False if it has ended, or where that cannot be seen."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name.startswith("python")
    except OSError:
        return False


def make(folder: Path, *, watched: bool = False) -> None:
    """Create the empty log of a folder; `watched` says that processes shall only say which front end they use."""
    for name in (LOG_NAME, *((WATCHED_NAME,) if watched else ())):
        os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def remove_log(folder: Path) -> None:
    """Remove the log of a folder whose processes were only watched."""
    for name in (LOG_NAME, WATCHED_NAME):
        with suppress(OSError):
            (folder / name).unlink()


def is_private(folder: Path) -> bool:
    """Return whether a folder is a directory of this user's that nobody else can read."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and status.st_mode & 0o170077 == 0o040000


def rank_of(recording: Recording) -> int | None:
    """Return the rank that a process of a job had, as its recording has it."""
    rank = recording.process.get("rank")
    return rank if isinstance(rank, int) and not isinstance(rank, bool) and rank >= 0 else None

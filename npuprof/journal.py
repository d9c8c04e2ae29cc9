"""A file that outlives its process: a line of JSON for each entry, written as soon as it is told.

A killed process takes along what it had in memory only. A line is written at once and not synced: it survives the
process, not the machine. What the lines hold :mod:`npuprof.sources.recording.journal` reads.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from npuprof import atomic

_MAX_BYTES = 64 << 20  # some 700,000 markers
_encoded = json.JSONEncoder(separators=(",", ":")).encode


class Journal:
    """One such file.

    Parameters
    ----------
    what
        What it keeps, in plain words.

    Attributes
    ----------
    problem
        Why it has ended before :meth:`close`, in plain words; empty where it has not.
    """

    def __init__(self, what: str) -> None:
        self.problem = ""
        self._what = what
        self._path: Path | None = None
        self._lock = threading.RLock()  # a number that was closed may be another file's at once
        self._number = -1
        self._pid = 0
        self._left_bytes = _MAX_BYTES

    def open(self, path: Path) -> None:
        """Make the file.

        Raises
        ------
        OSError
            If it cannot be made.
        """
        self._number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._path, self._pid = path, os.getpid()

    def write(self, entry: Any) -> None:
        """Write a line, where the file is open and this is the process that opened it; quick, and raises nothing."""
        if self._number < 0 or os.getpid() != self._pid:
            return
        line = f"{_encoded(entry)}\n".encode()
        try:
            with self._lock:
                if self._number < 0:
                    return
                self._left_bytes -= len(line)
                if self._left_bytes >= 0:
                    os.write(self._number, line)
                    return
            told = f"it has grown to {_MAX_BYTES >> 20} MiB"
        except OSError as error:
            told = atomic.reason(error, Path() if self._path is None else self._path.parent)
        self.problem = f"{self._what} are no longer kept as they come, and would be lost with the process: {told}"
        self.close()

    def close(self) -> None:
        """Write no more."""
        with self._lock:
            number, self._number = self._number, -1
        if number >= 0:
            os.close(number)

    def remove(self) -> None:
        """Remove the file: what it keeps is elsewhere now."""
        self.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

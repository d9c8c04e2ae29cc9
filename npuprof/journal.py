"""A file that survives when its process is killed: one line of JSON per entry, written immediately.

Lines are not synced: they survive the process, but not a crash of the machine.
:mod:`npuprof.sources.recording.journal` reads them.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from npuprof import atomic

_MAX_BYTES = 64 << 20  # about 700,000 markers
_encoded = json.JSONEncoder(separators=(",", ":")).encode


class Journal:
    """A journal file.

    Parameters
    ----------
    what
        A name of the contents, for messages.

    Attributes
    ----------
    problem
        Why writing ended before :meth:`close`; empty if it did not.
    """

    def __init__(self, subject: str) -> None:
        self.problem = ""
        self._what = subject
        self._path: Path | None = None
        self._lock = threading.RLock()  # a closed file descriptor may be reused immediately
        self._number = -1
        self._pid = 0
        self._left_bytes = _MAX_BYTES

    def open(self, path: Path) -> None:
        """Create the file.

        Raises
        ------
        OSError
            If the file cannot be created.
        """
        self._number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._path, self._pid = path, os.getpid()

    def write(self, entry: Any) -> None:
        """Write a line if the file is open and the process is not a forked child; fast, and never raises."""
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
            reason = f"it has grown to {_MAX_BYTES >> 20} MiB"
        except OSError as error:
            reason = atomic.reason(error, Path() if self._path is None else self._path.parent)
        self.problem = (
            f"{self._what} are no longer saved during the run, and are lost if the process is killed: {reason}"
        )
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            number, self._number = self._number, -1
        if number >= 0:
            os.close(number)

    def remove(self) -> None:
        """Remove the file, once its contents are stored elsewhere."""
        self.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

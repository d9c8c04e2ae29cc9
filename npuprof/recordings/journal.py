"""A file that survives when its process is killed: one line of JSON per entry, written immediately.

Lines are not synced: they survive the process, but not a crash of the machine. While the disk takes nothing, they wait
in memory. :mod:`npuprof.sources.recording.journal` reads them.
"""

from __future__ import annotations

import json
import os
import threading
import time
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuprof.files import atomic

_MAX_BYTES = 64 << 20  # about 700,000 markers
_AGAIN_S = 0.1  # between two tries to write to a disk that took nothing
_encoded = json.JSONEncoder(separators=(",", ":")).encode


class Journal:
    """A journal file.

    Attributes
    ----------
    outage
        Why the disk took nothing for a part of the run; empty if it took everything at once.
    """

    def __init__(self) -> None:
        self.outage = ""
        self._path = Path()
        self._lock = threading.RLock()  # a closed file descriptor may be reused immediately
        self._number = -1
        self._pid = 0
        self._left_bytes = _MAX_BYTES
        self._waiting = bytearray()
        self._again_s = 0.0

    def open(self, path: Path) -> None:
        """Create the file."""
        self._number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._path, self._pid = path, os.getpid()

    def write(self, entry: Any, packed: Mapping[str, bytes] | None = None) -> None:
        """Write a line if the file is open and the process is not a forked child; fast, and never raises.

        After 64 MiB, nothing is written any more.
        """
        if self._number < 0 or os.getpid() != self._pid:
            return
        line = f"{_encoded(entry)}\n".encode()
        if packed:
            more = (b',"%s":"%s"' % (name.encode(), b64encode(content)) for name, content in packed.items())
            line = line[:-2] + b"".join(more) + b"}\n"
        with self._lock:
            self._left_bytes -= len(line)
            if self._number < 0 or self._left_bytes < 0:
                return
            self._waiting += line
            if not self.outage or time.monotonic() >= self._again_s:
                try:
                    self.flush()
                except OSError as error:
                    self.outage = self.outage or atomic.reason(error, self._path.parent)
                    self._again_s = time.monotonic() + _AGAIN_S

    def flush(self) -> None:
        """Write the lines that wait in memory."""
        with self._lock:
            while self._waiting and self._number >= 0:
                del self._waiting[: os.write(self._number, self._waiting)]

    @property
    def waiting(self) -> bytes:
        """The lines that the file lacks; the first may be the rest of a line."""
        with self._lock:
            return bytes(self._waiting)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            number, self._number = self._number, -1
        if number >= 0:
            os.close(number)

    def remove(self) -> None:
        """Remove the file, once its contents are stored elsewhere."""
        self.close()
        if self._pid:
            self._path.unlink(missing_ok=True)

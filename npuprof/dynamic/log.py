"""The log that dynamic profiling keeps beside its configuration, one file a process."""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from pathlib import Path

from npuprof.texts import plain_line

_MAX_BYTES = 4 << 20  # a loop that runs for months should not fill the disk
_logger = logging.getLogger("npuprof.dynamic")


class Log:
    """Writes lines to ``log/npuprof_rank<r>_<pid>.log`` and passes them on to Python's logging.

    Parameters
    ----------
    folder
        The directory of the configuration.
    rank
        This process's rank.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self.path = folder / "log" / f"npuprof_rank{rank}_{os.getpid()}.log"

    def info(self, message: str) -> None:
        """Note what happens."""
        self._write(logging.INFO, message)

    def warning(self, message: str) -> None:
        """Note what is not done as asked."""
        self._write(logging.WARNING, message)

    def error(self, message: str) -> None:
        """Note what went wrong."""
        self._write(logging.ERROR, message)

    def _write(self, level: int, message: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        message = plain_line(message)
        line = f"{stamp} {logging.getLevelName(level)} {message}\n"
        with suppress(OSError):  # the training goes on, log or none
            self.path.parent.mkdir(mode=0o755, exist_ok=True)
            with self.path.open("a", encoding="utf-8", errors="replace") as file:
                if file.tell() < _MAX_BYTES:
                    file.write(line)
        _logger.log(level, "%s", message)

"""What torch_npu's profiler says while it is called: it prints its failures instead of raising them.

Its methods catch every exception and print a line; what it coerces is a line too. While such a call runs, these
lines are taken out of what is printed, so that the collector can raise or tell them. Everything else that is printed
meanwhile, by whatever thread, goes where it would have gone.

Source: collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import TextIO, cast

_MESSAGE = re.compile(r"\[[\d: -]+\] \[(INFO|WARNING|ERROR)\] \[\d+\] profiler\.py: (.*)")
_CODE = re.compile(r"\[ERROR\] .*\(PID:\d+.*\bERR\d+ .*")  # the vendor's error code, on a line of its own
_MOST_HELD = 1 << 16


@dataclass
class VendorMessages:
    """The lines of one or more calls, without their times and process numbers."""

    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def take(self, line: str) -> bool:
        """Take a line if it is one of torch_npu's profiler; tell whether it was."""
        match = _MESSAGE.fullmatch(line)
        if match is None:
            return _CODE.fullmatch(line) is not None
        if match[1] != "INFO":
            (self.errors if match[1] == "ERROR" else self.warnings).append(match[2].strip())
        return True


class _Sieve:
    """Stands in for a text stream, and lets through what is not torch_npu's."""

    def __init__(self, stream: TextIO, messages: VendorMessages) -> None:
        self._stream, self._messages, self._held = stream, messages, ""
        self._lock = threading.RLock()  # other threads of the user's may print meanwhile

    def write(self, text: str) -> int:
        with self._lock:
            self._held += text
            *lines, self._held = self._held.split("\n")
            for line in lines:
                if not self._messages.take(line):
                    self._stream.write(f"{line}\n")
            if self._held and (self._held[0] != "[" or len(self._held) > _MOST_HELD):
                self.let_go()
        return len(text)

    def let_go(self) -> None:
        """Pass on what is held of an unfinished line."""
        with self._lock:
            held, self._held = self._held, ""
            if held and not self._messages.take(held):
                self._stream.write(held)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def vendor_messages() -> Iterator[VendorMessages]:
    """Collect what torch_npu's profiler prints in the block."""
    messages = VendorMessages()
    sieve = _Sieve(sys.stdout, messages)
    with redirect_stdout(cast("TextIO", sieve)):
        try:
            yield messages
        finally:
            sieve.let_go()

"""The handler of interrupts (SIGINT), which native collectors replace and do not give back.

``aclprofInit`` installs one of its own, and a thread that raises SIGINT once more two seconds after a first one: by
then another cell runs. torch_npu, MindSpore and TensorFlow call the same library.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_MOST_BYTES = 1024  # struct sigaction has 152 of them on Linux


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Restore, when the block ends, the SIGINT handler that the process had before it, on any thread.

    ``signal.signal`` works on the main thread alone, and knows no handler but Python's: the C library's call is used.
    """
    sigaction = ctypes.CDLL(None).sigaction
    before = ctypes.create_string_buffer(_MOST_BYTES)
    known = sigaction(signal.SIGINT, None, before) == 0
    try:
        yield
    finally:
        if known:
            sigaction(signal.SIGINT, before, None)

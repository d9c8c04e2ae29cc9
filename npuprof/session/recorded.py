"""A recording that this process made, and its tables once they have been asked for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from npuprof.recording import Recording

if TYPE_CHECKING:
    from npuprof.profiles import Profile


class Recorded:
    """What was recorded, by a collector of this process or by a tool that it ran.

    Attributes
    ----------
    recording
        Where it lies, and what is known of it.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._lock = threading.RLock()
        self._result: Profile | None = None

    def result(self) -> Profile:
        """Decode the recording, once.

        Raises
        ------
        SourceError
            If nothing of it can be decoded; it stays on disk.
        """
        with self._lock:
            if self._result is None:
                from npuprof.loading import load

                self._result = load(self.recording.directory)
            return self._result

    @property
    def decoded(self) -> Profile | None:
        """What :meth:`result` gave, if it has been called."""
        return self._result

"""The part of a session that takes facts of the user's, named as in the frameworks' profilers."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from npuprof.errors import OptionsError, SessionError
from npuprof.recording import held_metadata

if TYPE_CHECKING:
    from npuprof.session.active import Running


class HasMetadata(ABC):
    """Facts that go with the runs of a session."""

    _lock: threading.RLock
    _metadata: dict[str, Any]

    @property
    @abstractmethod
    def active(self) -> bool:
        """Whether the session has started and not stopped."""

    @property
    @abstractmethod
    def _run(self) -> Running | None:
        """The newest run that has begun."""

    def add_metadata(self, key: str, value: Any) -> None:
        """Attach a fact to the run that is collecting and to those that follow: anything that JSON can hold.

        Raises
        ------
        OptionsError
            If it is not, or is over a megabyte.
        SessionError
            If the session has stopped.
        """
        fact = held_metadata(key, value)
        with self._lock:
            if not self.active and self._run is not None:
                raise SessionError("add_metadata() needs a session that has not stopped: call it before stop()")
            self._metadata.update(fact)
            if (run := self._run) is not None and run.collecting:
                run.note_facts(fact)

    def add_metadata_json(self, key: str, value: Any) -> None:
        """Attach a fact that is JSON text already, or, as in the frameworks' examples, a list or another value.

        Raises
        ------
        OptionsError
            If the text is not JSON, JSON cannot hold the value, or it is over a megabyte.
        SessionError
            If the session has stopped.
        """
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:
                raise OptionsError(
                    f"metadata {key!r} is not JSON text ({error}): use add_metadata() for text"
                ) from None
        self.add_metadata(key, value)

"""A pending ``clear_output(wait=True)`` waits for the user's next output, not for a report of npuprof.

Front ends carry out a pending clear before the next output of the cell. Here it is sent right before that output, or at
the end of the cell, after the report: the user's outputs are cleared as without npuprof, and a report clears nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_OUTPUTS = frozenset({"stream", "display_data", "execute_result", "error", "clear_output"})


def _kind(message: Any) -> str:
    return str(message.get("msg_type", "")) if isinstance(message, dict) else str(message)


def _turns_outputs(kind: str, content: Any) -> bool:
    """Return whether a message redirects outputs into a widget or back: held outputs go where they belong."""
    data = content.get("data") if kind == "comm_msg" and isinstance(content, dict) else None
    return isinstance(data, dict) and "msg_id" in (data.get("state") or ())


class PendingClears:
    """Holds the pending clears of a kernel's cells; without a kernel there are none."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._publisher: Any = shell.display_pub
        self._lock = threading.RLock()
        self._held: list[Any] = []
        self._send: Callable[..., Any] | None = None
        self._is_own = False

    def install(self) -> None:
        """Hear of the clears on this thread, which runs the cells."""
        if hasattr(self._publisher, "register_hook") and hasattr(self._publisher, "session"):
            self._publisher.register_hook(self._heard)

    def uninstall(self) -> None:
        """Send held messages, and stop listening."""
        self.release()
        if hasattr(self._publisher, "unregister_hook"):
            self._publisher.unregister_hook(self._heard)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Have the outputs of the block, which are npuprof's, leave pending clears alone."""
        _flush()
        before, self._is_own = self._is_own, True
        try:
            yield
        finally:
            _flush()
            self._is_own = before

    def release(self) -> None:
        """Send held messages: the user's next output follows, or the cell has ended."""
        with self._lock:
            held, self._held = self._held, []
            if self._send is not None:
                vars(self._publisher.session).pop("send", None)
                send, self._send = self._send, None
                for message in held:
                    send(self._publisher.pub_socket, message, ident=self._publisher.topic)

    def _heard(self, message: Any) -> Any:
        """Return a message of this thread that is to be sent at once; None for a clear that is held."""
        if _kind(message) != "clear_output" or not message["content"].get("wait") or self._is_own:
            return message
        self.release()
        with self._lock:
            session = self._publisher.session
            self._send = session.send
            self._held.append(message)
            session.send = self._sent
        return None

    def _sent(self, stream: Any, message: Any, content: Any = None, *more: Any, **named: Any) -> Any:
        """Send a message of the session, after held messages if it is an output of the user."""
        kind = _kind(message)
        with self._lock:
            send = self._send or self._publisher.session.send
            if not self._is_own and (kind in _OUTPUTS or _turns_outputs(kind, content)):
                self.release()
        return send(stream, message, content, *more, **named)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a cell may have closed or replaced it
            stream.flush()

"""The threads on which what is pressed in a widget arrives.

JupyterLab from 4.4 on sends the messages of widgets to a subshell of the kernel (ipykernel 7), a thread that answers
while a cell runs. ipykernel from 7.2 on instead sends them where the widget was last written from, so that those of a
widget that a cell made would wait for the cell: for the panel's widgets that is turned off.
"""

from __future__ import annotations

import threading
from typing import Any


def answer_at_once(widget: Any) -> None:
    """Deliver the messages of a widget, and of all within it, where the front end sends them.

    Does nothing with kernels that do so by themselves.
    """
    seen: set[int] = set()
    waiting = [widget]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        comm: Any = getattr(one, "comm", None)
        if comm is not None and hasattr(comm, "_reply_subshell_for"):
            comm._reply_subshell_for = None  # the kernel asks for it by name, and takes None for none
        waiting += getattr(one, "children", ())


def close_all(widget: Any) -> None:
    """Take a widget and all within it out of the kernel."""
    for child in getattr(widget, "children", ()):
        close_all(child)
    widget.close()


def on_main_thread() -> bool:
    """Return whether this is the thread that runs cells."""
    return threading.current_thread() is threading.main_thread()
